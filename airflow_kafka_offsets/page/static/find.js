// Where a record is, by its partition and offset. The query is in the hash.
import { ask, badge, facts, failureWords, hash, make, number, runLink, timeOf, windowLink } from "./elements.js";

// An offset can be pasted as this page shows it.
const pasted = (name, text) => (name === "offset" ? text.replace(/[\s,]/g, "") : text);

export function findForm(pipeline, overview, question) {
  const field = (name, words, properties) => make("label", {}, words, make("input", {
    name, value: question.get(name) ?? "", autocomplete: "off", required: true, ...properties }));
  const topics = make("select", { name: "topic" }, ...overview.topics.map((topic) =>
    make("option", { value: topic, selected: topic === question.get("topic") }, topic)));
  return make("form", { className: "find", onsubmit: (event) => {
    event.preventDefault();
    const given = [...new FormData(event.target)].map(([name, value]) => [name, pasted(name, value)]);
    location.hash = `${hash("p", pipeline, "find")}?${new URLSearchParams(given)}`;
  } }, make("label", {}, "Topic", topics), field("partition", "Partition", { type: "number", min: "0" }),
  field("offset", "Offset", { inputMode: "numeric", pattern: "\\s*[0-9][0-9,]*\\s*", title: "A whole number", className: "offset" }),
  make("button", {}, "Find"));
}

const WHERE = {
  window: (place) => `In the window ${timeOf(place.window)}.`,
  lost: (place) => `Lost: Kafka no longer had it when the window ${timeOf(place.window)} was loaded.`,
  hole: (place) => `In no window: it is between ${timeOf(place.earlier)} and ${timeOf(place.later)}.`,
  before: (place) => `In no window: it is before the first one, ${timeOf(place.later)}.`,
  after: (place) => `In no window yet: it is after the last one, ${timeOf(place.earlier)}.`,
};

const MARKS = { lost: "lost", hole: "hole", before: "absent", after: "pinned" };

function placePart(pipeline, place) {
  const windows = [place.window, place.earlier, place.later].filter(Boolean);
  return [make("p", {}, badge(MARKS[place.where] ?? place.state, WHERE[place.where](place))),
    facts([["Window", make("span", {}, ...windows.flatMap((each, at) => [at ? ", " : "", windowLink(pipeline, each)]))],
      ["State", place.state], [place.state === "failed" ? "Tried by" : "Loaded by", runLink(place) ?? place.by_hand], ["Attempt", place.attempt],
      ["Why it failed", place.failure && make("span", {}, ...failureWords(place.failure))], ["Output", place.output], ["Audits", place.audits]])];
}

export async function foundRecord(pipeline, question) {
  const { places } = await ask(`pipelines/${encodeURIComponent(pipeline)}/records?${question}`);
  const record = `${question.get("topic")}-${question.get("partition")}, offset ${number(question.get("offset") || "0")}`;
  return make("section", { className: "panel", tabIndex: -1, ariaLabel: record }, make("a", { className: "close", href: hash("p", pipeline) }, "Close"), make("h2", {}, record), ...places.flatMap((place) => placePart(pipeline, place)),
    places.length ? null : make("p", {}, "No window has this partition."));
}
