// Two uPlot charts with one cursor, legend and zoom: a topic's offsets over time, and below them what wasn't loaded.
// An offset is drawn as its distance from a round, lower offset: a JavaScript number holds that exactly.
/* global uPlot */
import { bySeverity, drawMoment, drawWindows, offsetAxis, spanAxis, timeAxis } from "./chart_marks.js";
import { betweenMs, make, note, number, svg, timeAt } from "./elements.js";
import { higher, instantsOf, lagLines, lower, momentsOf, momentsTable, offsetLines, seenInTime, valueText } from "./moments.js";

const FONT = "12px system-ui, sans-serif", HEIGHTS = [320, 200], RIGHT = 52;
let charts = 0;

const colourOf = (element) => getComputedStyle(element).color;

// The heights at which a topic's offsets are drawn.
class Heights {
  constructor(moments, windows) {
    const starts = moments.map((moment) => moment.start);
    const marks = [...moments.flatMap((moment) => [moment.end, moment.loaded, moment.instant]),
      ...windows.flatMap((each) => [each.start_offset, each.end_offset])].filter((offset) => typeof offset === "bigint");
    const lowest = marks.reduce(lower, marks[0] ?? 0n), span = marks.reduce(higher, lowest) - lowest;
    const low = starts.filter((start) => start !== null).reduce(lower, lowest), unit = 10n ** BigInt(String(lowest + span - low).length);
    this.base = (low / unit) * unit;
    this.digits = Math.max(...[...marks, low].map((offset) => number(offset).length));
    // A log start that is far below would squeeze what is loaded into no height.
    this.startIsFar = starts.every((start) => start !== null && start < lowest - span / 2n);
  }

  of = (offset) => Number(offset - this.base);
  words = (height) => number(BigInt(Math.round(height)) + this.base);
}

// The time span without zoom: everything, and the moment of retention if it is near.
function wholeTime(moments, windows, reaches) {
  const times = [...moments.map((moment) => moment.at), ...windows.flatMap((each) => [each.start_ms, each.end_ms])];
  const first = times.reduce(lower), seen = times.reduce(higher, first + 1000);
  const last = reaches !== null && reaches > seen && reaches - seen < (seen - first) / 2 ? reaches : seen;
  const room = (last - first) * 0.01;
  return { min: first - room, max: last + room };
}

function swatchOf(look, dash) {
  const line = svg("line", { x1: 0, x2: 30, y1: 6, y2: 6, stroke: "currentColor", "stroke-width": 2.5, "stroke-dasharray": dash.join(" ") || "none" });
  return svg("svg", { width: 30, height: 12, class: `look ${look}`, "aria-hidden": "true" }, line);
}

class OffsetsChart {
  constructor(answer, reaches, open) {
    this.inTime = momentsOf(seenInTime(answer));
    this.moments = this.inTime.length ? this.inTime : instantsOf(answer.points);
    this.windows = answer.windows.map((each) => ({ ...each, start_offset: BigInt(each.start_offset), end_offset: BigInt(each.end_offset) }));
    Object.assign(this, { reaches, open, plots: [], key: `offsets-${++charts}` });
    this.heights = new Heights(this.moments, this.windows);
    this.whole = wholeTime(this.moments, this.windows, reaches);
    this.lines = [offsetLines(this.moments), lagLines(this.moments)].filter((lines, place) => !place || lines.length);
    for (const line of this.lines[0]) line.hidden = line.look === "start" && this.heights.startIsFar;
    this.element = this.#makeElement();
    this.#tell(null, null);
    this.#follow();
  }

  // ---- elements

  #makeElement() {
    this.back = make("button", { type: "button", disabled: true, onclick: () => this.#seeWhole() }, "Whole time");
    this.pointed = make("p", { className: "pointed" });
    this.frames = this.lines.map((_, place) => make("div", { className: `frame ${place ? "lags" : "offsets"}` }));
    const legends = this.lines.map((lines, place) => make("div", { className: "lines" }, ...lines.map((line, at) => this.#legendOf(line, place, at + 1))));
    this.retention = swatchOf("retention", [6, 3]);
    if (this.reaches !== null) legends[0].append(make("span", { className: "mark" }, this.retention,
      make("span", {}, "Retention may delete unloaded records from"), make("output", {}, timeAt(this.reaches))));
    return make("div", { className: "charts" },
      make("div", { className: "tools-of-chart" }, this.back, make("span", { className: "note" }, "Drag across the chart to zoom. Click a window to open it.")),
      this.pointed, ...this.frames.flatMap((frame, place) => [legends[place], frame]),
      this.frames.length > 1 ? null : note("It isn't known what wasn't loaded yet at each of these moments."),
      this.inTime.length ? momentsTable(this.inTime) : null);
  }

  // An entry of the legend: a checkbox that switches the line, and the line's value at one moment.
  #legendOf(line, place, series) {
    line.swatch = swatchOf(line.look, line.dash);
    line.value = make("output", {});
    line.box = make("input", { type: "checkbox", checked: !line.hidden,
      onchange: (event) => this.plots[place]?.setSeries(series, { show: event.target.checked }) });
    return make("label", {}, line.box, line.swatch, make("span", {}, line.name), line.value);
  }

  // Show what was seen at a moment; without a cursor, at the last one.
  #tell(place, ms) {
    const at = place ?? this.moments.length - 1, moment = this.moments[at];
    for (const line of this.lines.flat()) line.value.textContent = valueText(line, moment);
    const seen = this.inTime.length ? `${place === null ? "Last seen" : "Seen"} ${timeAt(moment.at)}` : "Resolved long after these windows";
    const under = ms === null ? [] : this.windows.filter((each) => each.start_ms <= ms && ms < each.end_ms).map(windowText);
    this.pointed.textContent = [`${seen}${moment.rate ? `; ${moment.rate} written since the previous snapshot` : ""}`,
      ...(under.length ? [`Cursor: ${under.join("; ")}`] : [])].join(". ");
  }

  // ---- plots

  // Draw the charts once their element has a width, and resize them with it.
  #follow() {
    const dark = matchMedia("(prefers-color-scheme: dark)"), redraw = () => this.plots.forEach((plot) => plot.redraw(false));
    const observer = new ResizeObserver(() => {
      const width = Math.floor(this.frames[0].clientWidth);
      if (!this.element.isConnected) {
        observer.disconnect();
        dark.removeEventListener("change", redraw);
        this.plots.forEach((plot) => plot.destroy());
      } else if (width && !this.plots.length) this.#plot(width);
      else if (width) this.plots.forEach((plot) => plot.setSize({ width, height: plot.height }));
    });
    observer.observe(this.frames[0]);
    dark.addEventListener("change", redraw);
  }

  #plot(width) {
    const left = 22 + this.heights.digits * 7, axes = [[offsetAxis(left, this.heights.words)], [offsetAxis(left, number), spanAxis(RIGHT)]];
    this.plots = this.lines.map((lines, place) => {
      const toNumber = (line) => (place ? Number : this.heights.of);
      const values = lines.map((line) => this.moments.map(line.of).map((value) => (value === null ? null : toNumber(line)(value))));
      const options = { width, height: HEIGHTS[place], padding: [8, axes[place].length > 1 ? 0 : this.lines.length > 1 ? RIGHT : 12, 0, 0],
        series: [{}, ...lines.map((line) => this.#series(line))], axes: [timeAxis, ...axes[place]].map((axis) => this.#axis(axis)) };
      return new uPlot({ ...options, ...this.#common(place) }, [this.moments.map((moment) => moment.at), ...values], this.frames[place]);
    });
    this.plots.forEach((plot) => this.#listen(plot));
    this.#seeWhole();
  }

  #series(line) {
    return { label: line.name, scale: line.scale ?? "y", show: line.box.checked, width: 2, dash: line.dash,
      stroke: () => colourOf(line.swatch), points: { show: this.moments.length < 3, size: 8 },
      ...(line.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}) };
  }

  #axis(axis) {
    const rule = () => getComputedStyle(this.element).borderTopColor;
    return { font: FONT, ...axis, stroke: () => colourOf(this.element), grid: { stroke: rule, width: 1, ...axis.grid }, ticks: { stroke: rule, width: 1, size: 4 } };
  }

  #common(place) {
    const fixed = (plot, min, max) => [min, max];
    return {
      ms: 1, tzDate: (ms) => uPlot.tzDate(new Date(ms), "Etc/UTC"), legend: { show: false },
      cursor: { y: false, sync: { key: this.key, setSeries: false }, drag: { x: true, y: false, dist: 5 } },
      scales: { x: { range: fixed }, y: { range: (plot, min, max) => (place ? fromZero(max) : this.#range(plot, min, max)) },
        time: { range: (plot, min, max) => fromZero(max) } },
      hooks: {
        drawAxes: [(plot) => { if (!place) drawWindows(plot, bySeverity(this.windows), this.heights.of); }],
        draw: [(plot) => { if (this.reaches !== null) drawMoment(plot, this.reaches, place ? "" : `retention ${timeAt(this.reaches)}`, colourOf(this.retention)); }],
        setCursor: [(plot) => this.#tell(plot.cursor.idx ?? null, plot.cursor.left < 0 ? null : plot.posToVal(plot.cursor.left, "x"))],
        setScale: [(plot, scale) => {
          if (scale === "x") this.back.disabled = plot.scales.x.min <= this.whole.min && plot.scales.x.max >= this.whole.max;
        }],
      },
    };
  }

  // The range of visible offsets, with room for the strip of states below, and for words above.
  #range(plot, min, max) {
    const { min: from, max: to } = plot.scales.x;
    const inside = this.windows.filter((each) => each.end_ms >= from && each.start_ms <= to);
    const values = [min, max, ...inside.flatMap((each) => [this.heights.of(each.start_offset), this.heights.of(each.end_offset)])].filter((value) => value !== null);
    if (!values.length) return [0, 1];
    const least = values.reduce(lower), most = values.reduce(higher, least + 1), tall = most - least;
    return [least - tall * 0.1, most + tall * 0.12];
  }

  #seeWhole() {
    this.plots.forEach((plot) => plot.setScale("x", this.whole));
  }

  // Arrow keys move the cursor; a click opens the window that it is in.
  #listen(plot) {
    const last = this.moments.length - 1, steps = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last };
    Object.assign(plot.over, { tabIndex: 0, role: "img", ariaLabel: "Offsets over time. Arrow keys move the cursor; the table below has the same numbers." });
    plot.over.addEventListener("keydown", (event) => {
      if (!(event.key in steps)) return;
      event.preventDefault();
      const place = Math.max(0, Math.min(last, (plot.cursor.idx ?? last) + steps[event.key]));
      plot.setCursor({ left: plot.valToPos(this.moments[place].at, "x"), top: 1 });
    });
    plot.over.addEventListener("click", () => {
      const ms = plot.posToVal(plot.cursor.left, "x"), found = this.windows.find((each) => each.start_ms <= ms && ms < each.end_ms);
      if (found) this.open(found);
    });
  }
}

const fromZero = (max) => [0, Math.max(1, (max ?? 0) * 1.1)];

function windowText(each) {
  return `window ${betweenMs(each.start_ms, each.end_ms)}, ${each.state}`;
}

export const offsetsChart = (answer, reaches, open) => new OffsetsChart(answer, reaches, open).element;
