// The page. All text is set as text, never as HTML; all addresses are relative, and what is asked is in the hash.
import { STATES, cellWidth, partitionsDrawing, sparkLine, timeChart } from "./drawing.js";

const main = document.getElementById("main");
const theme = localStorage.getItem("theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
const unfolded = new Map();
let asked = 0;

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const number = (value) => (value === null || value === undefined ? "unknown" : value.toLocaleString("en"));
const time = (iso) => iso.replace("T", " ").replace(/:00(\.000)?Z$/, "").replace("Z", "");
const hash = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

function duration(ms) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 0) return "ends in the future";
  if (minutes < 2) return plural(Math.floor(ms / 1000), "second");
  if (minutes < 120) return plural(minutes, "minute");
  if (minutes < 2880) return plural(Math.floor(minutes / 60), "hour");
  return plural(Math.floor(minutes / 1440), "day");
}

function timeOf(window) {
  const [start, end] = window.split("_").map((part) =>
    part.replace(/(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z/, "$1-$2-$3T$4:$5:$6.$7Z"));
  return between(start, end);
}

// The day is said once where both are on the same one.
function between(start, end) {
  const [from, to] = [time(start), time(end)];
  return `${from} to ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to}`;
}

function badge(state, words = state) {
  const known = STATES[state] ?? STATES.pinned, mark = make("span", { className: "badge" }, known.letter);
  mark.style.background = known.colour;
  mark.style.color = known.ink;
  return make("span", { className: "line" }, mark, words);
}

function table(heads, rows, numeric = []) {
  const cell = (tag, content, place) =>
    make(tag, { className: numeric.includes(place) ? "number" : "", "data-head": heads[place] }, ...(Array.isArray(content) ? content : [content]));
  return make("div", { className: "scroll", tabIndex: 0 }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((head, place) => cell("th", head, place)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((each, place) => cell("td", each, place)))))));
}

function facts(pairs) {
  return make("dl", {}, ...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

// A file that kafka-offsets ledger show --html has written brings its answers along.
const kept = globalThis.kept;

async function ask(path) {
  if (kept && path in kept) return kept[path];
  if (kept) throw new Error("This file doesn't have the answer to that. Ask on the page in Airflow, or kafka-offsets ledger.");
  const answer = await fetch(`api/${path}`, { credentials: "same-origin" });
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  if (answer.status === 401) throw new Error("You aren't logged in, or no longer: open Airflow, log in, and come back.");
  throw new Error(typeof said.detail === "string" ? said.detail : `The server answered ${answer.status}.`);
}

function showAge(answer) {
  const seconds = answer.read_ms ? Math.max(0, Math.round((answer.now_ms - answer.read_ms) / 1000)) : 0;
  const when = kept ? `as of ${time(new Date(answer.now_ms).toISOString().slice(0, 19))}` : `read ${plural(seconds, "second")} ago`;
  document.getElementById("age").textContent = `${when}, times in UTC`;
}

// ---- all pipelines

function wrongs(row) {
  const told = [];
  if (row.problems.length) told.push(make("div", { className: "bad", title: row.problems.join("\n") },
    plural(row.problems.length, "problem")));
  if (row.holes.length) told.push(make("div", { className: "bad", title: row.holes.join("\n") },
    plural(row.holes.length, "hole")));
  if (row.lost_offsets) told.push(make("div", { className: "bad" }, `${number(row.lost_offsets)} offsets lost`));
  if (row.states.lost) told.push(make("div", { className: "bad" }, `${plural(row.states.lost, "window")} with losses`));
  return told.length ? told : ["none"];
}

// From when on Kafka may delete records that aren't loaded, by retention.ms and the clock; null where it never does, or nobody knows.
function retentionOf(row) {
  if (row.unloaded_from_ms === null || row.retention_ms === null || row.retention_ms < 0) return null;
  return row.unloaded_from_ms + row.retention_ms;
}

function retentionCell(row, now) {
  if (row.unloaded_from_ms === null) return [];
  if (row.retention_ms === null) return "unknown";
  if (row.retention_ms < 0) return "kept for ever";
  const left = retentionOf(row) - now, title = "Records that aren't loaded yet are deleted from then on at the earliest, by retention.ms; "
    + "by retention.bytes it may be sooner.";
  if (left <= 0) return make("span", { className: "bad", title }, "may be deleting now");
  return make("span", { className: left < Math.min(row.retention_ms / 4, 86400000) ? "bad" : "", title }, duration(left));
}

function pipelineRow(row, now) {
  const link = make("a", { href: hash("p", row.pipeline) }, row.pipeline);
  if (row.error) return [row.pipeline, [], make("span", { className: "bad" }, row.error), [], [], [], [], []];
  const waiting = row.states.resolved ?? 0, begun = (row.states.submitted ?? 0) + (row.states.counted ?? 0);
  return [
    link, row.topics.join(", "),
    [make("div", {}, row.published ? timeOf(row.published) : "nothing published yet"),
      waiting + begun ? make("div", { className: "note" }, `${plural(waiting + begun, "window")} not published`) : null],
    row.published_until_ms === null ? [] : duration(now - row.published_until_ms), retentionCell(row, now),
    row.proved === null ? "none yet" : row.proved === row.published ? "the same window" : timeOf(row.proved),
    wrongs(row), row.rows.length ? sparkLine(row.rows) : [],
  ].map((cell) => (Array.isArray(cell) ? cell.filter(Boolean) : cell));
}

async function showPipelines() {
  const answer = await ask("pipelines");
  const oldest = Math.min(...answer.pipelines.filter((row) => row.read_ms).map((row) => row.read_ms));
  showAge({ read_ms: Number.isFinite(oldest) ? oldest : 0, now_ms: answer.now_ms });
  if (!answer.pipelines.length) return [make("p", { className: "note" },
    "There is no pipeline that you may see. A pipeline appears when the first run of its Dag has pinned a window in the "
    + "ledger ([kafka_offsets] ledger_root), to users who may read that Dag.")];
  const list = table(
    ["Pipeline", "Topics", "Last published window", "Behind", "Retention left", "Last proof", "Holes and losses", "Rows per window"],
    answer.pipelines.map((row) => pipelineRow(row, answer.now_ms)));
  list.classList.add("cards");
  return [make("h2", {}, "Pipelines"), list];
}

// ---- what sensors wait for

function waitRow(wait, now) {
  const place = wait.map_index < 0 ? "" : ` [${wait.map_index}]`;
  const left = wait.until_ms === null ? [] : wait.until_ms <= now ? "any moment" : duration(wait.until_ms - now);
  return [wait.groups.length ? wait.groups.join(", ") : "no group", wait.topics.length ? wait.topics.join(", ") : "all of the group's",
    wait.awaited ?? "unknown: its trigger was written by another version", wait.since_ms === null ? "unknown" : duration(now - wait.since_ms),
    left, [runLink(wait), place].filter(Boolean), ON[wait.on], wait.kafka_conn_id ?? "unknown"];
}

const ON = { triggerer: "the triggerer", worker: "a worker", rescheduled: "nothing, between two pokes" };

async function showWaits() {
  const answer = await ask("waits");
  showAge({ read_ms: answer.now_ms, now_ms: answer.now_ms });
  if (!answer.waits.length) return [make("h2", {}, "Waits"), make("p", { className: "note" },
    "No sensor of a Dag that you may read waits at this moment. Deferred, poking and rescheduled ones would be listed, with "
    + "their groups and what they wait for.")];
  const list = table(["Group", "Topics", "Waits until", "Since", "Times out in", "Task", "Runs on", "Connection"],
    answer.waits.map((wait) => waitRow(wait, answer.now_ms)));
  list.classList.add("cards");
  return [make("h2", {}, `Waits: ${plural(answer.waits.length, "sensor")}`), list,
    answer.more ? make("p", { className: "note" }, "There are more; those that have waited longest are shown.") : null,
    make("p", { className: "note" }, "By Airflow's database; Kafka isn't asked. How far a wait has come is in its task's log "
      + "or its triggerer's, and kafka-offsets lag says how far behind a group is now.")];
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

function cellState(row, place) {
  if (row.kind === "hole") return place in row.gaps ? "hole" : null;
  if (row.offsets[place] === null) return null;
  if (place in row.lost) return "lost";
  return place in row.overlap ? "overlap" : row.state;
}

function cellWords(row, place, [topic, partition]) {
  const of = `${topic}-${partition}`;
  if (row.kind === "hole") return `${of}: ${place in row.gaps ? `${number(row.gaps[place])} offsets in no published window` : "no hole"}`;
  if (row.offsets[place] === null) return `${of}: not in this window`;
  const rows = row.rows ? `, ${number(row.rows[place])} rows` : ", nothing published";
  const lost = place in row.lost ? `, ${number(row.lost[place])} offsets lost` : "";
  const twice = place in row.overlap ? `, ${number(row.overlap[place])} offsets in another window too` : "";
  return `${of}: ${row.state}, ${number(row.offsets[place])} offsets${rows}${lost}${twice}`;
}

// A few partitions are drawn one by one from the start, unless the reader has folded them.
const isUnfolded = (topic) => unfolded.get(topic.name) ?? topic.count <= 24;

function topicCell(row, topic, answer, open, pointed) {
  if (!isUnfolded(topic)) {
    const sums = row.kind === "hole" ? within(row.gaps, topic) : sum(row.offsets, topic);
    const lost = row.kind === "hole" ? 0 : within(row.lost, topic);
    const words = row.kind === "hole" ? (sums ? `${number(sums)} missing` : "") : number(sums);
    return make("td", { className: "number" }, words, lost ? make("span", { className: "bad" }, ` −${number(lost)} lost`) : null);
  }
  const canvas = partitionsDrawing(topic.from, topic.count, (place) => cellState(row, place));
  canvas.addEventListener("mousemove", (event) => {
    const place = topic.from + Math.min(topic.count - 1, Math.floor(event.offsetX / cellWidth(topic.count)));
    pointed.textContent = `${time(row.start)}, ${cellWords(row, place, answer.partitions[place])}`;
  });
  if (open) canvas.addEventListener("click", open);
  return make("td", {}, canvas);
}

function gridRow(row, answer, topics, pipeline, opened, pointed) {
  const open = row.window ? () => { location.hash = hash("p", pipeline, "w", row.window); } : null;
  const label = between(row.start, row.end);
  const states = [badge(row.state)];
  if (row.revision > 1) states.push(" ", badge("revised", `revision ${row.revision}`));
  if (row.kind === "window" && Object.keys(row.overlap).length) states.push(" ", badge("overlap"));
  if (row.kind === "window" && row.state !== "lost" && Object.keys(row.lost).length) states.push(" ", badge("lost"));
  const total = row.rows ? number(row.rows.reduce((a, b) => a + b, 0)) : "";
  return make("tr", { className: row.window && row.window === opened ? "open" : "" },
    make("td", {}, open ? make("button", { className: "plain", type: "button", onclick: open }, label) : label),
    make("td", {}, ...states),
    make("td", { className: "number" }, total),
    ...topics.map((topic) => topicCell(row, topic, answer, open, pointed)));
}

function gridOf(answer, pipeline, opened) {
  const topics = topicsOf(answer.partitions), pointed = make("p", { className: "pointed" });
  const holder = make("div", { className: "scroll", tabIndex: 0 });
  const draw = () => {
    const head = topics.map((topic) => make("th", {}, make("button", {
      className: "plain", type: "button", "aria-expanded": String(isUnfolded(topic)),
      onclick: () => { unfolded.set(topic.name, !isUnfolded(topic)); draw(); },
    }, `${topic.name} (${plural(topic.count, "partition")}) ${isUnfolded(topic) ? "▾" : "▸"}`)));
    holder.replaceChildren(make("table", { className: "grid" },
      make("thead", {}, make("tr", {}, make("th", {}, "Window"), make("th", {}, "State"),
        make("th", { className: "number" }, "Rows"), ...head)),
      make("tbody", {}, ...answer.rows.toReversed().map((row) => gridRow(row, answer, topics, pipeline, opened, pointed)))));
  };
  draw();
  holder.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const buttons = [...holder.querySelectorAll("tbody button")], place = buttons.indexOf(document.activeElement);
    const next = buttons[place + (event.key === "ArrowDown" ? 1 : -1)];
    if (place >= 0 && next) { event.preventDefault(); next.focus(); }
  });
  return [holder, pointed];
}

// A record is asked for by its partition or its key, and by its offset or an instant; the hash holds the question.
function findForm(pipeline, overview, question) {
  const field = (name, words, properties = {}) => make("label", {}, words, make("input", {
    name, value: question.get(name) ?? "", autocomplete: "off", ...properties }));
  const topics = make("select", { name: "topic" }, ...overview.topics.map((topic) =>
    make("option", { value: topic, selected: topic === question.get("topic") }, topic)));
  const form = make("form", { onsubmit: (event) => {
    event.preventDefault();
    const given = [...new FormData(form)].filter(([, value]) => value !== "");
    location.hash = `${hash("p", pipeline, "find")}?${new URLSearchParams(given)}`;
  } }, make("label", {}, "Topic", topics), field("partition", "Partition", { type: "number", min: "0" }),
  field("key", "or key"), field("offset", "Offset", { type: "number", min: "0" }),
  field("at", "or instant", { placeholder: "2026-11-21T06:00:00Z" }), make("button", {}, "Where is this record?"));
  return form;
}

const windowLink = (pipeline, found) => found.window && make("a", { href: hash("p", pipeline, "w", found.window) }, timeOf(found.window));

function keyPart(key) {
  if (!key) return [];
  const counts = key.partitions.map((each) => `partition ${each.partition} of ${each.partition_count}`
    + (key.partitions.length > 1 ? ` (since ${time(each.since)})` : ""));
  return [facts([["Key", `${key.key}: ${counts.join("; before, ")}`]]),
    ...key.remarks.map((words) => make("p", { className: "note" }, words))];
}

function instantPart(pipeline, window) {
  return [make("h3", {}, badge(window.state, `${timeOf(window.window)}: ${window.found}`)),
    facts([["Window", windowLink(pipeline, window)], ["Revision", window.revision], ["Output", window.output],
      ["Attempt", window.attempt], ["Loaded by", runLink(window)]]),
    ...window.remarks.map((remark) => make("p", { className: "note" }, remark)),
    table(["Partition", "From", "Up to", "Offsets", "Lost"], window.ranges.map((range) => [String(range.partition),
      String(range.start_offset), String(range.end_offset), number(range.offsets),
      range.lost ? make("span", { className: "bad" }, number(range.lost)) : "0"]), [0, 1, 2, 3, 4])];
}

async function foundRecord(pipeline, question) {
  const found = await ask(`pipelines/${encodeURIComponent(pipeline)}/records?${question}`);
  const topic = question.get("topic"), offset = question.get("offset");
  const places = found.places ?? [{ ...found, partition: question.get("partition") }];
  return make("section", { className: "panel", tabIndex: -1 }, ...keyPart(found.key),
    ...places.flatMap((place) => [make("h3", {}, `${topic}-${place.partition}, offset ${offset}: ${place.found}`),
      facts([["Window", windowLink(pipeline, place)], ["Revision", place.revision], ["Output", place.output],
        ["Attempt", place.attempt], ["Loaded by", runLink(place)]])]),
    ...(found.windows ?? []).flatMap((window) => instantPart(pipeline, window)),
    found.nowhere ? make("p", {}, `${time(found.at)}: ${found.nowhere}`) : null);
}

async function showPipeline(pipeline, rest, question) {
  const before = question.get("before"), window = rest[0] === "w" ? rest[1] : null;
  const answer = await ask(`pipelines/${encodeURIComponent(pipeline)}${before ? `?before=${encodeURIComponent(before)}` : ""}`);
  showAge(answer);
  const overview = answer.overview, parts = [make("h2", {}, pipeline)];
  parts.push(facts([["Topics", overview.topics.join(", ")], ["Loaded by", overview.dag_ids.join(", ") || "no attempt names a Dag"],
    ["Behind", overview.published_until_ms === null ? "nothing published yet" : duration(answer.now_ms - overview.published_until_ms)],
    ["Retention left", overview.unloaded_from_ms === null ? null : retentionCell(overview, answer.now_ms)],
    ["Offsets over time", make("span", {}, ...overview.topics.flatMap((topic, place) => [place ? ", " : null,
      make("a", { href: hash("p", pipeline, "t", topic) }, topic)].filter(Boolean)))]]));
  for (const words of [...overview.problems, ...overview.holes]) parts.push(make("p", { className: "bad" }, words));
  parts.push(findForm(pipeline, overview, question));
  if (rest[0] === "find") parts.push(await foundRecord(pipeline, question).catch(failure));
  if (rest[0] === "t") parts.push(await timePanel(pipeline, overview, rest[1], question).catch(failure));
  if (window) parts.push(await windowPanel(pipeline, window).catch(failure));
  if (!answer.rows.length) return [...parts, make("p", { className: "note" },
    before ? "There is no earlier window." : "No window is pinned yet. The first run of the Dag pins one.")];
  const last = answer.rows.find((row) => row.window);
  parts.push(make("h3", {}, "Windows, the newest first; numbers are offsets"), legend(), ...gridOf(answer, pipeline, window));
  if (answer.more && last) parts.push(make("a", { href: `${hash("p", pipeline)}?before=${last.window}` }, "Earlier windows"));
  return parts;
}

function legend() {
  return make("div", { className: "legend" }, ...Object.keys(STATES).map((state) => badge(state)));
}

// ---- one topic over time

const perSecond = (offsets, ms) => `${(offsets / (ms / 1000)).toLocaleString("en", { maximumSignificantDigits: 3 })} offsets/s`;
const iso = (ms) => new Date(ms).toISOString();

// How fast the log grows, and whether instants are resolved later and later.
function paceFacts(points) {
  const last = points.at(-1), before = points.at(-11) ?? points[0], ms = last.resolved_at_ms - before.resolved_at_ms;
  const instants = points.filter((point) => point.as_of_instant).sort((one, other) => one.at_ms - other.at_ms);
  const delays = instants.map((point) => point.resolved_at_ms - point.at_ms), newest = delays.pop();
  const ten = delays.slice(-10).sort((one, other) => one - other), usual = ten[Math.floor(ten.length / 2)];
  return [["Written lately", ms > 0 ? perSecond(last.log_end - before.log_end, ms) : null],
    ["Newest instant", ten.length ? `resolved ${duration(newest)} after it; mostly ${duration(usual)} before that` : null]];
}

async function timePanel(pipeline, overview, topic, question) {
  const asked = new URLSearchParams({ topic, most: 100, ...(question.get("partition") ? { partition: question.get("partition") } : {}) });
  const answer = await ask(`pipelines/${encodeURIComponent(pipeline)}/offsets?${asked}`);
  const last = answer.points.at(-1), loaded = answer.windows.filter((each) => ["published", "verified"].includes(each.state))
    .sort((one, other) => one.end_ms - other.end_ms).at(-1);
  const reaches = retentionOf({ ...overview, retention_ms: answer.retention_ms });
  const words = {
    chart: `Offsets of ${topic} against time, with the windows as bands; the table of windows below says the same`,
    window: (each) => `${timeOf(each.window)}: ${each.state}, offsets ${number(each.start_offset)} to ${number(each.end_offset)}`,
    commit: (each) => `Group ${each.group} at ${time(iso(each.resolved_at_ms))}: ${number(each.offset)}`,
    retention: "From here on Kafka may delete records that aren't loaded yet",
    time: (ms) => time(iso(Math.round(ms / 60000) * 60000)),
  };
  const wide = Math.max(240, Math.min(1400, main.clientWidth - 84));
  const form = make("form", { onsubmit: (event) => {
    event.preventDefault();
    const chosen = new FormData(form).get("partition");
    location.hash = `${hash("p", pipeline, "t", topic)}${chosen ? `?partition=${chosen}` : ""}`;
  } }, make("label", {}, `Partition (0 to ${answer.partitions - 1}; empty for all)`, make("input", {
    name: "partition", type: "number", min: "0", value: question.get("partition") ?? "" })), make("button", {}, "Show"));
  return make("section", { className: "panel", tabIndex: -1 },
    make("h2", {}, `${topic}${answer.partition === null ? "" : `-${answer.partition}`}: offsets over time`),
    make("a", { href: hash("p", pipeline) }, "Close"), form,
    make("div", { className: "scroll", tabIndex: 0 },
      timeChart(answer, wide, words, (each) => hash("p", pipeline, "w", each.window), reaches)),
    make("p", { className: "note" }, "Bands are windows, by state. The line is the log's end, the dotted one its start, "
      + "each as it was when a snapshot was resolved; circles are commits of groups that were kept as snapshots."),
    facts([["Log end", `${number(last.log_end)}, seen ${time(iso(last.resolved_at_ms))}`],
      ["Lag then", loaded ? `${plural(Math.max(0, last.log_end - loaded.end_offset), "offset")}, ${duration(last.resolved_at_ms - loaded.end_ms)}, `
        + "after the last published window" : null],
      ...paceFacts(answer.points),
      ["Retention", answer.retention_ms === null ? "unknown" : answer.retention_ms < 0 ? "for ever" : duration(answer.retention_ms)],
      ["Reaches unloaded records", reaches === null ? null : `${time(iso(reaches))} at the earliest`]]));
}

// ---- one window

function runLink(run) {
  if (!run.dag_id || !run.run_id) return null;
  const part = encodeURIComponent, words = `${run.dag_id}, run ${run.run_id}${run.task_id ? `, task ${run.task_id}` : ""}`;
  if (kept) return words;
  const task = run.task_id ? `/tasks/${part(run.task_id)}` : "";
  return make("a", { href: `../dags/${part(run.dag_id)}/runs/${part(run.run_id)}${task}` }, words);
}

function attemptRow(attempt) {
  if (attempt.problem) return [attempt.attempt, "", make("span", { className: "bad" }, attempt.problem), "", ""];
  const came = attempt.failed ? `failed: ${attempt.failed}; the task's log says why`
    : attempt.written === null ? "no result"
    : `${number(attempt.read)} read, ${number(attempt.written)} written, ${Math.round(attempt.seconds)} s`;
  return [attempt.attempt, attempt.started_at ? time(attempt.started_at) : "", came, attempt.application_id ?? "",
    runLink(attempt) ?? "no run was noted"];
}

function revisionPart(revision, words) {
  const shown = revision.ranges.slice(0, 200), left = revision.ranges.length - shown.length;
  return [
    make("h3", {}, badge(revision.state, `Revision ${revision.revision}: ${revision.state}${revision.counts ? ", counts" : ""}`)),
    make("p", { className: "note" }, words.states[revision.state] ?? ""),
    facts([["Proof", revision.verdict], ["Offsets", number(revision.offsets)],
      ["Rows read", revision.read === null ? null : number(revision.read)],
      ["Rows written", revision.written === null ? null : number(revision.written)],
      ["Lost when pinned", revision.lost ? `${number(revision.lost)} offsets` : null],
      ["Lost later", revision.noted_losses.join("; ")], ["Output", revision.output],
      ...revision.further.map((each) => [`Output ${each.name}`, `${plural(each.rows, "row")}${each.output ? ` in ${each.output}` : ""}`]),
      ["Manifest", revision.manifest], ["Its sha256", revision.sha256], ["Isolation level", revision.isolation_level]]),
    revision.attempts.length
      ? table(["Attempt", "Began", "What came of it", "Spark application", "Loaded by"], revision.attempts.map(attemptRow))
      : make("p", { className: "note" }, "No attempt to load it was noted yet."),
    make("h3", {}, "Ranges"),
    table(["Topic", "Partition", "From", "Up to", "Offsets", "Lost", "Rows", "Why it starts there", "Why it ends there"],
      shown.map((each) => [each.topic, String(each.partition), String(each.start_offset), String(each.end_offset),
        number(each.offsets), each.lost ? make("span", { className: "bad" }, number(each.lost)) : "0",
        each.rows === null ? "" : number(each.rows), words.evidence[each.start_evidence], words.evidence[each.end_evidence]]),
      [1, 2, 3, 4, 5, 6]),
    left > 0 ? make("p", { className: "note" }, `${plural(left, "more partition")}: kafka-offsets ledger show lists them all.`) : null,
  ];
}

async function windowPanel(pipeline, window) {
  const answer = await ask(`pipelines/${encodeURIComponent(pipeline)}/windows/${encodeURIComponent(window)}`);
  const close = make("a", { href: hash("p", pipeline) }, "Close");
  const published = answer.publications.map((each) => [String(each.number), time(each.published_at), String(each.revision),
    each.attempt, number(each.rows), each.sink, each.counts ? "yes" : "no, a later one does"]);
  return make("section", { className: "panel", tabIndex: -1 }, make("h2", {}, `Window ${timeOf(answer.window)}`), close,
    ...answer.revisions.toReversed().flatMap((revision) => revisionPart(revision, answer)),
    ...(published.length ? [make("h3", {}, "Publications"),
      table(["Number", "At", "Revision", "Attempt", "Rows", "Sink", "Counts"], published)] : []));
}

// ---- what the hash asks for

const failure = (error) => make("p", { className: "bad", role: "alert" }, error.message);

async function show() {
  const mine = ++asked, [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [kind, pipeline, ...rest] = path.split("/").map(decodeURIComponent);
  document.getElementById("place").textContent = pipeline ?? "";
  document.title = pipeline ? `${pipeline} · Kafka windows` : "Kafka windows";
  const parts = await (kind === "p" && pipeline ? showPipeline(pipeline, rest, new URLSearchParams(query))
    : kind === "waits" ? showWaits() : showPipelines())
    .catch((error) => [failure(error)]);
  if (mine !== asked) return;
  main.replaceChildren(...parts.filter(Boolean));
  main.querySelector(".panel")?.focus();
}

window.addEventListener("hashchange", show);
show();
