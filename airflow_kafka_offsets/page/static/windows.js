// The list of a pipeline's windows, newest first, with the time that no window has as rows of its own.
import { latenessOf, missingAfter } from "./lateness.js";
import { bad, badge, between, betweenMs, duration, hash, make, note, number, plural, windowLink } from "./elements.js";

const HEADS = ["Window", "State", "Offsets", "Rows", "Lost", "Published after"], CLASSES = ["window", "", "number offsets", "number rows", "number lost", "number after"];

const WORDS = {
  pinned: (entry) => (entry.again ? "to be loaded again" : "pinned, not begun"),
  loading: (entry) => [entry.again ? "loading again" : "loading", entry.running_ms === null ? null : `running for ${duration(entry.running_ms)}`,
    entry.attempts > 1 ? `attempt ${entry.attempts} of it` : null].filter(Boolean).join(", "),
  failed: (entry) => `failed: ${entry.failure?.why ?? "unknown"}`,
  proved: () => "proved, not published yet",
  published: () => "published, not verified yet",
};
const auditBadge = (entry) => badge(entry.audited_well ? "verified" : "lost", `audited, ${entry.audits}`);

// Further badges of a window go here. One that is only audited is loaded by somebody else.
function badges(entry) {
  const own = badge(entry.state, WORDS[entry.state]?.(entry) ?? entry.state);
  if (!entry.audits) return [own];
  return entry.state === "pinned" && !entry.again ? [auditBadge(entry)] : [make("div", {}, own), make("div", {}, auditBadge(entry))];
}

function afterCell(entry, { next, published }, now) {
  if (entry.published_ms !== null) return duration(Math.max(0, entry.published_ms - Date.parse(entry.end)));
  const late = latenessOf(entry, next, now);
  if (late === null) return entry.backfill ? "a backfill's" : "";
  return late.isLate ? bad(`late by ${duration(late.ms)}`) : published === null ? "" : late.ms > 0 ? "due now" : `due in ${duration(-late.ms)}`;
}

function row(cells, isOpen = false) {
  return make("tr", { className: isOpen ? "open" : "", ...(isOpen ? { "aria-current": "true" } : {}) }, ...cells.map((cell, place) =>
    make("td", { className: CLASSES[place], "data-unit": HEADS[place].toLowerCase() }, ...(Array.isArray(cell) ? cell : [cell]))));
}

function windowRow(pipeline, entry, { overview, now_ms: now }, opened) {
  return row([windowLink(pipeline, entry.window), badges(entry), number(entry.offsets), entry.rows === null ? "" : number(entry.rows),
    entry.lost ? bad(number(entry.lost)) : "", afterCell(entry, overview, now)], entry.window === opened);
}

function gapRow(entry) {
  if (entry.state === "absent") return row([between(entry.start, entry.end), badge("absent", "no window; nothing was written"), "0", "", "", ""]);
  return row([between(entry.start, entry.end), badge("hole", bad("a hole: no window"), entry.worst ? make("div", { className: "note" }, entry.worst) : ""),
    number(entry.offsets), "", "", bad("never")]);
}

// Windows that are due after the last one, and that nobody has pinned.
function missingRow(found) {
  const words = found.count > 1 ? `no window yet; ${number(found.count)} are due` : "no window yet";
  return row([betweenMs(found.start, found.end), badge(found.isLate ? "late" : "pinned", words), "", "", "",
    found.isLate ? bad(`late by ${duration(found.ms)}`) : found.ms > 0 ? "due now" : `due in ${duration(-found.ms)}`]);
}

export function windowsList(pipeline, answer, opened, before) {
  if (!answer.entries.length) return [note(before ? "There is no earlier window." : "No window is pinned yet. The first run of the Dag pins one.")];
  const last = answer.entries.find((entry) => entry.window), newest = answer.entries.at(-1);
  const found = before ? null : missingAfter(newest, answer.overview, answer.schedules, answer.now_ms);
  const rows = answer.entries.toReversed().map((entry) => (entry.kind === "hole" ? gapRow(entry) : windowRow(pipeline, entry, answer, opened)));
  return [make("div", { className: "scroll" }, make("table", { className: "windows" },
    make("thead", {}, make("tr", {}, ...HEADS.map((head, place) => make("th", { className: CLASSES[place], scope: "col" }, head)))),
    make("tbody", {}, ...(found ? [missingRow(found)] : []), ...rows))),
  make("p", {}, before ? make("a", { href: hash("p", pipeline) }, "Newest windows") : null, before && answer.more ? " · " : null,
    answer.more ? make("a", { href: `${hash("p", pipeline)}?before=${last.window}` }, "Earlier windows") : null)];
}

export const windowsHead = (answer) => `${answer.more ? "The last " : ""}${plural(answer.entries.filter((entry) => entry.window).length, "window")}, newest first`;
