// What was seen of a topic over time, and the chart's lines. Offsets are BigInts, so they are exact at any size.
import { duration, make, number, perSecond, table, timeAt } from "./elements.js";

export const lower = (one, other) => (one < other ? one : other);
export const higher = (one, other) => (one > other ? one : other);
export const exact = (text) => (text === null ? null : BigInt(text));

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

// By name. A group may be called __proto__.
const noGroups = () => Object.create(null);

// Snapshots that were resolved at the same time are one moment, together with what groups had committed.
export function momentsOf(points) {
  const moments = new Map();
  for (const point of points) {
    const end = BigInt(point.log_end), known = moments.get(point.resolved_at_ms);
    const moment = known ?? { at: point.resolved_at_ms, end, start: BigInt(point.log_start), groups: noGroups(), asOf: [], rate: null };
    moment.end = higher(moment.end, end);
    moment.asOf.push(point.as_of);
    Object.assign(moment, { loaded: exact(point.loaded), unloaded: exact(point.unloaded), behind: point.behind_ms });
    if (point.group !== null) moment.groups[point.group] = {
      offset: BigInt(point.offset), unread: BigInt(point.group_unread), behind: point.group_behind_ms };
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
    loaded: null, unloaded: null, behind: null, rate: null, groups: noGroups(), asOf: [] }));
}

export const groupsOf = (moments) => [...new Set(moments.flatMap((moment) => Object.keys(moment.groups)))].sort();

// ---- lines: a name, a look (its colour is in page.css), and a value for each moment; null if it isn't known

const ofSome = (lines, moments) => lines.filter((line) => moments.some((moment) => line.of(moment) !== null));

export function offsetLines(moments) {
  return ofSome([
    { name: "Log end", look: "end", dash: [], of: (moment) => moment.end },
    { name: "Loaded up to", look: "loaded", dash: [9, 4], of: (moment) => moment.loaded, stepped: true },
    { name: "Offset of the instant", look: "loaded", dash: [9, 4], of: (moment) => moment.instant ?? null },
    { name: "Log start", look: "start", dash: [2, 4], of: (moment) => moment.start },
    ...groupsOf(moments).map((group, place) => ({ ...ofGroup(place), name: `Committed by ${group}`, of: (moment) => moment.groups[group]?.offset ?? null })),
  ], moments);
}

export function lagLines(moments) {
  return ofSome([
    { name: "Not loaded, offsets", look: "unloaded", dash: [], of: (moment) => moment.unloaded },
    { name: "Newest loaded, behind by", look: "behind", dash: [9, 4], scale: "time", of: (moment) => moment.behind },
    ...groupsOf(moments).flatMap((group, place) => [
      { ...ofGroup(place), name: `Not read by ${group}, offsets`, of: (moment) => moment.groups[group]?.unread ?? null },
      { ...ofGroup(place), name: `Not read by ${group}, in time`, scale: "time", hidden: true, of: (moment) => moment.groups[group]?.behind ?? null },
    ]),
  ], moments);
}

// A group's commits are known at some of the moments only; each is drawn as a circle.
const ofGroup = (place) => ({ look: `group-${place % 3}`, dash: [10, 4, 2, 4], dots: true });

// A line's value at a moment. For a group's commits, the last known one up to that moment, with its time.
export function valueText(line, moments, place) {
  let at = place;
  while (line.dots && at > 0 && line.of(moments[at]) === null) at -= 1;
  const value = line.of(moments[at]);
  if (value === null) return "unknown";
  const words = line.scale === "time" ? duration(value) : number(value);
  return at === place ? words : `${words}, at ${timeAt(moments[at].at).slice(11)}`;
}

// ---- the same numbers as a table, for people who can't see the chart, or want to copy them

const behindText = (read) => (read?.behind === undefined || read.behind === null ? "unknown" : duration(read.behind));
const instantText = (text) => text.replace(/^(\d{4}-\d\d-\d\d)T(.*)Z$/, "$1 $2");

export function momentsTable(moments) {
  const groups = groupsOf(moments);
  const heads = ["Seen", "As of", "Log start", "Log end", "Written since", "Loaded up to", "Not loaded", "Newest behind by",
    ...groups.flatMap((group) => [`Committed by ${group}`, "Not read", "Behind by"])];
  const row = (moment) => [timeAt(moment.at), moment.asOf.map(instantText).join(", "), number(moment.start), number(moment.end),
    moment.rate ?? "", number(moment.loaded), number(moment.unloaded), behindText(moment),
    ...groups.map((group) => moment.groups[group]).flatMap((read) => [number(read?.offset), number(read?.unread), behindText(read)])];
  const numeric = heads.map((_, place) => place).filter((place) => place > 1);
  const details = make("details", { ontoggle: () => {
    if (details.open && details.children.length === 1) details.append(table(heads, moments.toReversed().map(row), numeric));
  } }, make("summary", {}, "The same numbers as a table"));
  return details;
}
