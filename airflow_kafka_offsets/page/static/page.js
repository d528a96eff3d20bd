// The page. All addresses are relative, and the hash says what to show.
import { alertNote } from "./elements.js";
import { showPipeline } from "./pipeline.js";
import { showPipelines } from "./pipelines.js";
import { showWaits } from "./waits.js";

const main = document.getElementById("main");
const theme = localStorage.getItem("theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
let asked = 0;

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
  document.title = pipeline ? `${pipeline} · Kafka windows` : "Kafka windows";
  const parts = await screenOf(kind, pipeline, rest, new URLSearchParams(query)).catch((error) => [alertNote(error)]);
  if (mine !== asked) return;
  main.replaceChildren(...parts.filter(Boolean));
  main.querySelector(".panel")?.focus();
}

window.addEventListener("hashchange", show);
show();
