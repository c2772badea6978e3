// The shop-floor page: keeps each scan until it has its answer, and shows the answer.

import * as answers from "./answers.js";
import { Queue } from "./queue.js";
import { Sender } from "./sender.js";
import { useWorker } from "./offline.js";

const PLACE = `backhaul:${location.pathname}:`;
const MOST_PAST = 12;
const LATE_MS = 15000;
const VERDICTS = { good: "OK", bad: "NO", kept: "KEPT", idle: "…" };
const NAMES = { pick: "Pick", pack: "Pack", receive: "Receive", count: "Count" };
const MODE_CODES = Object.fromEntries(
  Object.keys(NAMES).map((mode) => [`BH-${mode.toUpperCase()}`, mode]),
);
const COMMANDS = ["BH-CLOSE", "BH-DROP", ...Object.keys(MODE_CODES)];
const UNITS = "Units must be a whole number from 1 to 1000000";
const UNREADABLE = "not sent, because the browser stored it incompletely; scan it again";
const ASKED = {
  pick: "Scan the order, then its units",
  pack: "Scan the packed order",
  receive: "Scan what came in",
  count: "Scan what is on the shelf",
};

const at = (id) => document.getElementById(id);

// With the number that the queue gives, an id that no other scan has: not after the
// browser's data was deleted, nor in a copy of it on another device.
const run = [...crypto.getRandomValues(new Uint8Array(8))]
  .map((byte) => byte.toString(16).padStart(2, "0"))
  .join("");
const queue = new Queue(PLACE);
const sender = new Sender(queue, `${PLACE}send`, () => kept("token"), settle);
const tabs = new BroadcastChannel(PLACE);
let state = new Map();
let changes = 0;

const kept = (name) => state.get(name) ?? "";

async function keep(name, value) {
  if (kept(name) === value) return;
  state.set(name, value);
  changes += 1;
  await queue.keep(name, value).catch(() => {});
  tabs.postMessage({});
}

// Reads what other tabs have changed, but nothing older than what this one changes.
async function loadState() {
  let found = state;
  let before;
  do {
    before = changes;
    found = await queue.kept().catch(() => state);
  } while (before !== changes);
  state = found;
}

function chosenMode() {
  return document.querySelector("#modes input:checked")?.value ?? "";
}

function show(kind, what) {
  at("result").className = kind;
  at("verdict").textContent = VERDICTS[kind];
  at("what").textContent = what;
  // Of several tabs the one that somebody sees is heard.
  if (document.visibilityState !== "visible") return;
  if (kept("mute") === "") answers.beep(kind);
  if (kept("voice") !== "") answers.say(kind, what);
  if (kind === "bad") navigator.vibrate?.([200, 100, 200]);
}

function note(kind, code, what) {
  at("past").prepend(line(kind, code, what));
  while (at("past").children.length > MOST_PAST) at("past").lastChild.remove();
}

function line(kind, code, what) {
  const item = document.createElement("li");
  const verdict = document.createElement("strong");
  verdict.textContent = VERDICTS[kind];
  item.append(verdict, ` ${code}: ${what}`);
  return item;
}

function refresh() {
  const known = kept("token") !== "";
  at("entrance").hidden = known;
  at("desk").hidden = at("forget").hidden = !known;
  const mode = chosenMode();
  const order = kept("order");
  const picks = mode === "pick" && order !== "";
  document.querySelector("label[for=code]").textContent =
    picks ? `Order ${order}: scan its units` : (ASKED[mode] ?? "Scan");
  at("ends").hidden = !(picks || mode === "count");
  at("amount").hidden = mode === "pack" || (mode === "pick" && !picks);
  at("sound").setAttribute("aria-pressed", String(kept("mute") === ""));
  at("voice").setAttribute("aria-pressed", String(kept("voice") !== ""));
  at("voice").hidden = !answers.canSpeak();
  return refreshQueue();
}

async function refreshQueue() {
  try {
    const number = await queue.count();
    at("line").textContent = number === 0 ? "Ready" : `${number} not sent yet`;
    at("delete").hidden = number === 0;
    if (number === 0) at("deletion").hidden = true;
    at("number").textContent = String(number);
    const refused = await queue.refused();
    at("late").hidden = refused.length === 0;
    const lines = refused.map((scan) => line("bad", scan.code, `${scan.what} (${timeOf(scan)})`));
    at("refused").replaceChildren(...lines);
  } catch (error) {
    at("line").textContent = `This browser cannot store scans: ${error.message}`;
  }
}

const timeOf = (scan) => new Date(scan.at).toLocaleString(document.documentElement.lang);

function changed() {
  tabs.postMessage({});
  return refreshQueue();
}

function focusOnCode() {
  at(at("desk").hidden ? "token" : "code").focus();
}

function choose(mode) {
  const choice = document.querySelector(`#modes input[value=${mode}]`);
  if (!choice) return;
  choice.checked = true;
  keep("mode", mode);
  refresh();
}

async function scan(code) {
  const command = code.toUpperCase();
  if (command in MODE_CODES) choose(MODE_CODES[command]);
  const mode = chosenMode();
  const counts = !at("amount").hidden && !COMMANDS.includes(command);
  const units = counts ? Number(at("units").value) : 1;
  if (units === 0 || (counts && !at("units").checkValidity())) {
    refuse(code, "is not taken", UNITS);
    return;
  }
  // At once: a scan that comes before this one is stored has its own units.
  at("units").value = "1";
  const message = { mode, code, at: new Date().toISOString(), run };
  if (units !== 1) message.quantity = units;
  try {
    await queue.add(message);
  } catch (error) {
    // The person scans it again, and does not look at the units again.
    if (at("units").value === "1") at("units").value = String(units);
    refuse(code, "is not kept, scan it again", error.message);
    return;
  }
  show("idle", `Sending ${code}`);
  changed();
  sender.send();
}

function refuse(code, verdict, why) {
  show("bad", `${code} ${verdict}: ${why}`);
  note("bad", code, `${verdict}: ${why}`.replace(/^is /, ""));
}

// Returns true if the next scan may be sent.
async function settle(scan, answer) {
  if (!answer.final) {
    if (answer.erase) await eraseAll(answer.what);
    else if (answer.refused) refuseDevice(answer.token);
    else await wait();
    return false;
  }
  const isLate = scan.run !== run || Date.now() - Date.parse(scan.at) > LATE_MS;
  const { code } = scan;
  const refusal = { code, at: scan.at, what: answer.what };
  await queue.remove(scan.number, !answer.accepted && isLate ? refusal : null);
  if (answer.accepted && ["pick", "count"].includes(scan.mode)) keep("order", answer.order ?? "");
  tabs.postMessage({ scan, answer });
  present(scan, answer);
  return true;
}

function present(scan, answer) {
  const kind = answer.accepted ? "good" : "bad";
  show(kind, answer.what);
  note(kind, scan.code, answer.what);
  refresh();
  if (document.activeElement === document.body) focusOnCode();
}

async function wait() {
  const number = await queue.count();
  show("kept", `Not sent yet, kept here: ${number}. It is tried again.`);
  sender.again();
  refresh();
}

// A token that was entered since then is another one.
function refuseDevice(token) {
  if (kept("token") !== token) {
    sender.again();
    return;
  }
  keep("token", "");
  show("bad", "Unknown device: enter its token. The scans are kept.");
  refresh();
  focusOnCode();
}

async function eraseAll(what) {
  await queue.clear();
  keep("token", "");
  keep("order", "");
  at("past").replaceChildren();
  show("bad", what);
  tabs.postMessage({});
  await refresh();
  focusOnCode();
}

function offer(modes) {
  for (const mode of modes) {
    const label = document.createElement("label");
    const choice = document.createElement("input");
    choice.type = "radio";
    choice.name = "mode";
    choice.value = mode;
    choice.checked = mode === (kept("mode") || modes[0]);
    label.append(choice, NAMES[mode]);
    at("modes").append(label);
  }
  if (chosenMode() === "") document.querySelector("#modes input").checked = true;
}

function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  takeToken(given);
  history.replaceState(null, "", location.pathname);
}

function takeToken(given) {
  keep("token", given.trim());
  protectStorage();
}

// Otherwise a browser that runs out of space may delete the scans that wait. A browser
// may refuse this at first, and agree when the page has been in use for some days.
function protectStorage() {
  navigator.storage?.persist?.().catch(() => {});
}

function submitToken(event) {
  event.preventDefault();
  takeToken(at("token").value);
  at("token").value = "";
  show("idle", "Waiting for a scan.");
  refresh();
  focusOnCode();
  sender.send();
}

function submitCode(event) {
  event.preventDefault();
  const code = at("code").value.trim();
  at("code").value = "";
  if (code) scan(code);
  else if (!at("units").checkValidity()) show("bad", `Nothing is sent: ${UNITS}`);
  focusOnCode();
}

// The number has to be typed: what a scanner sends must not confirm it.
async function submitDeletion(event) {
  event.preventDefault();
  const typed = at("confirm").value.trim();
  at("confirm").value = "";
  if (typed !== String(await queue.count())) {
    show("bad", "Nothing is deleted: the number is not the number of the scans.");
    return;
  }
  await queue.deleteUnsent();
  at("deletion").hidden = true;
  show("idle", `${typed} scans are deleted.`);
  await changed();
  focusOnCode();
}

function press(id, work) {
  at(id).addEventListener("click", async () => {
    await work();
    refresh();
    focusOnCode();
  });
}

function toggle(id, name) {
  press(id, () => {
    keep(name, kept(name) === "" ? "yes" : "");
    if (kept("voice") === "") answers.silence();
  });
}

// Earlier versions kept everything in localStorage. The queue has a scan before it is
// removed there; if this is interrupted, it is sent twice and counts once, by its old
// sequence. If the queue cannot store a scan, this ends: the scans are sent in order.
async function moveOldState() {
  for (const name of ["token", "mode", "order"]) {
    const old = localStorage.getItem(PLACE + name);
    if (old && kept(name) === "") await keep(name, old);
    localStorage.removeItem(PLACE + name);
  }
  const scans = Object.keys(localStorage).filter((key) => key.startsWith(`${PLACE}scan:`));
  for (const key of scans.sort()) {
    const text = localStorage.getItem(key);
    if (text !== null) await moveOldScan(text);
    localStorage.removeItem(key);
  }
}

async function moveOldScan(text) {
  const scan = oldScanOf(text);
  if (scan !== null) await queue.add({ ...scan, scanId: null, run });
  else await queue.refuse({ code: text, at: new Date().toISOString(), what: UNREADABLE });
}

function oldScanOf(text) {
  try {
    const scan = JSON.parse(text);
    return typeof scan?.code === "string" ? scan : null;
  } catch {
    return null;
  }
}

function listen() {
  at("entrance").addEventListener("submit", submitToken);
  at("desk").addEventListener("submit", submitCode);
  at("deletion").addEventListener("submit", submitDeletion);
  at("modes").addEventListener("change", () => {
    keep("mode", chosenMode());
    refresh();
    focusOnCode();
  });
  press("finish", () => scan("BH-CLOSE"));
  press("drop", () => scan("BH-DROP"));
  press("seen", async () => {
    await queue.forgetRefused();
    changed();
  });
  toggle("sound", "mute");
  toggle("voice", "voice");
  press("forget", () => {
    keep("token", "");
    keep("order", "");
  });
  at("delete").addEventListener("click", () => {
    at("deletion").hidden = false;
    at("confirm").focus();
  });
  // A scanner types wherever the focus is: outside of a field it goes to the code.
  document.addEventListener("keydown", (event) => {
    const free = ["BODY", "BUTTON"].includes(document.activeElement.tagName);
    if (free && event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey) focusOnCode();
  });
  addEventListener("online", () => sender.send());
  addEventListener("hashchange", () => {
    takeTokenFromAddress();
    refresh();
    focusOnCode();
    sender.send();
  });
  tabs.addEventListener("message", async ({ data }) => {
    if (data.scan?.run === run) present(data.scan, data.answer);
    await loadState();
    refresh();
  });
}

async function begin() {
  await loadState();
  await moveOldState().catch(() => {});
  if (kept("token") !== "") protectStorage();
  takeTokenFromAddress();
  const offered = document.body.dataset.modes.split(" ");
  offer(Object.keys(NAMES).filter((mode) => offered.includes(mode)));
  listen();
  refresh();
  focusOnCode();
  sender.send();
  useWorker(at("needs-network"), at("upgrade"));
}

begin();
