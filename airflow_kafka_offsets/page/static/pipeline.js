// One pipeline: what is wrong, the list of its windows, and beside it what was opened.
import { completeCell, dueText, lateness, lateWords, retentionCell, retentionWords } from "./lateness.js";
import { alertNote, ask, bad, badge, dagLink, duration, facts, hash, linked, make, note, plural, showAge, windowLink } from "./elements.js";
import { findForm, foundRecord } from "./find.js";
import { timePanel } from "./over_time.js";
import { windowPanel } from "./window.js";
import { windowsHead, windowsList } from "./windows.js";

const problem = (state, ...words) => make("li", {}, badge(state, ...words));
// Words of the ledger, as its commands print them, are the title.
const toldProblem = (state, pipeline, words, before = "", after = null) => make("li", { title: words }, badge(state, before, ...linked(pipeline, words), "."), after);

// What somebody on call has to know, the most urgent first.
function problems(pipeline, overview, { schedules, now_ms: now }) {
  const found = [], late = lateness(overview, schedules, now), retention = retentionWords(overview, now), failed = overview.states.failed ?? 0;
  if (retention) found.push(problem("late", ...retention));
  if (late?.isLate) found.push(problem("late", ...lateWords(overview, schedules, now)));
  for (const each of overview.failures) found.push(problem("failed", "Failed: ", windowLink(pipeline, each.window), `. ${each.why} (${each.error}). ${each.helps}.`));
  if (failed > overview.failures.length) found.push(problem("failed", `${plural(failed - overview.failures.length, "more failed load")} before these.`));
  for (const words of overview.audits) found.push(toldProblem("lost", pipeline, words));
  for (const words of overview.losses) found.push(toldProblem("lost", pipeline, words, "Lost before it was loaded: "));
  for (const { words, filled_by: [command, other] } of overview.holes) found.push(toldProblem("hole", pipeline, words, "",
    command ? make("div", { className: "note" }, "To load it: ", make("code", {}, command), other ? `, or ${other}.` : ".") : null));
  for (const words of overview.restarts) found.push(toldProblem("lost", pipeline, words));
  return found.length ? make("ul", { className: "problems" }, ...found) : make("p", { className: "fine" }, badge("verified", "Nothing is late, lost or missing."));
}

const listed = (items) => make("span", {}, ...items.flatMap((item, place) => (place ? [", ", item] : [item])));

function pipelineFacts(pipeline, overview, { schedules, now_ms: now }) {
  const late = lateness(overview, schedules, now), backfills = overview.next?.backfills ?? 0;
  const dags = overview.dag_ids.map((dagId) => make("span", {}, dagLink(dagId), schedules?.[dagId]?.paused ? " (paused)" : ""));
  return facts([
    ["Late", late === null ? "no window yet" : late.isLate ? badge("late", bad(duration(late.ms))) : dueText(late, overview)],
    ["Complete up to", completeCell(overview, now)],
    ["Retention left", retentionCell(overview, now)],
    ["Newest published", overview.published === null ? "nothing yet" : windowLink(pipeline, overview.published)],
    ["Backfill", backfills ? `${plural(backfills, "window")} not published yet` : null],
    ["Loaded by", dags.length ? listed(dags) : "no attempt names a Dag"],
    ["Offsets over time", listed(overview.topics.map((topic) => make("a", { href: hash("p", pipeline, "t", topic) }, topic)))],
  ], "tiles");
}

async function openedPart(pipeline, rest, question) {
  if (rest[0] === "w") return windowPanel(pipeline, rest[1]).catch(alertNote);
  return rest[0] === "find" ? foundRecord(pipeline, question).catch(alertNote) : null;
}

export async function showPipeline(pipeline, rest, question) {
  const before = question.get("before");
  const answer = await ask(`pipelines/${encodeURIComponent(pipeline)}${before ? `?before=${encodeURIComponent(before)}` : ""}`), { overview } = answer;
  showAge(answer);
  if (rest[0] === "t") return [await timePanel(pipeline, overview, rest[1], question).catch(alertNote)];
  const opened = await openedPart(pipeline, rest, question);
  return [make("h1", {}, pipeline), problems(pipeline, overview, answer), pipelineFacts(pipeline, overview, answer),
    make("div", { className: "split" },
      make("section", { className: "list" }, make("h2", {}, windowsHead(answer)), ...windowsList(pipeline, answer, rest[0] === "w" ? rest[1] : null, before)),
      make("aside", {}, opened ? make("div", { className: "opened" }, opened) : null, make("div", { className: "tools" },
        make("h2", {}, "Where is a record?"), findForm(pipeline, overview, question))))];
}
