// The page: all pipelines, one pipeline, one window. All addresses are relative, and the hash says what to show.
import { cellWidth, partitionsDrawing, sparkLine } from "./drawing.js";
import { ask, kept } from "./asking.js";
import { bad, badge, between, duration, facts, hash, legend, linked, lostCell, make, moment, note, number, plural, readable, runLink, showAge, table, time, timeOf, windowLink } from "./elements.js";
import { kafkaNow } from "./kafka_now.js";
import { findForm, foundRecord } from "./find.js";
import { retentionOf, timePanel } from "./over_time.js";
import { showWaits } from "./waits.js";

const iso = (ms) => new Date(ms).toISOString();
const main = document.getElementById("main");
const theme = localStorage.getItem("theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
const FEW_PARTITIONS = 24;
const foldings = new Map();  // by topic: whether the user has unfolded it
let asked = 0;

// ---- all pipelines

// The states of a pipeline's unpublished windows. Failed ones stand out, because somebody must act.
function unpublished(row) {
  const { failed = 0, pinned = 0, loading = 0, proved = 0 } = row.states, under = pinned + loading + proved;
  const parts = [failed ? bad(`${number(failed)} failed`) : null, under ? plural(under, failed ? "other" : "window") : null].filter(Boolean);
  return parts.length ? make("div", { className: "note" }, "not published: ", ...parts.flatMap((part, place) => (place ? [", ", part] : [part]))) : null;
}

function wrongs(row) {
  const told = [];
  if (row.lost_offsets) told.push([`${plural(row.lost_offsets, "offset")} lost`, row.losses]);
  if (row.gone_offsets) told.push([`${plural(row.gone_offsets, "unloaded offset")} gone`, []]);
  if (row.holes.length) told.push([plural(row.holes.length, "hole"), row.holes]);
  if (row.states.failed) told.push([`${plural(row.states.failed, "failed load")}`, []]);
  return told.length ? told.map(([words, all]) => make("div", { className: "bad", title: all.map(readable).join("\n") }, words)) : ["nothing"];
}

function retentionCell(row, now) {
  if (row.unloaded_from_ms === null) return [];
  if (row.gone_offsets) return bad(`${plural(row.gone_offsets, "unloaded offset")} already deleted`);
  if (row.retention_ms === null) return "unknown";
  if (row.retention_ms < 0) return "kept forever";
  const left = retentionOf(row) - now, title = "When this time is over, Kafka may delete records that aren't loaded yet, because of retention.ms. "
    + "It may do so sooner because of retention.bytes.";
  if (left <= 0) return make("span", { className: "bad", title }, "may be deleting now");
  return make("span", { className: left < Math.min(row.retention_ms / 4, 86400000) ? "bad" : "", title }, duration(left));
}

const isWrong = (row) => Boolean(row.error || row.lost_offsets || row.gone_offsets || row.holes.length || row.states.failed);
const endOf = (window) => { const [start, end] = timeOf(window).split(" to "); return end.length > 12 ? end : `${start.slice(0, 10)} ${end}`; };
const completeText = (row, now) => (row.unloaded_from_ms === null ? "unknown" : `${time(iso(row.unloaded_from_ms))}, ${duration(now - row.unloaded_from_ms)} ago`);

function completeCell(row, now) {
  if (row.published === null || row.unloaded_from_ms === null) return [];
  return [make("div", {}, moment(time(iso(row.unloaded_from_ms)))),
    make("div", { className: "note" }, `${duration(now - row.unloaded_from_ms)} ago`)];
}

function pipelineRow(row, now) {
  const link = make("a", { href: hash("p", row.pipeline) }, row.pipeline);
  if (row.error) return [row.pipeline, [], make("span", { className: "bad" }, row.error), [], [], [], [], []];
  return [
    link, row.topics.join(", "),
    [make("div", {}, row.published ? moment(timeOf(row.published)) : "nothing published yet"), unpublished(row)],
    completeCell(row, now), retentionCell(row, now),
    row.proved === null ? "none yet" : moment(endOf(row.proved)),
    wrongs(row), row.rows.length ? sparkLine(row.rows) : [],
  ].map((cell) => (Array.isArray(cell) ? cell.filter(Boolean) : cell));
}

async function showPipelines() {
  const answer = await ask("pipelines");
  const oldest = Math.min(...answer.pipelines.filter((row) => row.read_ms).map((row) => row.read_ms));
  showAge({ read_ms: Number.isFinite(oldest) ? oldest : 0, now_ms: answer.now_ms });
  if (!answer.pipelines.length) return [note(
    "There is no pipeline that you may see. A pipeline appears once the first run of its Dag has pinned a window in the "
    + "ledger ([kafka_offsets] ledger_root), for users who may read that Dag.")];
  const list = table(
    ["Pipeline", "Topics", "Newest published window", "Complete up to", "Retention left", "Proved up to", "What is wrong", "Rows per window"],
    [...answer.pipelines].sort((one, other) => isWrong(other) - isWrong(one)).map((row) => pipelineRow(row, answer.now_ms)));
  list.classList.add("cards");
  return [make("h2", {}, "Pipelines"), list];
}

// ---- one pipeline

function topicsOf(partitions) {
  const topics = [];
  partitions.forEach(([topic], place) => {
    const last = topics.at(-1);
    if (last && last.name === topic) last.count += 1;
    else topics.push({ name: topic, from: place, count: 1 });
  });
  return topics;
}

const sum = (values, topic) => values.slice(topic.from, topic.from + topic.count).reduce((a, b) => a + (b ?? 0), 0);
const within = (marks, topic) => Object.entries(marks)
  .filter(([place]) => place >= topic.from && place < topic.from + topic.count).reduce((a, [, b]) => a + b, 0);

function cellState(entry, place) {
  if (entry.kind === "hole") return place in entry.gaps ? "hole" : null;
  if (entry.offsets[place] === null) return null;
  return place in entry.lost ? "lost" : entry.state;
}

function cellWords(entry, place, [topic, partition]) {
  const of = `${topic}-${partition}`;
  if (entry.kind === "hole") return `${of}: ${place in entry.gaps ? `${number(entry.gaps[place])} offsets in no window` : "nothing missing"}`;
  if (entry.offsets[place] === null) return `${of}: not in this window`;
  const lost = place in entry.lost ? `, ${number(entry.lost[place])} of them lost` : "";
  return `${of}: ${entry.state}, ${number(entry.offsets[place])} offsets${lost}`;
}

// If there are few partitions, each has a cell from the start, unless the user has folded them.
const isUnfolded = (topic) => foldings.get(topic.name) ?? topic.count <= FEW_PARTITIONS;

function topicCell(entry, topic, answer, open, pointed) {
  if (!isUnfolded(topic)) {
    const sums = entry.kind === "hole" ? within(entry.gaps, topic) : sum(entry.offsets, topic);
    const lost = entry.kind === "hole" ? 0 : within(entry.lost, topic);
    const words = entry.kind === "hole" ? (sums ? `${number(sums)} missing` : "") : number(sums);
    return make("td", { className: "number" }, words, lost ? bad(` −${number(lost)} lost`) : null);
  }
  const canvas = partitionsDrawing(topic.from, topic.count, (place) => cellState(entry, place));
  canvas.addEventListener("mousemove", (event) => {
    const place = topic.from + Math.min(topic.count - 1, Math.floor(event.offsetX / cellWidth(topic.count)));
    pointed.textContent = `${time(entry.start)}, ${cellWords(entry, place, answer.partitions[place])}`;
  });
  if (open) canvas.addEventListener("click", open);
  return make("td", {}, canvas);
}

function windowsTableRow(entry, answer, topics, pipeline, opened, pointed) {
  const open = entry.window ? () => { location.hash = hash("p", pipeline, "w", entry.window); } : null;
  const label = between(entry.start, entry.end), isHole = entry.kind === "hole";
  const running = Number.isInteger(entry.running_ms) ? `${entry.state} for ${duration(entry.running_ms)}` : entry.state;
  const states = [badge(entry.state, isHole ? `no window for ${duration(Date.parse(entry.end) - Date.parse(entry.start))}` : running)];
  const lost = entry.kind === "window" ? Object.values(entry.lost).reduce((a, b) => a + b, 0) : 0;
  if (lost) states.push(" ", badge("lost"));
  const missing = isHole ? Object.values(entry.gaps).reduce((a, b) => a + b, 0) : 0;
  const rows = Number.isInteger(entry.rows) ? [number(entry.rows)] : missing ? [bad(`${number(missing)} missing`)] : [], total = lost ? [...rows, bad(` ${number(lost)} lost`)] : rows;
  return make("tr", { className: entry.window && entry.window === opened ? "open" : "" },
    make("td", {}, open ? make("button", { className: "plain", type: "button", onclick: open }, label) : label),
    make("td", {}, ...states),
    make("td", { className: "number" }, ...total),
    ...topics.map((topic) => topicCell(entry, topic, answer, open, pointed)));
}

function windowsTable(answer, pipeline, opened) {
  const topics = topicsOf(answer.partitions), pointed = make("p", { className: "pointed" });
  const holder = make("div", { className: "scroll", tabIndex: 0 });
  const draw = () => {
    const head = topics.map((topic) => make("th", {}, make("button", {
      className: "plain", type: "button", "aria-expanded": String(isUnfolded(topic)),
      onclick: () => { foldings.set(topic.name, !isUnfolded(topic)); draw(); },
    }, `${topic.name} (${plural(topic.count, "partition")}) ${isUnfolded(topic) ? "▾" : "▸"}`)));
    holder.replaceChildren(make("table", { className: "windows" },
      make("thead", {}, make("tr", {}, make("th", {}, "Window"), make("th", {}, "State"),
        make("th", { className: "number" }, "Rows"), ...head)),
      make("tbody", {}, ...answer.entries.toReversed().map((entry) => windowsTableRow(entry, answer, topics, pipeline, opened, pointed)))));
  };
  draw();
  holder.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const buttons = [...holder.querySelectorAll("tbody button")], place = buttons.indexOf(document.activeElement);
    const next = buttons[place + (event.key === "ArrowDown" ? 1 : -1)];
    if (place >= 0 && next) { event.preventDefault(); next.focus(); }
  });
  return [pointed, holder];
}

async function showPipeline(pipeline, rest, question) {
  const before = question.get("before"), window = rest[0] === "w" ? rest[1] : null;
  const answer = await ask(`pipelines/${encodeURIComponent(pipeline)}${before ? `?before=${encodeURIComponent(before)}` : ""}`);
  showAge(answer);
  const overview = answer.overview, parts = [make("h2", {}, pipeline)];
  parts.push(facts([["Topics", overview.topics.join(", ")], ["Loaded by", overview.dag_ids.join(", ") || "no attempt names a Dag"],
    ["Complete up to", overview.published === null ? "nothing published yet" : completeText(overview, answer.now_ms)],
    ["Newest published", overview.published === null ? null : timeOf(overview.published)],
    ["Retention left", overview.unloaded_from_ms === null ? null : retentionCell(overview, answer.now_ms)],
    ["Offsets over time", make("span", {}, ...overview.topics.flatMap((topic, place) => [place ? ", " : null,
      make("a", { href: hash("p", pipeline, "t", topic) }, topic)].filter(Boolean)))]]));
  parts.push(...overview.losses.map((words) => make("p", { className: "bad", title: words }, "Lost before it was loaded: ", ...linked(pipeline, words))));
  const failed = answer.entries.filter((entry) => entry.state === "failed").map((entry) => entry.window);
  if (failed.length) parts.push(make("p", { className: "bad" }, "Every load failed; clear the run: ",
    ...failed.flatMap((each, place) => (place ? [", ", windowLink(pipeline, each)] : [windowLink(pipeline, each)]))));
  for (const words of [...overview.holes, ...overview.restarts]) parts.push(make("p", { className: "bad", title: words }, ...linked(pipeline, words)));
  if (answer.asks_kafka) parts.push(kafkaNow(pipeline));
  parts.push(make("h3", {}, "Where is this record?"), findForm(pipeline, overview, question));
  if (rest[0] === "find") parts.push(await foundRecord(pipeline, question).catch(failure));
  if (rest[0] === "t") parts.push(await timePanel(pipeline, overview, rest[1], question).catch(failure));
  if (window) parts.push(await windowPanel(pipeline, window).catch(failure));
  if (!answer.entries.length) return [...parts, note(
    before ? "There is no earlier window." : "No window is pinned yet. The first run of the Dag pins one.")];
  const last = answer.entries.find((entry) => entry.window);
  parts.push(make("h3", {}, "Windows in UTC, newest first"), legend(), ...windowsTable(answer, pipeline, window));
  if (answer.more && last) parts.push(make("a", { href: `${hash("p", pipeline)}?before=${last.window}` }, "Earlier windows"));
  return parts;
}

// ---- one window

const loadedBy = (attempt) => [runLink(attempt) ?? (attempt.by_hand ? `${attempt.by_hand}, by hand` : "unknown"),
  attempt.try_number ? `, try ${attempt.try_number}` : ""];

// A row for each driver of an attempt, or one if none has said anything.
function attemptRows(attempt, publication) {
  const failed = attempt.failed ? `failed: ${attempt.failed}; the task's log says why` : null;
  const runs = attempt.runs.length ? attempt.runs : [{ run: "", application_id: null, written: null }];
  return runs.map((run) => {
    const stands = publication?.attempt === attempt.attempt && publication.run === run.run;
    const came = run.problem ?? (run.written === null || run.written === undefined ? failed ?? "no result"
      : `${number(run.read)} read, ${number(run.written)} written, ${Math.round(run.seconds)} s${stands ? "; published" : ""}`);
    return [String(attempt.attempt), run.run, run.problem ? bad(came) : came, lostCell(attempt.lost),
      run.application_id ?? "", loadedBy(attempt)];
  });
}

// If all ranges start, and end, for the same reason, that is said once.
function rangesPart(ranges, published, words) {
  const reasons = (side) => [...new Set(ranges.map((range) => words.evidence[range[side]]))];
  const [starts, ends] = [reasons("start_evidence"), reasons("end_evidence")], one = starts.length === 1 && ends.length === 1;
  const heads = ["Topic", "Partition", "From", "Up to", "Offsets", "Lost", "Rows", ...(one ? [] : ["Why it starts there", "Why it ends there"])];
  const rows = ranges.map((range) => [range.topic, String(range.partition), number(range.start_offset), number(range.end_offset),
    number(range.offsets), lostCell(range.lost), published ? number(range.rows) : "",
    ...(one ? [] : [words.evidence[range.start_evidence], words.evidence[range.end_evidence]])]);
  return [one ? note(starts[0] === ends[0] ? `At both ends of each range ${starts[0]}.` : `Where each range starts, ${starts[0]}. Where it ends, ${ends[0]}.`) : null,
    table(heads, rows, [1, 2, 3, 4, 5, 6])];
}

const outputText = (each) => `${plural(each.rows, "row")}${each.output ? ` in ${each.output}` : ""}`;

function publicationFacts(publication) {
  if (!publication) return [];
  return [["Published", `${time(publication.published_at)}, attempt ${publication.attempt}`], ["Proof", publication.verdict],
    ["Records read", number(publication.read)], ["Rows written", number(publication.written)],
    ...publication.outputs.map((each) => [each.name ? `Output ${each.name}` : "Output", outputText(each)])];
}

async function windowPanel(pipeline, window) {
  const answer = await ask(`pipelines/${encodeURIComponent(pipeline)}/windows/${encodeURIComponent(window)}`);
  const close = make("a", { href: hash("p", pipeline) }, "Close");
  const shown = answer.ranges.slice(0, 200), left = answer.ranges.length - shown.length;
  return make("section", { className: "panel", tabIndex: -1 }, make("h2", {}, `Window ${timeOf(answer.window)}`), close,
    make("h3", {}, badge(answer.state)), note(answer.states[answer.state]),
    answer.reloads ? note("It is to be loaded again. Until then, readers get the rows that are published; a table refuses them while they may be replaced.") : null,
    facts([["Offsets", number(answer.offsets)], ["Lost before it was loaded", answer.lost ? plural(answer.lost, "offset") : null],
      ...publicationFacts(answer.publication),
      ["Manifest", answer.manifest], ["Manifest's sha256", answer.sha256], ["Isolation level", answer.isolation_level]]),
    answer.attempts.length
      ? table(["Attempt", "Run", "Result", "Lost before", "Spark application", "Loaded by"],
        answer.attempts.flatMap((each) => attemptRows(each, answer.publication)), [0, 3])
      : note("No attempt to load it has been recorded yet."),
    make("h3", {}, "Ranges"), ...rangesPart(shown, answer.publication, answer),
    left > 0 ? note(`${plural(left, "more partition")}: kafka-offsets ledger show lists them all.`) : null);
}

// ---- what the hash asks for

const failure = (error) => make("p", { className: "bad", role: "alert" }, error.message);

// A link that was cut off may end in the middle of an encoded character.
function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

function screenOf(kind, pipeline, rest, question) {
  if (kind === "p" && pipeline) return showPipeline(pipeline, rest, question);
  return kind === "waits" ? showWaits() : showPipelines();
}

async function show() {
  const mine = ++asked, [path, ...queries] = location.hash.replace(/^#\/?/, "").split("?"), query = queries.join("?");
  const [kind, pipeline, ...rest] = path.split("/").map(decoded);
  document.getElementById("place").textContent = pipeline ?? "";
  document.title = pipeline ? `${pipeline} · Kafka windows` : "Kafka windows";
  const parts = await screenOf(kind, pipeline, rest, new URLSearchParams(query)).catch((error) => [failure(error)]);
  if (mine !== asked) return;
  main.replaceChildren(...parts.filter(Boolean));
  main.querySelector(".panel")?.focus();
}

window.addEventListener("hashchange", show);
show();
