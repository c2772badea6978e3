// Sends the scans of the queue in their order, one tab at a time.

const AGAIN_MS = 3000;
const PATIENCE_MS = 10000;
const FINAL = [200, 400, 413, 415, 422];

export class Sender {
  #queue;
  #lock;
  #token;
  #settle;
  #sending = false;
  #asked = false;
  #timer = 0;

  // `token()` returns the device's token or "". `settle(scan, answer)` is told each
  // answer, and returns true if the next scan may be sent.
  constructor(queue, lock, token, settle) {
    this.#queue = queue;
    this.#lock = lock;
    this.#token = token;
    this.#settle = settle;
  }

  async send() {
    this.#asked = true;
    if (this.#sending) return;
    this.#sending = true;
    clearTimeout(this.#timer);
    try {
      while (this.#asked) {
        this.#asked = false;
        await alone(this.#lock, () => this.#sendAll());
      }
    } catch {
      this.again();
    } finally {
      this.#sending = false;
    }
  }

  again() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.send(), AGAIN_MS);
  }

  async #sendAll() {
    for (;;) {
      const token = this.#token();
      const scan = token && (await this.#queue.oldest());
      if (!scan) return;
      const answer = { ...(await post(scan, token)), token };
      if (!(await this.#settle(scan, answer))) return;
    }
  }
}

// Another tab waits until this one has sent everything. Without https there are no
// locks: two tabs may then send a scan at once, which counts once by its id.
async function alone(name, work) {
  if (!navigator.locks) return await work();
  return await navigator.locks.request(name, work);
}

// Returns what the server said: `final` if it has decided about the scan, `refused` if
// it does not know the token, `erase` if the device was reported lost. Anything else,
// such as the page of a hotspot, leaves the scan in the queue.
async function post(scan, token) {
  const { run, number, ...message } = scan;
  const patience = new AbortController();
  const alarm = setTimeout(() => patience.abort(), PATIENCE_MS);
  try {
    const answer = await fetch("scan", {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
      body: JSON.stringify({ sequence: number, scanId: `${run}-${number}`, ...message }),
      cache: "no-store",
      redirect: "error",
      signal: patience.signal,
    });
    const document = await answer.json();
    const decided = typeof document.accepted === "boolean";
    const final = decided && FINAL.includes(answer.status);
    const refused = decided && answer.status === 401;
    const erase = decided && answer.status === 410 && document.erase === true;
    return { ...document, final, refused, erase };
  } catch {
    return { final: false, refused: false, erase: false };
  } finally {
    clearTimeout(alarm);
  }
}
