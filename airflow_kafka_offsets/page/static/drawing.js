// Drawings: states as a colour and a letter (Okabe and Ito's palette), rows per window, partitions of one window. The chart over time is in
// offsets_chart.js.

export const STATES = {
  pinned: { letter: "P", colour: "#b8c0c8", ink: "#000000" },
  loading: { letter: "…", colour: "#56b4e9", ink: "#000000" },
  failed: { letter: "F", colour: "#d55e00", ink: "#000000" },
  proved: { letter: "R", colour: "#f0e442", ink: "#000000" },
  published: { letter: "U", colour: "#0072b2", ink: "#ffffff" },
  verified: { letter: "V", colour: "#009e73", ink: "#000000" },
  lost: { letter: "L", colour: "#8b0d1a", ink: "#ffffff" },
  hole: { letter: "H", colour: "#000000", ink: "#ffffff" },
  absent: { letter: "–", colour: "#e4e8ec", ink: "#000000" },
};
export const ROW_HEIGHT = 18;
const SVG = "http://www.w3.org/2000/svg";

export function sparkLine(values) {
  const width = 150, height = 26, svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("role", "img");
  const most = Math.max(1, ...values), step = Math.min(8, width / Math.max(1, values.length));
  svg.setAttribute("aria-label", `Rows in each of the last ${values.length} published windows; the maximum is ${most}`);
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

// A cell for each partition, starting at index `from`. cellState says its state; null leaves the cell blank.
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
    // If there is no room for letters, a bar across the middle marks the states that are problems.
    else if ("FLH".includes(state.letter)) pen.fillRect(each * wide, 7, wide - 1, 4);
  }
  return canvas;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
