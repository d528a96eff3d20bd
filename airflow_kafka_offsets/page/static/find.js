// Where a record is: by its partition or key, and its offset or time. The query is in the hash.
import { ask } from "./asking.js";
import { badge, facts, hash, lostCell, make, note, number, runLink, table, time, timeOf, windowLink } from "./elements.js";

// Offsets and times can be pasted as this page shows them.
const PASTED = {
  offset: (text) => text.replace(/[\s,]/g, ""),
  at: (text) => text.trim().replace(/^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(:\d\d(\.\d+)?)?)$/, "$1T$2Z"),
};

export function findForm(pipeline, overview, question) {
  const field = (name, words, properties = {}) => make("label", {}, words, make("input", {
    name, value: question.get(name) ?? "", autocomplete: "off", ...properties }));
  const topics = make("select", { name: "topic" }, ...overview.topics.map((topic) =>
    make("option", { value: topic, selected: topic === question.get("topic") }, topic)));
  const either = (one, other) => make("span", { className: "either" }, one, make("span", {}, "or"), other);
  const form = make("form", { className: "find", onsubmit: (event) => {
    event.preventDefault();
    const given = [...new FormData(form)].map(([name, value]) => [name, (PASTED[name] ?? String)(value)]).filter(([, value]) => value !== "");
    location.hash = `${hash("p", pipeline, "find")}?${new URLSearchParams(given)}`;
  } }, make("label", {}, "Topic", topics),
  either(field("partition", "Partition", { type: "number", min: "0" }), field("key", "Key")),
  either(field("offset", "Offset", { inputMode: "numeric", pattern: "\\s*[0-9][0-9,]*\\s*", title: "A whole number", className: "offset" }),
    field("at", "Time (UTC)", { placeholder: "2026-11-21 06:00", className: "time" })),
  make("button", {}, "Find the record"));
  return form;
}

const placeFacts = (pipeline, place) => facts([["Window", place.window && windowLink(pipeline, place.window)], ["Revision", place.revision],
  ["Loaded by", runLink(place)], ["Attempt", place.attempt], ["Output", place.output]]);

function keyPart(key) {
  if (!key) return [];
  const counts = key.partitions.map((each) => `partition ${each.partition} of ${each.partition_count}`
    + (key.partitions.length > 1 ? ` (since ${time(each.since)})` : ""));
  return [facts([["Key", make("bdi", {}, JSON.stringify(key.key))], ["Belongs to", counts.join("; before, ")]]),
    ...key.remarks.map((words) => note(words))];
}

function windowPart(pipeline, window) {
  return [make("h3", {}, badge(window.state, `${timeOf(window.window)}: ${window.found}`)), placeFacts(pipeline, window),
    ...window.remarks.map((remark) => note(remark)),
    table(["Partition", "From", "Up to", "Offsets", "Lost"], window.ranges.map((range) => [String(range.partition),
      number(range.start_offset), number(range.end_offset), number(range.offsets), lostCell(range.lost)]), [0, 1, 2, 3, 4])];
}

export async function foundRecord(pipeline, question) {
  const found = await ask(`pipelines/${encodeURIComponent(pipeline)}/records?${question}`);
  const topic = question.get("topic"), offset = question.get("offset");
  return make("section", { className: "panel", tabIndex: -1 }, ...keyPart(found.key),
    ...found.places.flatMap((place) => [make("h3", {}, `${topic}-${place.partition}, offset ${offset}: ${place.found}`), placeFacts(pipeline, place)]),
    ...found.windows.flatMap((window) => windowPart(pipeline, window)),
    found.nowhere ? make("p", {}, `${time(found.at)}: ${found.nowhere}`) : null);
}
