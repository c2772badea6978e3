// What the page keeps, in IndexedDB: the scans that have no answer yet, the refused ones,
// and what the person chose. It outlives the page and the browser; what localStorage has
// is written seconds later, and is gone if the browser is killed before.

const SCANS = "scans";
const REFUSED = "refused";
const STATE = "state";
const STORES = [SCANS, REFUSED, STATE];
const MOST_REFUSED = 500;

export class Queue {
  #name;
  #opened = null;

  constructor(name) {
    this.#name = name;
  }

  // Returns the scan with its number, once it is on the disk. The database gives the
  // numbers, so two tabs never get the same one, and no number comes a second time.
  async add(scan) {
    const number = await this.#change(({ scans }) => scans.add(scan));
    return { ...scan, number };
  }

  async oldest() {
    return await this.#read(SCANS, (scans) => scans.openCursor(), (cursor) =>
      cursor ? { ...cursor.value, number: cursor.key } : null,
    );
  }

  async count() {
    return await this.#read(SCANS, (scans) => scans.count());
  }

  async refused() {
    return await this.#read(REFUSED, (refused) => refused.getAll());
  }

  // Removes an answered scan; `refusal` is kept in the same step until somebody saw it.
  async remove(number, refusal = null) {
    await this.#change(({ scans, refused }) => {
      if (refusal) addRefusal(refused, refusal);
      return scans.delete(number);
    });
  }

  // Keeps a refusal until somebody saw it.
  async refuse(refusal) {
    await this.#change(({ refused }) => addRefusal(refused, refusal));
  }

  async forgetRefused() {
    await this.#change(({ refused }) => refused.clear());
  }

  // Removes the scans that have no answer yet; the numbers go on. Late refusals stay
  // until somebody has seen them.
  async deleteUnsent() {
    await this.#change(({ scans }) => scans.clear());
  }

  // Removes all scans and all refusals, as for a lost device; the numbers go on.
  async clear() {
    await this.#change(({ scans, refused }) => {
      refused.clear();
      return scans.clear();
    });
  }

  // Returns what `keep` stored: a Map of texts.
  async kept() {
    const found = await this.#read(STATE, (state) => state.getAll());
    return new Map(found.map(({ name, value }) => [name, value]));
  }

  async keep(name, value) {
    await this.#change(({ state }) => state.put({ name, value }));
  }

  async #read(store, ask, shape = (result) => result) {
    const database = await this.#database();
    const request = ask(database.transaction(store).objectStore(store));
    return shape(await settled(request, "success"));
  }

  async #change(work) {
    const database = await this.#database();
    // "strict": the disk has it when this ends, even if the device loses its power.
    const change = database.transaction(STORES, "readwrite", { durability: "strict" });
    const stores = STORES.map((name) => [name, change.objectStore(name)]);
    const request = work(Object.fromEntries(stores));
    await settled(change, "complete");
    return request.result;
  }

  #database() {
    this.#opened ??= open(this.#name, () => (this.#opened = null)).catch((error) => {
      this.#opened = null;
      throw error;
    });
    return this.#opened;
  }
}

function addRefusal(refused, refusal) {
  const request = refused.add(refusal);
  request.addEventListener("success", () => {
    refused.delete(IDBKeyRange.upperBound(request.result - MOST_REFUSED));
  });
  return request;
}

async function open(name, whenClosed) {
  const request = indexedDB.open(name, 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(SCANS, { autoIncrement: true });
    request.result.createObjectStore(REFUSED, { autoIncrement: true });
    request.result.createObjectStore(STATE, { keyPath: "name" });
  };
  const database = await settled(request, "success");
  database.onclose = whenClosed;
  database.onversionchange = () => {
    database.close();
    whenClosed();
  };
  return database;
}

function settled(request, ended) {
  return new Promise((resolve, reject) => {
    const fail = () => reject(request.error ?? new Error("the storage failed"));
    request.addEventListener(ended, () => resolve(request.result));
    request.addEventListener("error", fail);
    request.addEventListener("abort", fail);
  });
}
