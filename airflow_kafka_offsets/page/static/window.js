// One window: its proof, what audits found, who tried to load it and why that failed, and its ranges.
import { ask, bad, badge, duration, facts, failureWords, hash, lostCell, make, note, number, plural, runLink, table, time, timeAt, timeOf } from "./elements.js";

const MOST_RANGES = 200;

const loadedBy = (attempt) => make("span", {}, runLink(attempt) ?? (attempt.by_hand ? `${attempt.by_hand}, by hand` : "unknown"),
  attempt.try_number ? `, try ${attempt.try_number}` : "");

function failurePart(failure) {
  return make("div", { className: "failure" }, make("p", {}, ...failureWords(failure)),
    failure.message ? make("p", { className: "message" }, failure.message) : null);
}

// What a driver of an attempt has found. A window may be counted more than once, by a retry.
function foundText(run, isAgain) {
  if (run.problem) return bad(run.problem);
  if (run.written === null) return "no counts";
  return `${isAgain ? "counted again: " : ""}${number(run.read)} read, ${number(run.written)} written, in ${duration(run.seconds * 1000)}`;
}

function sinceText(attempt, answer) {
  if (attempt.begun_ms === null) return null;
  const isRunning = attempt.newest && answer.state === "loading";
  return `${timeAt(attempt.begun_ms)}${isRunning ? `, running for ${duration(Math.max(0, answer.now_ms - attempt.begun_ms))}` : ""}`;
}

function attemptPart(attempt, answer, counted) {
  const isPublished = answer.publication?.attempt === attempt.attempt, drivers = attempt.runs.filter((run) => run.problem || run.written !== null);
  const state = isPublished ? "published" : attempt.failure ? "failed" : drivers.length ? "proved" : "loading";
  const words = isPublished ? "published" : attempt.failure ? "failed" : drivers.length ? "counted" : attempt.newest && answer.state === "loading" ? "running" : "not ended";
  let seen = counted;
  const found = drivers.map((run) => [`Counts of ${run.run}`, foundText(run, seen++ > 0)]);
  const one = found.length === 1 ? [["Counts", found[0][1]]] : found;
  return make("section", { className: "attempt" }, make("h3", {}, `Attempt ${attempt.attempt} `, badge(state, words)),
    attempt.failure ? failurePart(attempt.failure) : null,
    facts([["Made by", loadedBy(attempt)], ["Began", sinceText(attempt, answer)], ...one, ["Lost before it", attempt.lost ? bad(plural(attempt.lost, "offset")) : null],
      ["Spark application", attempt.runs.map((run) => run.application_id).filter(Boolean).join(", ")]]));
}

// A load that was refused before an attempt began.
function refusalPart(refusal) {
  return make("section", { className: "attempt" }, make("h3", {}, "No attempt ", badge("failed", "refused")), failurePart(refusal.failure),
    facts([["Wanted by", loadedBy(refusal)], ["Refused", timeAt(refusal.refused_ms)]]));
}

function attemptParts(answer) {
  let counted = 0;
  const parts = answer.attempts.map((attempt) => {
    const part = attemptPart(attempt, answer, counted);
    counted += attempt.runs.filter((run) => run.written !== null && run.written !== undefined).length;
    return part;
  });
  if (answer.refusal) parts.push(refusalPart(answer.refusal));
  return parts.length ? parts.toReversed() : [note(answer.audits.length ? "Nothing of this package has loaded it." : "Nobody has tried to load it yet.")];
}

// What an audit of a table that something else has written has found, with the first ranges.
function auditPart(audit) {
  const rows = audit.ranges.map((range) => [range.problem.replace("_", " "), `${range.topic}-${range.partition}`, number(range.start_offset), number(range.last_offset), number(range.amount)]);
  return make("section", { className: "audit" }, make("h3", {}, `Audit of ${audit.table} `, badge(audit.found ? "lost" : "verified", audit.found ?? "complete")),
    audit.problem ? note(bad(audit.problem)) : null,
    facts([["Rows", number(audit.rows)], ["Records in the log", audit.records === null ? "not known any more" : number(audit.records)],
      ["Audited", timeAt(audit.audited_ms)], ["By", loadedBy(audit)], ["Missing records are in", audit.written]]),
    rows.length ? table(["Problem", "Partition", "From", "To", "Count"], rows, [2, 3, 4], "compact") : null,
    audit.more ? note(`The report has more ranges: ${audit.report}`) : null);
}

// Why ranges start, or end, where they do: each reason once, with the partitions that it is for if there are several.
function reasons(answer, side) {
  const by = new Map();
  for (const range of answer.ranges) by.set(range[side], [...(by.get(range[side]) ?? []), `${range.topic}-${range.partition}`]);
  return [...by].map(([evidence, partitions]) => answer.evidence[evidence] + (by.size === 1 ? "" : ` (${partitions.slice(0, 3).join(", ")}${partitions.length > 3 ? ` and ${number(partitions.length - 3)} more` : ""})`)).join("; ");
}

function rangesPart(answer) {
  const hasLost = answer.ranges.some((range) => range.lost), heads = ["Partition", "From", "Up to", "Offsets", ...(hasLost ? ["Lost"] : []), ...(answer.publication ? ["Rows"] : [])];
  const rows = answer.ranges.slice(0, MOST_RANGES).map((range) => [`${range.topic}-${range.partition}`, number(range.start_offset), number(range.end_offset),
    number(range.offsets), ...(hasLost ? [lostCell(range.lost)] : []), ...(answer.publication ? [number(range.rows)] : [])]);
  const left = answer.ranges.length - MOST_RANGES, [starts, ends] = [reasons(answer, "start_evidence"), reasons(answer, "end_evidence")];
  return [make("h3", {}, "Ranges"), table(heads, rows, [1, 2, 3, 4, 5], "compact"),
    left > 0 ? note(`${plural(left, "more partition")}: kafka-offsets ledger show lists them all.`) : null,
    note(starts === ends ? `At both ends: ${starts}.` : `Where they start: ${starts}. Where they end: ${ends}.`)];
}

const outputText = (each) => `${plural(each.rows, "row")}${each.output ? ` in ${each.output}` : ""}`;

function publicationFacts(publication) {
  if (!publication) return [];
  return [["Proof", publication.verdict], ["Published", `${time(publication.published_at)}, attempt ${publication.attempt}`],
    ["Read, written", `${number(publication.read)} records, ${plural(publication.written, "row")}`],
    ...publication.outputs.map((each) => [each.name ? `Output ${each.name}` : "Output", outputText(each)])];
}

export async function windowPanel(pipeline, window) {
  const answer = await ask(`pipelines/${encodeURIComponent(pipeline)}/windows/${encodeURIComponent(window)}`);
  return make("section", { className: "panel", tabIndex: -1, ariaLabel: `Window ${timeOf(answer.window)}` },
    make("a", { className: "close", href: hash("p", pipeline) }, "Close"), make("h2", {}, timeOf(answer.window)),
    make("p", {}, badge(answer.state, make("b", {}, answer.state), `. ${answer.said}`)),
    answer.again ? note("It is to be loaded again. Until then, readers get the rows that are published; a table refuses them while they may be replaced.") : null,
    facts([["Offsets", number(answer.offsets)], ["Lost before loading", answer.lost ? bad(plural(answer.lost, "offset")) : null],
      ...publicationFacts(answer.publication)]),
    ...answer.audits.map(auditPart), ...attemptParts(answer), ...rangesPart(answer),
    make("details", {}, make("summary", {}, "Manifest"), facts([["File", answer.manifest], ["sha256", answer.sha256], ["Isolation level", answer.isolation_level]])));
}
