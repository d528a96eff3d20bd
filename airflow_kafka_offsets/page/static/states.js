// States as a mark and a colour (of Okabe and Ito's palette). Words beside them say which state it is.

const DONE = { mark: "✓", colour: "#009e73", ink: "#000000" }, GOING = { mark: "▸", colour: "#56b4e9", ink: "#000000" };
const WAITING = { mark: "○", colour: "#b8c0c8", ink: "#000000" }, WRONG = { mark: "!", colour: "#e07020", ink: "#000000" };
const NOTHING = { mark: "–", colour: "#e4e8ec", ink: "#000000" };

export const STATES = {
  verified: DONE, published: DONE, proved: GOING, loading: GOING, pinned: WAITING, failed: WRONG, hole: WRONG, lost: WRONG, late: WRONG, absent: NOTHING,
};
const LOOKS = [[DONE, "published"], [GOING, "being loaded"], [WAITING, "not begun"], [WRONG, "failed"]];
export const lookOf = (state) => STATES[state] ?? WAITING;

export function markOf(look) {
  const mark = document.createElement("span");
  mark.className = "badge";
  mark.textContent = look.mark;
  mark.style.background = look.colour;
  mark.style.color = look.ink;
  mark.setAttribute("aria-hidden", "true");
  return mark;
}

// What the colours of the chart's bands mean.
export function legend() {
  const element = document.createElement("p");
  element.className = "legend";
  for (const [look, words] of LOOKS) {
    const entry = document.createElement("span");
    entry.append(markOf(look), words);
    element.append(entry);
  }
  return element;
}
