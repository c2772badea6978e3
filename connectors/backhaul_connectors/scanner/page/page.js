// The shop-floor page: sends each scan, and keeps it until it has its answer.
"use strict";

const PLACE = `backhaul:${location.pathname}:`;
const WAITING = `${PLACE}scan:`;
const AGAIN_MS = 3000;
const PATIENCE_MS = 10000;
const MOST_PAST = 12;
const VERDICTS = { good: "OK", bad: "NO", kept: "KEPT", idle: "…" };
const TONES = { good: [[880, 0.12]], bad: [[220, 0.3], [165, 0.4]], kept: [[440, 0.15]] };
const NAMES = { pick: "Pick", pack: "Pack", receive: "Receive", count: "Count" };
const MODE_CODES = Object.fromEntries(
  Object.keys(NAMES).map((mode) => [`BH-${mode.toUpperCase()}`, mode]),
);
const COMMANDS = ["BH-CLOSE", "BH-DROP", ...Object.keys(MODE_CODES)];
const UNITS = "Units must be a whole number from 1 to 1000000";
const ASKED = {
  pick: "Scan the order, then its units",
  pack: "Scan the packed order",
  receive: "Scan what came in",
  count: "Scan what is on the shelf",
};

const at = (id) => document.getElementById(id);
const kept = (name) => localStorage.getItem(PLACE + name) ?? "";
const keep = (name, value) => localStorage.setItem(PLACE + name, value);

// Never used twice, so a scan that is sent again is known, from whichever tab.
const run = [...crypto.getRandomValues(new Uint8Array(8))]
  .map((byte) => byte.toString(16).padStart(2, "0"))
  .join("");
let count = 0;
let sending = false;
let timer = 0;
let sound = null;

function waiting() {
  return Object.keys(localStorage)
    .filter((key) => key.startsWith(WAITING))
    .sort();
}

function chosenMode() {
  return document.querySelector("#modes input:checked")?.value ?? "";
}

function show(kind, what) {
  at("result").className = kind;
  at("verdict").textContent = VERDICTS[kind];
  at("what").textContent = what;
  if (TONES[kind]) beep(TONES[kind]);
  if (kind === "bad") navigator.vibrate?.([200, 100, 200]);
}

function beep(tones) {
  sound ??= new AudioContext();
  let start = sound.currentTime;
  for (const [pitch, seconds] of tones) {
    const voice = sound.createOscillator();
    const loudness = sound.createGain();
    voice.frequency.value = pitch;
    loudness.gain.setValueAtTime(0.3, start);
    loudness.gain.exponentialRampToValueAtTime(0.001, start + seconds);
    voice.connect(loudness).connect(sound.destination);
    voice.start(start);
    voice.stop(start + seconds);
    start += seconds;
  }
}

function note(kind, code, what) {
  const line = document.createElement("li");
  const verdict = document.createElement("strong");
  verdict.textContent = VERDICTS[kind];
  line.append(verdict, ` ${code}: ${what}`);
  at("past").prepend(line);
  while (at("past").children.length > MOST_PAST) at("past").lastChild.remove();
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
  const number = waiting().length;
  at("line").textContent = number === 0 ? "Ready" : `${number} not sent yet`;
}

function focusOnCode() {
  at(at("desk").hidden ? "token" : "code").focus();
}

// Scans are sent in the order of their keys, also when the clock was set back.
function place() {
  const last = waiting().at(-1) ?? "";
  return Math.max(Date.now(), Number(last.slice(WAITING.length).split("-")[0]) + 1);
}

function choose(mode) {
  const choice = document.querySelector(`#modes input[value=${mode}]`);
  if (!choice) return;
  choice.checked = true;
  keep("mode", mode);
  refresh();
}

function scan(code) {
  const command = code.toUpperCase();
  if (command in MODE_CODES) choose(MODE_CODES[command]);
  const mode = chosenMode();
  const counts = !at("amount").hidden && !COMMANDS.includes(command);
  const units = counts ? Number(at("units").value) : 1;
  if (units === 0 || (counts && !at("units").checkValidity())) {
    show("bad", `${code} is not taken: ${UNITS}`);
    note("bad", code, `not taken: ${UNITS}`);
    return;
  }
  const message = { mode, code, sequence: `${run}-${++count}`, at: new Date().toISOString() };
  if (units !== 1) message.quantity = units;
  const key = `${WAITING}${String(place()).padStart(15, "0")}-${String(count).padStart(9, "0")}-${run}`;
  try {
    localStorage.setItem(key, JSON.stringify(message));
  } catch {
    show("bad", `${code} is not kept: the storage of this browser is full`);
    return;
  }
  at("units").value = "1";
  show("idle", `Sending ${code}`);
  sendAll();
}

async function post(text) {
  const patience = new AbortController();
  const alarm = setTimeout(() => patience.abort(), PATIENCE_MS);
  try {
    const answer = await fetch("scan", {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${kept("token")}` },
      body: text,
      cache: "no-store",
      redirect: "error",
      signal: patience.signal,
    });
    return { status: answer.status, ...(await answer.json()) };
  } catch {
    return { status: 0 };
  } finally {
    clearTimeout(alarm);
  }
}

async function sendAll() {
  if (sending) return;
  sending = true;
  clearTimeout(timer);
  try {
    for (let [key] = waiting(); key && kept("token"); [key] = waiting()) {
      const text = localStorage.getItem(key);
      if (text === null) continue;
      if (!settle(key, JSON.parse(text), await post(text))) break;
    }
  } finally {
    sending = false;
    refresh();
    if (document.activeElement === document.body) focusOnCode();
  }
}

// Tells whether the next scan may be sent.
function settle(key, message, answer) {
  if (answer.status === 401) {
    keep("token", "");
    show("bad", "Unknown device: enter its token. The scan is kept.");
    refresh();
    focusOnCode();
    return false;
  }
  const final = answer.status === 200 || [400, 413, 415, 422].includes(answer.status);
  if (!final) {
    const number = waiting().length;
    show("kept", `Not sent yet, kept here: ${number}. It is tried again.`);
    timer = setTimeout(sendAll, AGAIN_MS);
    return false;
  }
  localStorage.removeItem(key);
  const kind = answer.accepted ? "good" : "bad";
  show(kind, answer.what);
  note(kind, message.code, answer.what);
  if (answer.accepted && ["pick", "count"].includes(message.mode)) keep("order", answer.order ?? "");
  refresh();
  return true;
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
  keep("token", given.trim());
  history.replaceState(null, "", location.pathname);
}

function begin() {
  takeTokenFromAddress();
  const offered = document.body.dataset.modes.split(" ");
  offer(Object.keys(NAMES).filter((mode) => offered.includes(mode)));
  at("entrance").addEventListener("submit", (event) => {
    event.preventDefault();
    keep("token", at("token").value.trim());
    at("token").value = "";
    show("idle", "Waiting for a scan.");
    refresh();
    focusOnCode();
    sendAll();
  });
  at("desk").addEventListener("submit", (event) => {
    event.preventDefault();
    const code = at("code").value.trim();
    at("code").value = "";
    if (code) scan(code);
    else if (!at("units").checkValidity()) show("bad", `Nothing is sent: ${UNITS}`);
    focusOnCode();
  });
  at("modes").addEventListener("change", () => {
    keep("mode", chosenMode());
    refresh();
    focusOnCode();
  });
  at("finish").addEventListener("click", () => scan("BH-CLOSE"));
  at("drop").addEventListener("click", () => scan("BH-DROP"));
  at("forget").addEventListener("click", () => {
    keep("token", "");
    keep("order", "");
    refresh();
    focusOnCode();
  });
  // A scanner types wherever the focus is: outside of a field it goes to the code.
  document.addEventListener("keydown", (event) => {
    const free = ["BODY", "BUTTON"].includes(document.activeElement.tagName);
    if (free && event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey) focusOnCode();
  });
  addEventListener("online", sendAll);
  addEventListener("hashchange", () => {
    takeTokenFromAddress();
    refresh();
    sendAll();
  });
  refresh();
  focusOnCode();
  sendAll();
}

begin();
