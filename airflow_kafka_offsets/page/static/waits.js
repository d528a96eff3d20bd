// What sensors are waiting for, and how far they have come.
import { ask } from "./asking.js";
import { bad, duration, make, note, plural, runLink, showAge, table, timeAt } from "./elements.js";

const RUNS_ON = { triggerer: "on the triggerer", worker: "on a worker", rescheduled: "between two pokes" };
const namesText = (names, none) => (names === null ? "unknown" : names.join(", ") || none);
const quiet = (...words) => make("div", { className: "note" }, ...words);

function timeLeft(wait, now) {
  if (wait.until_ms === null) return "see its Dag";
  return wait.until_ms > now ? duration(wait.until_ms - now) : bad("none: timing out now");
}

// What it waits for, and how far it had come when it began to wait.
function awaited(wait) {
  return [make("div", {}, wait.awaited ?? "unknown: the trigger can't be read"),
    quiet(`Group: ${namesText(wait.groups, "none")}. Topics: ${namesText(wait.topics, "all of the group")}. Connection: ${wait.kafka_conn_id ?? "unknown"}.`)];
}

function waitRow(wait, now) {
  return [
    [runLink(wait), wait.map_index < 0 ? "" : ` [${wait.map_index}]`, quiet(RUNS_ON[wait.on])],
    awaited(wait),
    wait.said ?? "see the task's log",
    wait.since_ms === null ? "unknown" : [make("div", {}, duration(Math.max(0, now - wait.since_ms))), quiet(`since ${timeAt(wait.since_ms)}`)],
    timeLeft(wait, now),
  ];
}

export async function showWaits() {
  const answer = await ask("waits");
  showAge({ read_ms: answer.now_ms, now_ms: answer.now_ms });
  if (!answer.waits.length) return [make("h1", {}, "Waits"), note("No sensor of the Dags that you may read is waiting at this "
    + "moment. A sensor appears here while it is deferred, pokes, or is rescheduled.")];
  return [make("h1", {}, `Waits: ${plural(answer.waits.length, "sensor")}`),
    table(["Task", "Waits until", "At its first check", "Has waited", "Time left"], answer.waits.map((wait) => waitRow(wait, answer.now_ms))),
    answer.more ? note("There are more sensors. These have waited longest.") : null,
    note("This list is from Airflow's database. Later checks are in the task's log; ", make("code", {}, "kafka-offsets lag GROUP"), " shows how far behind a group is now.")];
}
