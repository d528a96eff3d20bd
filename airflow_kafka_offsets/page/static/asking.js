// What the server is asked.

export async function ask(path) {
  // A link or an image on another site can't send this header.
  const answer = await fetch(`api/${path}`, { credentials: "same-origin", headers: { "X-Requested-With": "fetch" } });
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  if (answer.status === 401) throw new Error("You aren't logged in, or your session has expired. Log in to Airflow, then reload this page.");
  if (Array.isArray(said.detail)) throw new Error(said.detail.map((each) => `${each.loc?.at(-1)}: ${each.msg}`).join("; "));
  throw new Error(typeof said.detail === "string" ? said.detail : `The server answered ${answer.status}.`);
}
