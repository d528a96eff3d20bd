// What was seen of a topic over time, and the chart's lines. Offsets are BigInts, so they are exact at any size.
import { duration, make, number, perSecond, table, timeAt } from "./elements.js";

export const lower = (one, other) => (one < other ? one : other);
export const higher = (one, other) => (one > other ? one : other);
const exact = (text) => (text === null ? null : BigInt(text));

// Snapshots that were resolved soon after their instants. A backfill's snapshots show the log as it was years later, and
// would squeeze its windows into no width. A snapshot that lacks partitions that an earlier one had would have lower sums.
export function seenInTime({ points, windows }) {
  const start = windows.map((each) => each.start_ms).reduce(lower, Infinity), end = windows.map((each) => each.end_ms).reduce(higher, -Infinity);
  let most = 0;
  return points.filter((point) => {
    if (windows.length && point.resolved_at_ms > 2 * end - start) return false;
    if (point.partitions < most) return false;
    most = point.partitions;
    return true;
  });
}

// Snapshots that were resolved at the same time are one moment.
export function momentsOf(points) {
  const moments = new Map();
  for (const point of points) {
    const end = BigInt(point.log_end), known = moments.get(point.resolved_at_ms);
    const moment = known ?? { at: point.resolved_at_ms, end, start: BigInt(point.log_start), asOf: [], rate: null };
    moment.end = higher(moment.end, end);
    moment.asOf.push(point.as_of);
    Object.assign(moment, { loaded: exact(point.loaded), unloaded: exact(point.unloaded), behind: point.behind_ms });
    moments.set(moment.at, moment);
  }
  const all = [...moments.values()];
  all.slice(1).forEach((moment, place) => { moment.rate = perSecond(moment.end - all[place].end, moment.at - all[place].at); });
  return all;
}

// The instants of a backfill's snapshots, and their offsets. Nobody saw the log at those times.
export function instantsOf(points) {
  const instants = new Map(points.map((point) => [point.at_ms, BigInt(point.offset)]));
  return [...instants].sort(([one], [other]) => one - other).map(([at, instant]) => ({ at, instant, end: null, start: null,
    loaded: null, unloaded: null, behind: null, rate: null, asOf: [] }));
}

// ---- lines: a name, a look (its colour is in page.css), and a value for each moment; null if it isn't known

const ofSome = (lines, moments) => lines.filter((line) => moments.some((moment) => line.of(moment) !== null));

export function offsetLines(moments) {
  return ofSome([
    { name: "Log end", look: "end", dash: [], of: (moment) => moment.end },
    { name: "Loaded up to", look: "loaded", dash: [9, 4], of: (moment) => moment.loaded, stepped: true },
    { name: "Offset of the instant", look: "loaded", dash: [9, 4], of: (moment) => moment.instant ?? null },
    { name: "Log start", look: "start", dash: [2, 4], of: (moment) => moment.start },
  ], moments);
}

export function lagLines(moments) {
  return ofSome([
    { name: "Not loaded, offsets", look: "unloaded", dash: [], of: (moment) => moment.unloaded },
    { name: "Newest loaded, behind by", look: "behind", dash: [9, 4], scale: "time", of: (moment) => moment.behind },
  ], moments);
}

export function valueText(line, moment) {
  const value = line.of(moment);
  return value === null ? "unknown" : line.scale === "time" ? duration(value) : number(value);
}

// ---- the same numbers as a table, for people who can't see the chart, or want to copy them

const instantText = (text) => text.replace(/^(\d{4}-\d\d-\d\d)T(.*)Z$/, "$1 $2");

export function momentsTable(moments) {
  const heads = ["Seen", "As of", "Log start", "Log end", "Written since", "Loaded up to", "Not loaded", "Newest behind by"];
  const row = (moment) => [timeAt(moment.at), moment.asOf.map(instantText).join(", "), number(moment.start), number(moment.end),
    moment.rate ?? "", number(moment.loaded), number(moment.unloaded),
    moment.behind === null ? "unknown" : duration(moment.behind)];
  const numeric = heads.map((_, place) => place).filter((place) => place > 1);
  const details = make("details", { ontoggle: () => {
    if (details.open && details.children.length === 1) details.append(table(heads, moments.toReversed().map(row), numeric));
  } }, make("summary", {}, "The same numbers as a table"));
  return details;
}
