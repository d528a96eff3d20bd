// What the server is asked, and how old its answer is.
import { plural, time } from "./elements.js";

// A file written by kafka-offsets ledger show --html contains its answers.
export const kept = globalThis.kept;

export async function ask(path) {
  if (kept && path in kept) return kept[path];
  if (kept) throw new Error("This file doesn't contain the answer. Use the page in Airflow, or the command kafka-offsets ledger.");
  // A link or an image on another site can't send this header.
  const answer = await fetch(`api/${path}`, { credentials: "same-origin", headers: { "X-Requested-With": "fetch" } });
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  if (answer.status === 401) throw new Error("You aren't logged in, or your session has expired. Log in to Airflow, then reload this page.");
  if (Array.isArray(said.detail)) throw new Error(said.detail.map((each) => `${each.loc?.at(-1)}: ${each.msg}`).join("; "));
  throw new Error(typeof said.detail === "string" ? said.detail : `The server answered ${answer.status}.`);
}

export function showAge(answer) {
  const seconds = answer.read_ms ? Math.max(0, Math.round((answer.now_ms - answer.read_ms) / 1000)) : 0;
  const when = kept ? `as of ${time(`${new Date(answer.now_ms).toISOString().slice(0, 19)}Z`)}` : `read ${plural(seconds, "second")} ago`;
  document.getElementById("age").textContent = `${when}, times in UTC`;
}
