// The public storefront API, and nothing else.

export const subdomain = document.body.dataset.subdomain;

/** A refusal of the server: its status, and the problem's own members. */
export class Problem extends Error {
  constructor(status, document, wait) {
    super(document.detail ?? `status ${status}`);
    this.status = status;
    this.code = document.code ?? "";
    this.document = document;
    this.waitSeconds = Number(wait) || null;
  }
}

/** No answer came, so nobody knows whether the request was carried out. */
export class Unreachable extends Error {}

async function send(method, path, body, headers) {
  const sent = { "x-subdomain": subdomain, ...headers };
  if (body !== undefined) sent["content-type"] = "application/json";
  const content = typeof body === "string" ? body : JSON.stringify(body);
  const options = { method, headers: sent, body: content, credentials: "omit" };
  try {
    const answer = await fetch(path, { ...options, referrerPolicy: "no-referrer" });
    return [answer, await answer.json()];
  } catch {
    throw new Unreachable("no answer");
  }
}

export async function ask(method, path, body, headers = {}) {
  const [answer, document] = await send(method, path, body, headers);
  if (answer.ok) return document;
  throw new Problem(answer.status, document, answer.headers.get("Retry-After"));
}

export async function get(path) {
  return (await ask("GET", `/storefront${path}`)).data;
}

export function getPage(path, query) {
  const known = Object.entries(query).filter(([, value]) => value);
  return ask("GET", `/storefront${path}?${new URLSearchParams(known)}`);
}

/** A value nobody guesses; randomUUID is missing where a page came over http. */
export function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
