// What sensors are waiting for, and how far they have come.
import { alertNote, ask, bad, duration, make, note, plural, runLink, showAge, table, timeAt } from "./elements.js";

const namesText = (names, none) => (names === null ? "unknown" : names.join(", ") || none);
const quiet = (...words) => make("div", { className: "note" }, ...words);

function timeLeft(wait, now) {
  if (wait.until_ms === null) return "no end";
  return wait.until_ms > now ? duration(wait.until_ms - now) : bad("none: timing out now");
}

// What it waits for, and how far it had come when it began to wait.
function awaited(wait) {
  return [make("div", {}, wait.awaited ?? "unknown: the trigger can't be read"),
    quiet(`Group: ${namesText(wait.groups, "none")}. Topics: ${namesText(wait.topics, "all of the group")}. Connection: ${wait.kafka_conn_id ?? "unknown"}.`)];
}

function waitRow(wait, now) {
  return [
    [runLink(wait), wait.map_index < 0 ? "" : ` [${wait.map_index}]`],
    awaited(wait),
    wait.now ?? [make("div", {}, wait.said ?? "see the task's log"), wait.said === null ? "" : quiet("when it was deferred")],
    wait.since_ms === null ? "unknown" : [make("div", {}, duration(Math.max(0, now - wait.since_ms))), quiet(`since ${timeAt(wait.since_ms)}`)],
    timeLeft(wait, now),
  ];
}

// Kafka is asked when somebody presses the button.
function askButton(refresh) {
  const button = make("button", { type: "button", onclick: async () => {
    button.disabled = true;
    button.textContent = "Asking Kafka \u2026";
    refresh(await ask("waits/now").catch((error) => error));
  } }, "Ask Kafka how far they are");
  return button;
}

export async function showWaits() {
  const screen = make("div", {}), show = (answer, error) => screen.replaceChildren(...waitsParts(answer, error, (next) =>
    (next instanceof Error ? show(answer, next) : show(next))).filter(Boolean));
  show(await ask("waits"));
  return [screen];
}

function waitsParts(answer, error, refresh) {
  showAge({ read_ms: answer.now_ms, now_ms: answer.now_ms });
  if (!answer.waits.length) return [make("h1", {}, "Waits"), note("No sensor of the Dags that you may read is deferred at this moment.")];
  return [make("h1", {}, `Waits: ${plural(answer.waits.length, "sensor")}`),
    answer.asks_kafka ? make("p", {}, askButton(refresh), answer.asked_ms ? ` Asked at ${timeAt(answer.asked_ms)}.` : "") : null, error ? alertNote(error) : null,
    table(["Task", "Waits until", "How far", "Has waited", "Time left"], answer.waits.map((wait) => waitRow(wait, answer.now_ms))),
    answer.more ? note("There are more sensors. These have waited longest.") : null,
    note("This list is from Airflow's database. The task's log has each check; ", make("code", {}, "kafka-offsets lag GROUP"), " shows how far behind a group is now.")];
}
