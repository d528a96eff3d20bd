// Kafka as it is now, when somebody presses the button.
import { ask } from "./asking.js";
import { alertNote, bad, duration, facts, make, note, number, plural, timeAt } from "./elements.js";

const unknown = (text) => (text === null ? "unknown" : number(text));
const some = (text) => (text !== null && text !== "0" ? bad(number(text)) : unknown(text));

const retention = (ms) => (ms === null ? "unknown" : ms < 0 ? "forever" : duration(ms));

function groupFacts(topic, group) {
  if (group === null) return [];
  return [[`Committed by ${group}`, unknown(topic.committed)],
    ["Not read by it", make("span", {}, unknown(topic.lag), ...topic.remarks.map((words) => make("div", { className: "note" }, words)))]];
}

function topicPart(topic, group) {
  const wrong = [topic.recreated ? "It was re-created since the newest window: its offsets have started again." : null,
    topic.truncated ? `The log ends before what was loaded, on ${number(topic.truncated)} of ${plural(topic.partitions, "partition")}.` : null];
  return make("section", {}, make("h3", {}, topic.topic), ...wrong.filter(Boolean).map((words) => make("p", { className: "bad" }, words)),
    facts([["Not loaded", topic.truncated === null ? "nothing published yet" : unknown(topic.unloaded)], ["Deleted before loading", topic.truncated === null ? null : some(topic.gone)],
      ["Log start", number(topic.log_start)], ["Log end", number(topic.log_end)], ["Retention", retention(topic.retention_ms)], ...groupFacts(topic, group)]));
}

function told(answer) {
  return [...answer.topics.map((topic) => topicPart(topic, answer.group)),
    note(`Kafka's answer at ${timeAt(answer.asked_ms)}. Offsets are sums over all partitions. Not loaded: offsets in no published window, between windows and after the last one.`)];
}

export function kafkaNow(pipeline) {
  const result = make("div", { role: "status" }), button = make("button", {}, "Ask Kafka now");
  const form = make("form", { onsubmit: async (event) => {
    event.preventDefault();
    const group = new FormData(form).get("group");
    button.disabled = true;
    result.replaceChildren(note("Asking Kafka. This may take up to 20 seconds \u2026"));
    const parts = await ask(`pipelines/${encodeURIComponent(pipeline)}/now${group ? `?${new URLSearchParams({ group })}` : ""}`).then(told,
      (error) => [alertNote(error)]);
    result.replaceChildren(...parts);
    button.disabled = false;
  } }, make("label", {}, "Consumer group, if any", make("input", { name: "group", autocomplete: "off" })), button);
  return make("div", { className: "now" }, make("h2", {}, "Kafka at this moment"), form, result);
}
