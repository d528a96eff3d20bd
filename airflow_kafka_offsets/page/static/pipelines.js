// All pipelines, those with problems first.
import { completeCell, lateCell, lateness, retentionCell, retentionLeft } from "./lateness.js";
import { ask, bad, badge, hash, make, note, number, plural, showAge, svg, table } from "./elements.js";

function sparkLine(values) {
  const width = 150, height = 26, most = Math.max(1, ...values), step = Math.min(8, width / values.length);
  const words = `Rows in each of the last ${values.length} published windows; the maximum is ${number(most)}`;
  return svg("svg", { width, height, role: "img", "aria-label": words }, ...values.map((value, place) => {
    const tall = Math.max(1, (value / most) * height);
    return svg("rect", { x: place * step, y: height - tall, width: Math.max(1, step - 1), height: tall, fill: "currentColor" });
  }));
}

const isWrong = (row) => Boolean(row.error || row.lost_offsets || row.gone_offsets || row.holes.length || row.audits.length || row.states.failed);

// A window that something else loads is audited, and nobody will begin to load it.
function loads({ states, audited }) {
  const { failed = 0, pinned = 0, loading = 0, proved = 0 } = states, waiting = pinned - audited, parts = [];
  if (failed) parts.push(badge("failed", bad(`${number(failed)} failed`)));
  if (loading + proved) parts.push(badge("loading", `${number(loading + proved)} being loaded`));
  if (waiting) parts.push(badge("pinned", `${number(waiting)} not begun`));
  if (audited) parts.push(badge("pinned", `${number(audited)} only audited`));
  return parts.length ? parts.map((each) => make("div", {}, each)) : badge("published", "all published");
}

function missing(row) {
  const told = [], gone = row.failures.filter((each) => each.error === "DataLossError").length;
  if (gone) told.push(`records of ${plural(gone, "failed window")} deleted`);
  if (row.lost_offsets) told.push(`${plural(row.lost_offsets, "offset")} lost`);
  if (row.gone_offsets) told.push(`${plural(row.gone_offsets, "unloaded offset")} deleted`);
  if (row.holes.length) told.push(plural(row.holes.length, "hole"));
  if (row.audits.length) told.push(plural(row.audits.length, "incomplete audit"));
  return told.length ? told.map((words) => make("div", {}, badge("lost", bad(words)))) : "nothing";
}

function pipelineRow(row, { schedules, now_ms: now }) {
  if (row.error) return [row.pipeline, bad(row.error), "", "", "", "", ""];
  return [
    [make("a", { href: hash("p", row.pipeline) }, row.pipeline), make("div", { className: "note" }, row.topics.join(", "))],
    lateCell(row, schedules, now), completeCell(row, now), retentionCell(row, now), missing(row), loads(row),
    row.rows.length ? sparkLine(row.rows) : "",
  ];
}

export async function showPipelines() {
  const answer = await ask("pipelines"), rank = (row) => (row.error ? 4 : 2 * isWrong(row) + (lateness(row, answer.schedules, answer.now_ms)?.isLate || retentionLeft(row, answer.now_ms).urgent ? 1 : 0));
  const oldest = Math.min(...answer.pipelines.filter((row) => row.read_ms).map((row) => row.read_ms));
  showAge({ read_ms: Number.isFinite(oldest) ? oldest : 0, now_ms: answer.now_ms });
  if (!answer.pipelines.length) return [make("h1", {}, "Pipelines"), note(
    "There is no pipeline that you may see. A pipeline appears once the first run of its Dag has pinned a window in the "
    + "ledger ([kafka_offsets] ledger_root), for users who may read that Dag.")];
  return [make("h1", {}, "Pipelines"), table(
    ["Pipeline", "Late", "Complete up to", "Retention left", "Lost or missing", "Loads", "Rows per window"],
    answer.pipelines.toSorted((one, other) => rank(other) - rank(one)).map((row) => pipelineRow(row, answer)))];
}
