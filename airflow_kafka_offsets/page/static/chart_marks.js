// What is drawn on a uPlot chart besides its lines: windows as bands, a moment as a vertical line, and the axes' labels.
/* global uPlot */
import { DAY, INK, lookOf } from "./elements.js";

const LANE = 16;
const SEVERITY = ["verified", "published", "proved", "pinned", "loading", "failed"];
const ROUND = Array.from({ length: 19 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();
const SPANS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, ...ROUND.map((days) => days * 86400)].map((s) => s * 1000);

// The worst states are drawn last, on top, so that a narrow failed window among many others is visible.
export const bySeverity = (windows) => windows.toSorted((one, other) => SEVERITY.indexOf(one.state) - SEVERITY.indexOf(other.state));

// A strip of states below, and each window as a band between its instants and its offsets.
export function drawWindows(plot, windows, y) {
  const { ctx, bbox } = plot, ratio = uPlot.pxRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `bold ${11 * ratio}px sans-serif`;
  ctx.textAlign = "center";
  for (const each of windows) {
    const from = plot.valToPos(each.start_ms, "x", true), to = plot.valToPos(each.end_ms, "x", true);
    if (to >= bbox.left && from <= bbox.left + bbox.width) drawWindow(plot, each, from, Math.max(2 * ratio, to - from - ratio), y);
  }
  ctx.restore();
}

function drawWindow(plot, window, left, wide, y) {
  const { ctx, bbox } = plot, ratio = uPlot.pxRatio, bottom = bbox.top + bbox.height, look = lookOf(window.state);
  ctx.fillStyle = look.colour;
  ctx.fillRect(left, bottom - LANE * ratio, wide, LANE * ratio);
  const low = plot.valToPos(y(window.start_offset), "y", true), high = plot.valToPos(y(window.end_offset), "y", true);
  const tall = Math.max(3 * ratio, low - high);
  ctx.globalAlpha = 0.6;
  ctx.fillRect(left, low - tall, wide, tall);
  ctx.globalAlpha = 1;
  ctx.fillStyle = INK;
  if (wide >= 13 * ratio) ctx.fillText(look.mark, left + wide / 2, bottom - 4 * ratio);
}

// A moment as a vertical line; if it is outside the visible time, an arrow that points to it.
export function drawMoment(plot, ms, words, colour) {
  const { ctx, bbox } = plot, ratio = uPlot.pxRatio, place = plot.valToPos(ms, "x", true), right = bbox.left + bbox.width;
  const x = Math.max(bbox.left, Math.min(right, place)), isLeft = x - bbox.left > bbox.width / 2;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = 2 * ratio;
  ctx.setLineDash([6 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  if (x === place) ctx.stroke();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = isLeft ? "right" : "left";
  const told = x === place ? words : isLeft ? `${words} \u2192` : `\u2190 ${words}`;
  if (words) ctx.fillText(told, x + (isLeft ? -6 : 6) * ratio, bbox.top + 13 * ratio);
  ctx.restore();
}

// ---- axes

function xLabels(plot, moments, axis, space, step) {
  const iso = moments.map((ms) => new Date(ms).toISOString());
  return iso.map((at, place) => {
    if (step >= DAY) return at.slice(0, 10);
    const clock = at.slice(11, step < 60000 ? 19 : 16);
    return place && at.slice(0, 10) === iso[place - 1].slice(0, 10) ? clock : `${clock}\n${at.slice(0, 10)}`;
  });
}

function short(ms) {
  for (const [size, unit] of [[DAY, "d"], [3600000, "h"], [60000, "min"]]) if (ms >= size) return `${Math.round((ms / size) * 10) / 10} ${unit}`;
  return `${Math.round(ms / 1000)} s`;
}

export const timeAxis = { values: xLabels, space: 90, size: 44 };
export const offsetAxis = (size, words) => ({ scale: "y", size, incrs: ROUND, values: (plot, all) => all.map(words) });
export const spanAxis = (size) => ({ scale: "time", side: 1, size, incrs: SPANS, values: (plot, all) => all.map(short), grid: { show: false } });
