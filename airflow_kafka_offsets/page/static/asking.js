// What the server is asked.

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
