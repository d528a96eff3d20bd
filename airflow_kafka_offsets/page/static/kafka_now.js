// Kafka as it is now, when somebody presses the button.
import { ask } from "./asking.js";
import { bad, duration, make, note, number, table, timeAt } from "./elements.js";

const unknown = (text) => (text === null ? "unknown" : number(text));
const some = (text) => (text !== null && text !== "0" ? bad(number(text)) : unknown(text));

function topicName(topic) {
  const wrong = [topic.recreated ? "re-created since the newest window: its offsets have started again" : null,
    topic.truncated ? `the log ends before what was loaded, on ${number(topic.truncated)} of ${number(topic.partitions)} partitions` : null];
  return [topic.topic, ...wrong.filter(Boolean).map((words) => make("div", { className: "bad" }, words))];
}

const retention = (ms) => (ms === null ? "unknown" : ms < 0 ? "forever" : duration(ms));

function groupCells(topic) {
  return [unknown(topic.committed),
    [make("div", {}, unknown(topic.lag)), ...topic.remarks.map((words) => make("div", { className: "note" }, words))]];
}

function told(answer) {
  const group = answer.group === null ? [] : [`Committed by ${answer.group}`, "Not read by it"];
  const rows = answer.topics.map((topic) => [topicName(topic), number(topic.log_start), number(topic.log_end),
    topic.truncated === null ? "nothing published yet" : unknown(topic.unloaded), topic.truncated === null ? "" : some(topic.gone), retention(topic.retention_ms),
    ...(answer.group === null ? [] : groupCells(topic))]);
  const list = table(["Topic", "Log start", "Log end", "Not loaded", "Deleted before loading", "Retention", ...group], rows, [1, 2, 3, 4, 6, 7]);
  list.classList.add("cards");
  return [list, note(`Kafka's answer at ${timeAt(answer.asked_ms)}. Offsets are sums over all partitions. Not loaded: offsets in no published window, between windows and after the last one.`)];
}

export function kafkaNow(pipeline) {
  const result = make("div", { role: "status" }), button = make("button", {}, "Ask Kafka now");
  const form = make("form", { onsubmit: async (event) => {
    event.preventDefault();
    const group = new FormData(form).get("group");
    button.disabled = true;
    result.replaceChildren(note("Asking Kafka. This may take up to 20 seconds \u2026"));
    const parts = await ask(`pipelines/${encodeURIComponent(pipeline)}/now${group ? `?${new URLSearchParams({ group })}` : ""}`).then(told,
      (error) => [make("p", { className: "bad", role: "alert" }, error.message)]);
    result.replaceChildren(...parts);
    button.disabled = false;
  } }, make("label", {}, "Consumer group, if any", make("input", { name: "group", autocomplete: "off" })), button);
  return make("div", { className: "now" }, make("h3", {}, "Kafka at this moment"), form, result);
}
