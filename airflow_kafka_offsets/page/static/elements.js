// What all parts of the page are made of. Text is always set as text, never as HTML.

export async function ask(path) {
  // A link or an image on another site can't send this header.
  const answer = await fetch(`api/${path}`, { credentials: "same-origin", headers: { "X-Requested-With": "fetch" } });
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  if (answer.status === 401) throw new Error("You aren't logged in, or your session has expired. Log in to Airflow, then reload this page.");
  if (Array.isArray(said.detail)) throw new Error(said.detail.map((each) => `${each.loc?.at(-1)}: ${each.msg}`).join("; "));
  throw new Error(typeof said.detail === "string" ? said.detail : `The server answered ${answer.status}.`);
}

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// What a browser's numbers can't hold is text or a BigInt.
export function number(value) {
  if (value === null || value === undefined) return "unknown";
  return (typeof value === "string" ? BigInt(value) : value).toLocaleString("en");
}
export const DAY = 86400000;
export const INK = "#000000"; // of marks
export const time = (iso) => iso.replace("T", " ").replace(/\.000Z$/, "Z").replace(/(:\d\d):00Z$/, "$1").replace("Z", "");
export const timeAt = (ms) => time(`${new Date(ms).toISOString().slice(0, 19)}Z`);
export const perSecond = (offsets, ms) =>
  (ms > 0 ? `${(Number(offsets) / (ms / 1000)).toLocaleString("en", { maximumSignificantDigits: 3 })} offsets/s` : null);
export const hash = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");
export const plural = (count, word) => `${number(count)} ${word}${Number(count) === 1 ? "" : "s"}`;

export function duration(ms) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 0) return "less than a second";
  if (minutes < 2) return plural(Math.floor(ms / 1000), "second");
  if (minutes < 120) return plural(minutes, "minute");
  if (minutes < 2880) return plural(Math.floor(minutes / 60), "hour");
  return plural(Math.floor(minutes / 1440), "day");
}

export function timeOf(window) {
  const [start, end] = window.split("_").map((part) =>
    part.replace(/(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z/, "$1-$2-$3T$4:$5:$6.$7Z"));
  return between(start, end);
}

// If both are on the same day, the day is shown once; its end is 24:00.
export function between(start, end) {
  const [from, to] = [time(start), time(end)], isMidnight = to === `${to.slice(0, 10)} 00:00` && Date.parse(end) - DAY === Date.parse(`${start.slice(0, 10)}T00:00:00Z`);
  return `${from} to ${isMidnight ? "24:00" : from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to}`;
}
export const betweenMs = (start, end) => between(new Date(start).toISOString(), new Date(end).toISOString());

// Text from the ledger, as its commands print it, with times in a readable form, and a link for each window that it names.
const WINDOWS = /(\d{8}T\d{9}Z_\d{8}T\d{9}Z)/;
const timed = (words) => words.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, time)
  .replace(/no window has (\d+) of the \1 offset/i, "No window has the $1 offset").replace(/\b\d{4,}(?= (?:of the|offset))/g, (count) => number(Number(count)));
export function linked(pipeline, words) {
  const text = words[0].toUpperCase() + words.slice(1);
  return text.split(WINDOWS).map((part, place) => (place % 2 ? windowLink(pipeline, part) : timed(part)));
}

export const windowLink = (pipeline, window) => make("a", { href: hash("p", pipeline, "w", window) }, timeOf(window));

// ---- states: a mark and a colour (of Okabe and Ito's palette). Words beside them say which state it is.

const DONE = { mark: "✓", colour: "#009e73" }, GOING = { mark: "▸", colour: "#56b4e9" }, WAITING = { mark: "○", colour: "#b8c0c8" };
const WRONG = { mark: "!", colour: "#e07020" }, NOTHING = { mark: "–", colour: "#e4e8ec" };
const STATES = {
  verified: DONE, published: DONE, proved: GOING, loading: GOING, pinned: WAITING, failed: WRONG, hole: WRONG, lost: WRONG, late: WRONG, absent: NOTHING,
};
const LOOKS = [[DONE, "published"], [GOING, "being loaded"], [WAITING, "not begun"], [WRONG, "failed"]];
export const lookOf = (state) => STATES[state] ?? WAITING;

function markOf(look) {
  const mark = make("span", { className: "badge", textContent: look.mark, "aria-hidden": "true" });
  Object.assign(mark.style, { background: look.colour, color: INK });
  return mark;
}

// What the colours of the chart's bands mean.
export const legend = () => make("p", { className: "legend" }, ...LOOKS.map(([look, words]) => make("span", {}, markOf(look), words)));

// A state: its mark, and words.
export const badge = (state, ...words) => make("span", { className: "state" }, markOf(lookOf(state)), make("span", {}, ...words));

export function table(heads, rows, numeric = [], className = "cards") {
  const cell = (tag, content, place) => make(tag, { className: numeric.includes(place) ? "number" : "", ...(tag === "th" ? { scope: "col" } : { "data-head": heads[place] }) },
    ...(Array.isArray(content) ? content : [content]));
  return make("div", { className: "scroll" }, make("table", { className },
    make("thead", {}, make("tr", {}, ...heads.map((head, place) => cell("th", head, place)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((each, place) => cell("td", each, place)))))));
}

export function facts(pairs, className = "") {
  return make("dl", { className }, ...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, ...(Array.isArray(value) ? value : [value])))));
}

export const note = (...words) => make("p", { className: "note" }, ...words);
export const bad = (...words) => make("span", { className: "bad" }, ...words);
export const failureWords = ({ error, why, helps }) => [bad(why), ` (${error}). ${helps}.`];
export const lostCell = (lost) => (lost ? bad(number(lost)) : "0");
export const alertNote = (error) => make("p", { className: "bad", role: "alert" }, error.message);

// Links into Airflow.
export const dagLink = (dagId) => make("a", { href: `../dags/${encodeURIComponent(dagId)}` }, dagId);

export function runLink(run) {
  if (!run.dag_id || !run.run_id) return null;
  const part = encodeURIComponent, words = `${run.dag_id}, run ${run.run_id}${run.task_id ? `, task ${run.task_id}` : ""}`;
  const task = run.task_id ? `/tasks/${part(run.task_id)}` : "";
  return make("a", { href: `../dags/${part(run.dag_id)}/runs/${part(run.run_id)}${task}` }, words);
}

// How old an answer is.
export function showAge(answer) {
  const seconds = answer.read_ms ? Math.max(0, Math.round((answer.now_ms - answer.read_ms) / 1000)) : 0;
  document.getElementById("age").textContent = `read ${plural(seconds, "second")} ago, times in UTC`;
}
