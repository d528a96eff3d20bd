// What sensors are waiting for.
import { ask } from "./asking.js";
import { duration, make, note, plural, runLink, showAge, table, time } from "./elements.js";

const RUNS_ON = { triggerer: "the triggerer", worker: "a worker", rescheduled: "nothing, between two pokes" };
const namesText = (names, none) => (names === null ? "unknown" : names.join(", ") || none);

function timeLeft(wait, now) {
  if (wait.until_ms === null) return "see its Dag";
  return wait.until_ms > now ? duration(wait.until_ms - now) : "none: timing out now";
}

function waitRow(wait, now) {
  const since = wait.since_ms === null ? null : time(`${new Date(wait.since_ms).toISOString().slice(0, 19)}Z`);
  return [
    namesText(wait.groups, "no group"),
    namesText(wait.topics, "all its topics"),
    wait.awaited ?? "unknown: the trigger can't be read",
    since === null ? "unknown" : `${duration(Math.max(0, now - wait.since_ms))}, since ${since}`,
    timeLeft(wait, now),
    wait.map_index < 0 ? runLink(wait) : [runLink(wait), ` [${wait.map_index}]`],
    RUNS_ON[wait.on],
    wait.kafka_conn_id ?? "unknown",
  ];
}

export async function showWaits() {
  const answer = await ask("waits");
  showAge({ read_ms: answer.now_ms, now_ms: answer.now_ms });
  if (!answer.waits.length) return [make("h2", {}, "Waits"), note("No sensor of the Dags that you may read is waiting at this "
    + "moment. A sensor appears here while it is deferred, pokes, or is rescheduled.")];
  const list = table(["Group", "Topics", "Waits until", "Has waited", "Time left", "Task", "Runs on", "Connection"],
    answer.waits.map((wait) => waitRow(wait, answer.now_ms)));
  list.classList.add("cards");
  return [make("h2", {}, `Waits: ${plural(answer.waits.length, "sensor")}`), list,
    answer.more ? note("There are more sensors. These have waited longest.") : null,
    note("This list is from Airflow's database, not from Kafka. A wait's progress is in the task's log or in the triggerer's; ",
      make("code", {}, "kafka-offsets lag GROUP"), " shows how far behind a group is now.")];
}
