// Drawings: states as a colour and a letter (Okabe and Ito's palette), rows per window, partitions of one window.

export const STATES = {
  pinned: { letter: "P", colour: "#b8c0c8", ink: "#000000" },
  loading: { letter: "…", colour: "#56b4e9", ink: "#000000" },
  failed: { letter: "F", colour: "#d55e00", ink: "#000000" },
  counted: { letter: "C", colour: "#f0e442", ink: "#000000" },
  published: { letter: "U", colour: "#0072b2", ink: "#ffffff" },
  verified: { letter: "V", colour: "#009e73", ink: "#000000" },
  lost: { letter: "L", colour: "#8b0d1a", ink: "#ffffff" },
  hole: { letter: "H", colour: "#000000", ink: "#ffffff" },
  overlap: { letter: "X", colour: "#cc79a7", ink: "#000000" },
  revised: { letter: "R", colour: "#e69f00", ink: "#000000" },
};
export const ROW_HEIGHT = 18;
const SVG = "http://www.w3.org/2000/svg";

export function sparkLine(values) {
  const width = 150, height = 26, svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("role", "img");
  const most = Math.max(1, ...values), step = Math.min(8, width / Math.max(1, values.length));
  svg.setAttribute("aria-label", `Rows of the last ${values.length} published windows, ${most} at most`);
  values.forEach((value, place) => {
    const bar = document.createElementNS(SVG, "rect"), tall = Math.max(1, (value / most) * height);
    bar.setAttribute("x", place * step);
    bar.setAttribute("y", height - tall);
    bar.setAttribute("width", Math.max(1, step - 1));
    bar.setAttribute("height", tall);
    bar.setAttribute("fill", "currentColor");
    svg.append(bar);
  });
  return svg;
}

export const cellWidth = (partitions) => (partitions <= 40 ? 18 : partitions <= 200 ? 8 : 4);

// The partitions from one place on, each as the state that cellState says; null leaves it blank.
export function partitionsDrawing(from, count, cellState) {
  const canvas = document.createElement("canvas"), wide = cellWidth(count), scale = window.devicePixelRatio || 1;
  canvas.width = count * wide * scale;
  canvas.height = ROW_HEIGHT * scale;
  canvas.style.width = `${count * wide}px`;
  canvas.style.height = `${ROW_HEIGHT}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "bold 11px sans-serif";
  pen.textAlign = "center";
  for (let each = 0; each < count; each++) {
    const state = STATES[cellState(from + each)];
    if (!state) continue;
    pen.fillStyle = state.colour;
    pen.fillRect(each * wide, 0, wide - 1, ROW_HEIGHT);
    pen.fillStyle = state.ink;
    if (wide >= 14) pen.fillText(state.letter, each * wide + (wide - 1) / 2, 13);
    // Where no letter has room, what is wrong has a bar across its middle.
    else if ("FLHX".includes(state.letter)) pen.fillRect(each * wide, 7, wide - 1, 4);
  }
  return canvas;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const titled = (words) => svg("title", {}, words);
const steps = (low, high, count) => Array.from({ length: count }, (_, place) => low + ((high - low) * place) / (count - 1));

// Snapshots that were resolved about when their instants were. Those of a backfill say how the log was years later, and
// would leave no width to its windows.
export function seenInTime({ points, windows }) {
  if (!windows.length) return points;
  const starts = windows.map((each) => each.start_ms), last = Math.max(...windows.map((each) => each.end_ms));
  return points.filter((point) => point.resolved_at_ms <= 2 * last - Math.min(...starts));
}

// Offsets against time: windows as bands, log ends and log starts as lines, what groups have committed as dots.
export function timeChart(answer, wide, words, hrefOf, retentionMs) {
  const tall = 300, left = 96, right = 12, top = 10, bottom = 26;
  const { windows } = answer, points = seenInTime(answer);
  const times = [...points.flatMap((each) => [each.at_ms, each.resolved_at_ms]), ...windows.flatMap((each) => [each.start_ms, each.end_ms])];
  const from = Math.min(...times), to = Math.max(...times, from + 1);
  const marks = [...points.flatMap((each) => [each.offset, each.log_end]), ...windows.flatMap((each) => [each.start_offset, each.end_offset])];
  const most = Math.max(...marks), span = Math.max(1, most - Math.min(...marks));
  // A log start far below would leave no height to what is loaded.
  const starts = points.map((each) => each.log_start).filter((start) => start >= Math.min(...marks) - span / 2);
  const least = Math.min(...marks, ...starts), high = Math.max(most, least + 1);
  const x = (ms) => left + ((ms - from) / (to - from)) * (wide - left - right);
  const y = (offset) => tall - bottom - ((Math.max(offset, least) - least) / (high - least)) * (tall - top - bottom);
  const line = (name, dash) => svg("polyline", {
    points: points.map((each) => `${x(each.resolved_at_ms)},${y(each[name])}`).join(" "),
    fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-dasharray": dash });
  const upright = (ms, dash, title) => svg("line", {
    x1: x(ms), x2: x(ms), y1: top, y2: tall - bottom, stroke: "currentColor", "stroke-dasharray": dash }, titled(title));
  const label = (place, height, anchor, text) => svg("text", { x: place, y: height, "text-anchor": anchor, class: "axis" }, text);
  const bands = windows.map((each) => {
    const state = STATES[each.state] ?? STATES.pinned, width = Math.max(2, x(each.end_ms) - x(each.start_ms) - 1);
    const height = Math.max(3, y(each.start_offset) - y(each.end_offset));
    const link = svg("a", { href: hrefOf(each), "aria-label": words.window(each) }, titled(words.window(each)),
      svg("rect", { x: x(each.start_ms), y: y(each.start_offset) - height, width, height, fill: state.colour }));
    if (width >= 16 && height >= 14) link.append(svg("text", { x: x(each.start_ms) + width / 2, y: y(each.start_offset) - height / 2 + 4,
      "text-anchor": "middle", class: "letter", fill: state.ink }, state.letter));
    return link;
  });
  const dots = points.filter((each) => each.group).map((each) => svg("circle", {
    cx: x(each.resolved_at_ms), cy: y(each.offset), r: 4, fill: "none", stroke: "currentColor", "stroke-width": 2 },
  titled(words.commit(each))));
  const chart = svg("svg", { width: wide, height: tall, role: "img", "aria-label": words.chart, class: "chart" },
    ...steps(least, high, 4).flatMap((offset) => [
      svg("line", { x1: left, x2: wide - right, y1: y(offset), y2: y(offset), class: "rule" }),
      label(left - 8, y(offset) + 4, "end", Math.round(offset).toLocaleString("en"))]),
    ...steps(from, to, wide > 700 ? 5 : 2).map((ms, place, all) =>
      label(x(ms), tall - 8, place === 0 ? "start" : place === all.length - 1 ? "end" : "middle", words.time(ms))),
    ...bands, line("log_end", "none"), line("log_start", "2 4"), ...dots);
  if (retentionMs !== null && retentionMs > from && retentionMs < to) chart.append(upright(retentionMs, "6 3", words.retention));
  return chart;
}
