// Offsets of a topic against time, and below them what wasn't read, as uPlot draws them. Offsets are BigInts, and drawn
// as their distance from a round offset below: a number holds that exactly, whatever the offsets are.
/* global uPlot */
import { STATES, svg } from "./drawing.js";
import { between, duration, make, note, number, perSecond, table, timeAt } from "./elements.js";

const DAY = 86400000, OFFSETS_HEIGHT = 320, LAG_HEIGHT = 200, LANE = 16;
const FONT = "12px system-ui, sans-serif";
const ROUND = Array.from({ length: 19 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();
const SPANS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, ...ROUND.map((days) => days * 86400)].map((s) => s * 1000);
const SEVERITY = ["verified", "published", "counted", "pinned", "loading", "failed", "lost"];  // what is drawn later is seen
let charts = 0;

const lower = (one, other) => (one < other ? one : other);
const exact = (text) => (text === null ? null : BigInt(text));
const higher = (one, other) => (one > other ? one : other);

function short(ms) {
  for (const [size, unit] of [[DAY, "d"], [3600000, "h"], [60000, "min"]]) if (ms >= size) return `${Math.round((ms / size) * 10) / 10} ${unit}`;
  return `${Math.round(ms / 1000)} s`;
}

// Snapshots that were resolved about when their instants were. Those of a backfill say how the log was years later, and
// would leave no width to its windows; one that lacks partitions that an earlier one had sums up less.
export function seenInTime({ points, windows }) {
  const starts = windows.map((each) => each.start_ms), last = Math.max(...windows.map((each) => each.end_ms));
  let most = 0;
  return points.filter((point) => {
    if (windows.length && point.resolved_at_ms > 2 * last - Math.min(...starts)) return false;
    if (point.partitions < most) return false;
    most = point.partitions;
    return true;
  });
}

// What was seen at one moment: snapshots that were resolved together, and groups' commits.
export function momentsOf(points) {
  const moments = new Map();
  for (const point of points) {
    const end = BigInt(point.log_end), known = moments.get(point.resolved_at_ms);
    const moment = known ?? { at: point.resolved_at_ms, end, start: BigInt(point.log_start), groups: {}, asOf: [] };
    moment.end = higher(moment.end, end);
    moment.asOf.push(point.as_of);
    Object.assign(moment, { loaded: exact(point.loaded), unread: exact(point.unread), behind: point.behind_ms });
    if (point.group !== null) moment.groups[point.group] = {
      offset: BigInt(point.offset), unread: BigInt(point.group_unread), behind: point.group_behind_ms };
    moments.set(moment.at, moment);
  }
  const all = [...moments.values()];
  all.forEach((moment, place) => {
    const before = all[place - 1];
    moment.rate = before ? perSecond(moment.end - before.end, moment.at - before.at) : null;
  });
  return all;
}

// Of a backfill's snapshots, the instants and their offsets: how the log was then nobody has seen.
function unseen(points) {
  const instants = new Map(points.map((point) => [point.at_ms, BigInt(point.offset)]));
  return [...instants].sort(([one], [other]) => one - other).map(([at, instant]) => ({ at, instant, end: null, start: null,
    loaded: null, unread: null, behind: null, rate: null, groups: {}, asOf: [] }));
}

// ---- what is drawn

const DASHES = { end: [], loaded: [9, 4], start: [2, 4], unread: [], behind: [9, 4] };

function offsetSeries(groups) {
  return [
    { name: "Log end", look: "end", of: (moment) => moment.end },
    { name: "Loaded up to", look: "loaded", of: (moment) => moment.loaded, stepped: true },
    { name: "Offset of the instant", look: "loaded", of: (moment) => moment.instant ?? null },
    { name: "Log start", look: "start", of: (moment) => moment.start },
    ...groups.map((group, place) => ({ name: `Committed by ${group}`, look: `group-${place % 3}`, dots: true,
      of: (moment) => moment.groups[group]?.offset ?? null })),
  ];
}

function lagSeries(groups) {
  return [
    { name: "Not loaded, offsets", look: "unread", of: (moment) => moment.unread },
    { name: "Newest loaded, behind by", look: "behind", of: (moment) => moment.behind, scale: "time" },
    ...groups.flatMap((group, place) => [
      { name: `Not read by ${group}, offsets`, look: `group-${place % 3}`, dots: true, of: (moment) => moment.groups[group]?.unread ?? null },
      { name: `Not read by ${group}, in time`, look: `group-${place % 3}`, dots: true, scale: "time", hidden: true,
        of: (moment) => moment.groups[group]?.behind ?? null }]),
  ];
}

const dashOf = (series) => DASHES[series.look] ?? [10, 4, 2, 4];

// A series' value at a moment; of a group's commits the last one before, with its time.
function said(series, moments, place) {
  let at = place;
  while (series.dots && at > 0 && series.of(moments[at]) === null) at -= 1;
  const value = series.of(moments[at]);
  if (value === null) return "unknown";
  const words = series.scale === "time" ? duration(value) : number(value);
  return at === place ? words : `${words}, at ${timeAt(moments[at].at).slice(11)}`;
}

function swatchOf(look, dash) {
  const line = svg("line", { x1: 0, x2: 30, y1: 6, y2: 6, stroke: "currentColor", "stroke-width": 2.5, "stroke-dasharray": dash.join(" ") || "none" });
  return svg("svg", { width: 30, height: 12, class: `look ${look}`, "aria-hidden": "true" }, line);
}

// A line of the legend, which can be switched; says the values of one moment.
function legendOf(series, switched) {
  series.swatch = swatchOf(series.look, dashOf(series));
  series.value = make("output", {});
  series.box = make("input", { type: "checkbox", checked: !series.hidden, onchange: (event) => switched(event.target.checked) });
  return make("label", {}, series.box, series.swatch, make("span", {}, series.name), series.value);
}

const colourOf = (element) => getComputedStyle(element).color;

function xLabels(plot, moments, axis, space, step) {
  const iso = moments.map((ms) => new Date(ms).toISOString());
  return iso.map((at, place) => {
    if (step >= DAY) return at.slice(0, 10);
    const clock = at.slice(11, step < 60000 ? 19 : 16);
    return place && at.slice(0, 10) === iso[place - 1].slice(0, 10) ? clock : `${clock}\n${at.slice(0, 10)}`;
  });
}

function drawWindows(plot, windows, y) {
  const { ctx, bbox } = plot, ratio = uPlot.pxRatio, bottom = bbox.top + bbox.height, lane = LANE * ratio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `bold ${11 * ratio}px sans-serif`;
  ctx.textAlign = "center";
  for (const each of windows) {
    const state = STATES[each.state] ?? STATES.pinned;
    const from = plot.valToPos(each.start_ms, "x", true), to = plot.valToPos(each.end_ms, "x", true);
    if (to < bbox.left || from > bbox.left + bbox.width) continue;
    const wide = Math.max(2 * ratio, to - from - ratio);
    ctx.fillStyle = state.colour;
    ctx.fillRect(from, bottom - lane, wide, lane);
    if (each.start_offset !== null) {
      const low = plot.valToPos(y(each.start_offset), "y", true), high = plot.valToPos(y(each.end_offset), "y", true);
      const tall = Math.max(3 * ratio, low - high);
      ctx.globalAlpha = 0.6;
      ctx.fillRect(from, low - tall, wide, tall);
      ctx.globalAlpha = 1;
    }
    ctx.fillStyle = state.ink;
    if (wide >= 13 * ratio) ctx.fillText(state.letter, from + wide / 2, bottom - 4 * ratio);
  }
  ctx.restore();
}

// A moment, as an upright line; beside what is shown, an arrow to it.
function drawUpright(plot, ms, words, colour) {
  const { ctx, bbox } = plot, ratio = uPlot.pxRatio, place = plot.valToPos(ms, "x", true);
  const x = Math.max(bbox.left, Math.min(bbox.left + bbox.width, place)), left = x - bbox.left > bbox.width / 2;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = 2 * ratio;
  ctx.setLineDash([6 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  if (x === place) ctx.stroke();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = left ? "right" : "left";
  if (words) ctx.fillText(x === place ? words : left ? `${words} \u2192` : `\u2190 ${words}`, x + (left ? -6 : 6) * ratio, bbox.top + 13 * ratio);
  ctx.restore();
}

// ---- the chart

// Offsets and what wasn't read, one below the other: a cursor, a legend and a zoom for both.
export function offsetsChart(answer, reaches, open) {
  const inTime = momentsOf(seenInTime(answer)), moments = inTime.length ? inTime : unseen(answer.points), key = `offsets-${++charts}`;
  const groups = [...new Set(moments.flatMap((moment) => Object.keys(moment.groups)))].sort();
  const windows = answer.windows.map((each) => {
    const known = each.start_offset !== null && each.end_offset !== null;  // both its snapshots were read
    return { ...each, start_offset: known ? BigInt(each.start_offset) : null, end_offset: known ? BigInt(each.end_offset) : null };
  });
  const byState = windows.toSorted((one, other) => SEVERITY.indexOf(one.state) - SEVERITY.indexOf(other.state));
  const marks = [...moments.flatMap((moment) => [moment.end, moment.loaded, ...Object.values(moment.groups).map((each) => each.offset)]),
    ...windows.flatMap((each) => [each.start_offset, each.end_offset])].filter((offset) => typeof offset === "bigint");
  const lowest = marks.reduce(lower, marks[0] ?? 0n), span = marks.reduce(higher, lowest) - lowest, low = inTime.map((moment) => moment.start).reduce(lower, lowest);
  const unit = 10n ** BigInt(String(higher(span, lowest - low)).length), base = (lower(lowest, low) / unit) * unit;
  const y = (offset) => Number(offset - base), real = (value) => BigInt(Math.round(value)) + base;
  const times = [...moments.map((moment) => moment.at), ...windows.flatMap((each) => [each.start_ms, each.end_ms])];
  const first = Math.min(...times), seen = Math.max(...times, first + 1000);
  const last = reaches !== null && reaches > seen && reaches - seen < (seen - first) / 2 ? reaches : seen;
  const room = (last - first) * 0.01, whole = { min: first - room, max: last + room };

  const offsets = offsetSeries(groups), lags = lagSeries(groups).filter((series) => moments.some((moment) => series.of(moment) !== null));
  // A log start far below would leave no height to what is loaded; the legend has it.
  offsets.find((series) => series.look === "start").hidden = inTime.every((moment) => moment.start < lowest - span / 2n);
  const shown = offsets.filter((series) => moments.some((moment) => series.of(moment) !== null));

  const holder = make("div", { className: "charts" }), pointed = make("p", { className: "pointed" });
  const back = make("button", { type: "button", disabled: true, onclick: () => seeWhole() }, "Whole time");
  const frames = [make("div", { className: "frame offsets" }), ...(lags.length ? [make("div", { className: "frame lags" })] : [])];
  const plots = [];
  const legends = [shown, lags].map((all, place) => make("div", { className: "lines" },
    ...all.map((series, line) => legendOf(series, (show) => plots[place]?.setSeries(line + 1, { show })))));

  const retention = swatchOf("retention", [6, 3]);
  if (reaches !== null) legends[0].append(make("span", { className: "mark" }, retention, make("span", {}, "Retention reaches unread records, at the earliest"),
    make("output", {}, timeAt(reaches))));

  const seeWhole = () => plots.forEach((plot) => plot.setScale("x", whole));

  // What was seen at a moment; without a cursor, at the last one.
  function tell(place, ms) {
    const at = place ?? moments.length - 1, moment = moments[at];
    for (const series of [...shown, ...lags]) series.value.textContent = said(series, moments, at);
    const under = ms === null ? [] : windows.filter((each) => each.start_ms <= ms && ms < each.end_ms);
    const of = under.map((each) => `window ${spanOf(each)}, ${each.state}`).join("; ");
    const seen = inTime.length ? `${place === null ? "Last seen" : "Seen"} ${timeAt(moment.at)}` : "Resolved long after these windows";
    pointed.textContent = `${seen}${moment.rate ? `; ${moment.rate} written since the time before` : ""}${of ? `. Cursor: ${of}` : ""}`;
  }

  function options(all, height, width, axes, hooks) {
    const quiet = () => colourOf(holder), rule = () => getComputedStyle(holder).borderTopColor;
    return {
      width, height, ms: 1, legend: { show: false }, padding: [8, 0, 0, 0],
      tzDate: (ms) => uPlot.tzDate(new Date(ms), "Etc/UTC"),
      cursor: { y: false, sync: { key, setSeries: false }, drag: { x: true, y: false, dist: 5 } },
      scales: { x: { range: (plot, min, max) => [min, max] },
        y: { range: (plot, min, max) => rangeOf(plot, min, max, hooks.windows) }, time: { range: (plot, min, max) => [0, Math.max(1000, (max ?? 0) * 1.1)] } },
      series: [{}, ...all.map((series) => ({
        label: series.name, scale: series.scale ?? "y", show: series.box.checked, width: 2, dash: dashOf(series), spanGaps: Boolean(series.dots),
        stroke: () => colourOf(series.swatch), points: { show: Boolean(series.dots) || moments.length < 3, size: 8 },
        ...(series.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}) }))],
      axes: [{ values: xLabels, space: 90, size: 44 }, ...axes].map((axis) => ({ font: FONT, ...axis, stroke: quiet, grid: { stroke: rule, width: 1, show: axis.side !== 1 },
        ticks: { stroke: rule, width: 1, size: 4 } })),
      hooks: {
        drawAxes: [(plot) => { if (hooks.windows) drawWindows(plot, byState, y); }],
        draw: [(plot) => {
          if (reaches !== null) drawUpright(plot, reaches, hooks.windows ? `retention ${timeAt(reaches)}` : "", colourOf(retention));
        }],
        setCursor: [(plot) => tell(plot.cursor.idx ?? null, plot.cursor.left < 0 ? null : plot.posToVal(plot.cursor.left, "x"))],
        setScale: [(plot, scale) => {
          if (scale === "x") back.disabled = plot.scales.x.min <= whole.min && plot.scales.x.max >= whole.max;
        }],
      },
    };
  }

  // Of what is seen, with room for the lane of windows below.
  function rangeOf(plot, min, max, withWindows) {
    const { min: from, max: to } = plot.scales.x;
    const inside = withWindows ? windows.filter((each) => each.start_offset !== null && each.end_ms >= from && each.start_ms <= to) : [];
    const values = [min, max, ...inside.flatMap((each) => [y(each.start_offset), y(each.end_offset)])].filter((value) => value !== null);
    if (!values.length) return [0, 1];
    const least = withWindows ? Math.min(...values) : 0, most = Math.max(...values, least + 1), tall = most - least;
    return [withWindows ? least - tall * 0.1 : 0, most + tall * (withWindows ? 0.12 : 0.05)];
  }

  const digits = Math.max(...[...marks, low].map((offset) => number(offset).length)), left = 22 + digits * 7;
  const right = lags.length ? 52 : 12;
  const offsetsAxis = { scale: "y", size: left, incrs: ROUND, values: (plot, all) => all.map((value) => number(real(value))) };
  const unreadAxis = { scale: "y", size: left, incrs: ROUND, values: (plot, all) => all.map((value) => number(value)) };
  const timeAxis = { scale: "time", side: 1, size: right, incrs: SPANS, values: (plot, all) => all.map(short) };

  function build(width) {
    const xs = moments.map((moment) => moment.at);
    const drawn = (all, of) => [xs, ...all.map((series) => moments.map((moment) => {
      const value = series.of(moment);
      return value === null ? null : of(value);
    }))];
    const top = options(shown, OFFSETS_HEIGHT, width, [offsetsAxis], { windows: true });
    plots.push(new uPlot({ ...top, padding: [8, right, 0, 0] }, drawn(shown, y), frames[0]));
    if (lags.length) plots.push(new uPlot(options(lags, LAG_HEIGHT, width, [unreadAxis, timeAxis], { windows: false }), drawn(lags, Number), frames[1]));
    plots.forEach(listen);
    seeWhole();
  }

  // Arrow keys move the cursor; a click opens the window that it is in.
  function listen(plot) {
    Object.assign(plot.over, { tabIndex: 0, role: "img", ariaLabel: "Offsets against time. Arrow keys move the cursor; the table below has the same numbers." });
    plot.over.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -moments.length, End: moments.length }[event.key];
      if (!step) return;
      event.preventDefault();
      const place = Math.max(0, Math.min(moments.length - 1, (plot.cursor.idx ?? moments.length - 1) + step));
      plot.setCursor({ left: plot.valToPos(moments[place].at, "x"), top: 1 });
    });
    plot.over.addEventListener("click", () => {
      const ms = plot.posToVal(plot.cursor.left, "x"), found = windows.find((each) => each.start_ms <= ms && ms < each.end_ms);
      if (found) open(found);
    });
  }

  // Drawn when it has a width, and as wide as it is from then on.
  const observer = new ResizeObserver(() => {
    const width = Math.floor(frames[0].clientWidth);
    if (!holder.isConnected) {
      plots.forEach((plot) => plot.destroy());
      observer.disconnect();
    } else if (width && !plots.length) build(width);
    else if (width) plots.forEach((plot) => plot.setSize({ width, height: plot.height }));
  });
  observer.observe(frames[0]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((plot) => plot.redraw(false)));

  tell(null, null);
  holder.append(make("div", { className: "tools" }, back,
    make("span", { className: "note" }, "Drag across the chart to zoom. Click on a window to open it.")),
  pointed, legends[0], frames[0], ...(lags.length ? [legends[1], frames[1]] : [note("What wasn't loaded at each of these moments isn't known.")]),
  ...(inTime.length ? [tableOf(inTime, groups)] : []));
  return holder;
}

const spanOf = (each) => between(new Date(each.start_ms).toISOString(), new Date(each.end_ms).toISOString());

// The same numbers in words, for those who can't see the chart, or want to copy them.
function tableOf(moments, groups) {
  const unread = (read) => number(read?.unread);
  const behind = (read) => (read?.behind === undefined || read.behind === null ? "unknown" : duration(read.behind));
  const heads = ["Seen", "As of", "Log start", "Log end", "Written since", "Loaded up to", "Not loaded", "Newest behind by",
    ...groups.flatMap((group) => [`Committed by ${group}`, "Not read", "Behind by"])];
  const rows = () => moments.toReversed().map((moment) => [timeAt(moment.at), moment.asOf.map(readableInstant).join(", "), number(moment.start), number(moment.end),
    moment.rate ?? "", number(moment.loaded), unread(moment), behind(moment),
    ...groups.flatMap((group) => [number(moment.groups[group]?.offset), unread(moment.groups[group]), behind(moment.groups[group])])]);
  const numeric = heads.map((_, place) => place).filter((place) => place > 1);
  const details = make("details", { ontoggle: () => {
    if (details.open && details.children.length === 1) details.append(table(heads, rows(), numeric));
  } }, make("summary", {}, "The same numbers as a table"));
  return details;
}

const readableInstant = (text) => text.replace(/^(\d{4}-\d\d-\d\d)T(.*)Z$/, "$1 $2");
