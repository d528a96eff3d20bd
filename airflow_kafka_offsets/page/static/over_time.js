// One topic over time: the chart, how fast the topic grows, what isn't loaded, and how long Kafka keeps it.
import { ask, duration, facts, hash, legend, make, note, number, perSecond, plural, timeAt } from "./elements.js";
import { retentionOf } from "./lateness.js";
import { seenInTime } from "./moments.js";
import { offsetsChart } from "./offsets_chart.js";

const MOST = ["100", "400"];

// How fast the log grows, and whether the delay of resolving instants grows.
function paceFacts(points) {
  const last = points.at(-1), before = points.at(-11) ?? points[0], ms = last.resolved_at_ms - before.resolved_at_ms;
  const instants = points.filter((point) => point.as_of_instant).sort((one, other) => one.at_ms - other.at_ms);
  const delays = instants.map((point) => point.resolved_at_ms - point.at_ms), newest = delays.pop();
  const ten = delays.slice(-10).sort((one, other) => one - other), usual = ten[Math.floor(ten.length / 2)];
  return [["Written lately", perSecond(BigInt(last.log_end) - BigInt(before.log_end), ms)],
    ["Newest instant", ten.length ? `looked up ${duration(newest)} after it had passed; usually it takes ${duration(usual)}` : null]];
}

function queryOf(topic, question) {
  const asked = new URLSearchParams({ topic, most: question.get("most") || MOST[0] });
  if (question.get("partition")) asked.set("partition", question.get("partition"));
  return asked;
}

function choices(pipeline, topic, answer, question) {
  const form = make("form", { onsubmit: (event) => {
    event.preventDefault();
    const given = [...new FormData(form)].filter(([, value]) => value !== "");
    location.hash = `${hash("p", pipeline, "t", topic)}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
  } }, make("label", {}, `Partition (0 to ${answer.partitions - 1}; empty for all)`, make("input", {
    name: "partition", type: "number", min: "0", max: String(answer.partitions - 1), value: question.get("partition") ?? "" })),
  make("label", {}, "How far back", make("select", { name: "most" }, ...MOST.map((value) =>
    make("option", { value, selected: value === question.get("most") }, `${value} snapshots`)))), make("button", {}, "Show"));
  return form;
}

function remark(answer) {
  const left = answer.points.length - seenInTime(answer).length;
  return left ? note(`${plural(left, "snapshot")} can't be compared with the others, and ${left === 1 ? "is" : "are"} left out: taken long after these windows, as a backfill's are, or without partitions that were there before.`) : null;
}

export async function timePanel(pipeline, overview, topic, question) {
  const answer = await ask(`pipelines/${encodeURIComponent(pipeline)}/offsets?${queryOf(topic, question)}`);
  // A backfill's snapshot may lack partitions that were added later, so its sums would be too low.
  const most = Math.max(...answer.points.map((point) => point.partitions));
  const whole = answer.points.filter((point) => point.partitions === most), last = whole.at(-1);
  const reaches = retentionOf({ ...overview, retention_ms: answer.retention_ms });
  return make("section", { className: "panel wide", tabIndex: -1, ariaLabel: "Offsets over time" },
    make("h1", {}, answer.partition === null ? `${topic}: offsets over time, the sum of ${plural(answer.partitions, "partition")}`
      : `${topic}-${answer.partition}: offsets over time`),
    make("p", {}, make("a", { href: hash("p", pipeline) }, `Back to ${pipeline}`)), choices(pipeline, topic, answer, question),
    facts([["Log end", `${number(last.log_end)}, seen ${timeAt(last.resolved_at_ms)}`],
      ["Not loaded at that time", last.unloaded === null ? null : `${plural(BigInt(last.unloaded), "offset")} in no published window, including holes and failed loads; the newest loaded one had ended ${duration(last.behind_ms)} before`],
      ...paceFacts(whole),
      ["Retention", answer.retention_ms === null ? "unknown" : answer.retention_ms < 0 ? "forever" : duration(answer.retention_ms)],
      ["Retention may delete unloaded records from", reaches === null ? null : `${timeAt(reaches)} at the earliest`]]),
    offsetsChart(answer, reaches, (each) => { location.hash = hash("p", pipeline, "w", each.window); }),
    remark(answer), legend(),
    note("Coloured bands are windows, by state. Log ends, log starts and what was loaded are as of the time when each snapshot "
      + "was resolved. What isn't loaded is counted from the start of the first of these windows."));
}
