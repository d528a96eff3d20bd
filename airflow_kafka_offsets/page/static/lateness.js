// What is late, and by how much; and how long retention leaves. Both are from a pipeline's overview and the clock.
import { DAY, bad, betweenMs, dagLink, duration, make, plural, timeAt, timeOf, windowLink } from "./elements.js";

const MINUTE = 60000;

// When a window that ends then is due, and whether it is late: if it takes more than twice the usual delay.
function dueAt(end, next, now) {
  const due = end + next.delay_ms;
  return { due, ms: now - due, isLate: now - due > Math.max(MINUTE, next.delay_ms) };
}

// The interval that the schedule of the pipeline's only Dag gives its next run.
function planned(row, schedules) {
  const known = row.dag_ids.map((dagId) => schedules?.[dagId]).filter(Boolean);
  return known.length === 1 ? known[0].next : null;
}

// What is to be loaded next, and whether it is late; null if nothing tells.
export function lateness(row, schedules, now) {
  const next = row.next, plan = planned(row, schedules);
  if (!next) return null;
  const end = next.window === null && plan && plan[0] <= next.start_ms && next.start_ms < plan[1] ? plan[1] : next.end_ms;
  return { ...dueAt(end, next, now), start: next.start_ms, end };
}

// Whether a window of the list is late; null if it is published, or a backfill's.
export const latenessOf = (entry, next, now) =>
  (entry.published_ms === null && !entry.audits && !entry.backfill && next ? dueAt(Date.parse(entry.end), next, now) : null);

// The time after the last window, if windows are due there by now. However late it is, a single increment has all of it.
export function missingAfter(last, row, schedules, now) {
  const next = row.next, plan = planned(row, schedules), start = Date.parse(last.end), count = next ? Math.floor((now - start) / next.length_ms) : 0;
  if (count < 1 || (plan && plan[0] <= start && now < plan[1])) return null;
  return { start, end: start + count * next.length_ms, count: next.increments ? 1 : count, ...dueAt(start + next.length_ms, next, now) };
}

const pausedDags = (row, schedules) => row.dag_ids.filter((dagId) => schedules?.[dagId]?.paused);

const NEXT_IS = {
  pinned: "no load has begun", loading: "it is being loaded", failed: "its load failed", proved: "it is proved, but not published yet",
};

// A sentence for somebody on call.
export function lateWords(row, schedules, now) {
  const late = lateness(row, schedules, now), paused = pausedDags(row, schedules);
  const what = row.next.window === null ? [`no window is pinned for ${betweenMs(late.start, late.end)}`]
    : [windowLink(row.pipeline, row.next.window), `: ${NEXT_IS[row.next.state] ?? row.next.state}`];
  return [`Late by ${duration(late.ms)}: `, ...what, `; it was due at ${timeAt(late.due)}.`,
    ...paused.flatMap((dagId) => [" ", dagLink(dagId), " is paused."])];
}

export function lateCell(row, schedules, now) {
  const late = lateness(row, schedules, now);
  if (late === null) return "no window yet";
  if (late.isLate) return [bad(duration(late.ms)), make("div", { className: "note" }, row.next.window === null ? `since ${timeAt(late.due)}` : timeOf(row.next.window)),
    ...pausedDags(row, schedules).map((dagId) => make("div", { className: "note" }, `${dagId} is paused`))];
  return dueText(late, row);
}

// Before the first publication, nobody knows how long one usually takes.
export function dueText(late, { published, next }) {
  if (published === null && next.window !== null) return `nothing published yet: ${NEXT_IS[next.state] ?? next.state}`;
  return late.ms > 0 ? "no; due now" : `no; next due in ${duration(-late.ms)}`;
}

// ---- retention

// When Kafka may start to delete records that aren't loaded, by retention.ms and the clock. Null if it never does, or if it isn't known.
export function retentionOf(row) {
  if (row.unloaded_from_ms === null || row.retention_ms === null || row.retention_ms < 0) return null;
  return row.unloaded_from_ms + row.retention_ms;
}

const UNFORESEEN = "By retention.ms of the topics. Kafka may delete records sooner because of retention.bytes.";

// How long what isn't loaded is safe, and whether that is urgent.
export function retentionLeft(row, now) {
  if (row.unloaded_from_ms === null) return { words: "unknown", urgent: false };
  if (row.gone_offsets) return { words: `${plural(row.gone_offsets, "unloaded offset")} already deleted`, urgent: true };
  if (row.retention_ms === null) return { words: "unknown", urgent: false };
  if (row.retention_ms < 0) return { words: "kept forever", urgent: false };
  const left = retentionOf(row) - now;
  return left <= 0 ? { words: "may be deleting now", urgent: true } : { words: duration(left), urgent: left < Math.min(row.retention_ms / 4, DAY) };
}

export function retentionCell(row, now) {
  const { words, urgent } = retentionLeft(row, now), reaches = retentionOf(row);
  return [make("div", { className: urgent ? "bad" : "", title: UNFORESEEN }, words),
    reaches !== null && reaches > now && !row.gone_offsets ? make("div", { className: "note" }, `until ${timeAt(reaches)}`) : ""];
}

// When retention may win, in a sentence.
export function retentionWords(row, now) {
  const { words, urgent } = retentionLeft(row, now), reaches = retentionOf(row);
  if (!urgent) return null;
  if (row.gone_offsets) return [`Retention has won: ${words}.`];
  return [reaches <= now ? "Retention may be deleting records that aren't loaded, at this moment." : `Retention may delete records that aren't loaded in ${words}, from ${timeAt(reaches)} on.`];
}

// Up to when everything is loaded.
export function completeCell(row, now) {
  if (row.unloaded_from_ms === null) return "unknown";
  const ago = `${row.published === null ? "nothing published yet; " : ""}${duration(now - row.unloaded_from_ms)} ago`;
  return [make("div", { className: "line" }, timeAt(row.unloaded_from_ms)), make("div", { className: "note" }, ago)];
}
