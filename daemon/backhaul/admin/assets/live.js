// Keeps an open page up to date, and leaves alone whoever works on it.
"use strict";
(() => {
  const GAP_MILLISECONDS = 1_000;
  const LATER_MILLISECONDS = 10_000;
  const SWITCH = "backhaul-live";
  const WORDS = {
    live: "This page shows changes as they happen. Click to switch this off.",
    paused: "Changes wait until you have finished. Click to switch live pages off.",
    reconnecting: "The daemon cannot be reached. The page tries again.",
    off: "This page does not change by itself. Click to switch live pages on.",
    "logged out": "Your session has ended. Log in again.",
  };
  const main = document.querySelector("main[data-live]");
  const kinds = new Set((main?.dataset.live ?? "").split(" ").filter(Boolean));
  const place = document.querySelector(".me");
  if (!kinds.size || !place) return;
  kinds.add("begin");

  let source = null;
  let state = "";
  let isDue = false;
  let isBusy = false;
  let readyAt = 0;
  let timer = 0;
  const sign = document.createElement("button");
  sign.type = "button";
  sign.className = "plain live";
  sign.addEventListener("click", toggle);
  place.prepend(sign);

  function show(next) {
    if (state === next) return;
    state = next;
    sign.textContent = next;
    sign.title = WORDS[next];
    sign.dataset.state = next;
    sign.setAttribute("aria-label", `Live page: ${next}`);
  }

  function isOff() {
    return localStorage.getItem(SWITCH) === "off";
  }

  function toggle() {
    if (state === "logged out") return location.reload();
    localStorage.setItem(SWITCH, isOff() ? "on" : "off");
    connect();
  }

  function isChanged(field) {
    if (field.type === "hidden" || field.type === "submit") return false;
    if (field.matches("input[type=checkbox], input[type=radio]")) {
      return field.checked !== field.defaultChecked;
    }
    if (field.matches("select")) {
      const options = [...field.options];
      const preset = options.filter((each) => each.defaultSelected);
      return field.selectedOptions[0] !== (preset.at(-1) ?? options[0]);
    }
    return field.value !== field.defaultValue;
  }

  // Selected rows, typed text, an open list or menu, or marked text.
  function isInUse() {
    const fields = [...main.querySelectorAll("input, select, textarea")];
    const marked = getSelection();
    return (
      fields.some(isChanged) ||
      (document.activeElement?.matches("select") && main.contains(document.activeElement)) ||
      main.querySelector("dialog[open], :popover-open, details.menu[open]") !== null ||
      (marked && !marked.isCollapsed && main.contains(marked.anchorNode))
    );
  }

  // Rows are known by what they lead to, so that each keeps its place and its focus.
  function nameRows(root) {
    root.querySelectorAll("tbody").forEach((body, table) => {
      for (const row of body.rows) {
        const link = row.querySelector("a[href]");
        if (!row.id && link) row.id = `row-${table}-${link.getAttribute("href")}`;
      }
    });
  }

  const callbacks = {
    // What the reader has opened stays open; a field keeps what it shows.
    beforeAttributeUpdated: (name, node) => !(name === "open" && node.matches("details")),
  };

  async function load() {
    const answer = await fetch(location.href, { headers: { "X-Refresh": "live", "HX-Request": "true" } }).catch(() => null);
    if (answer?.status === 401) return end();
    isDue ||= answer?.status === 503;
    if (!answer?.ok) return; // after a restart the stream begins again
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    if (!fresh || isInUse()) {
      isDue = true;
      return;
    }
    // What was said about the reader's last action was said once, and stays.
    const said = [...main.querySelectorAll(":scope > .said[role=status]")];
    fresh.prepend(...said.map((each) => each.cloneNode(true)));
    document.dispatchEvent(new CustomEvent("backhaul:content", { detail: fresh }));
    nameRows(main);
    nameRows(fresh);
    Idiomorph.morph(main, fresh, { morphStyle: "outerHTML", ignoreActiveValue: true, callbacks });
    htmx.process(main);
  }

  async function refresh() {
    if (!source || !isDue || isBusy || document.hidden) return;
    if (isInUse()) return show("paused");
    if (source.readyState === EventSource.OPEN) show("live");
    const wait = readyAt - Date.now();
    clearTimeout(timer);
    if (wait > 0) {
      timer = setTimeout(refresh, wait);
      return;
    }
    isDue = false;
    isBusy = true;
    try {
      await load();
    } finally {
      isBusy = false;
      readyAt = Date.now() + GAP_MILLISECONDS;
    }
    if (isDue) timer = setTimeout(refresh, GAP_MILLISECONDS);
  }

  function disconnect() {
    source?.close();
    source = null;
    clearTimeout(timer);
  }

  function end() {
    disconnect();
    show("logged out");
  }

  function connect() {
    disconnect();
    if (isOff()) return show("off");
    if (document.hidden) return show("paused");
    show("reconnecting");
    source = new EventSource("/live");
    source.addEventListener("open", () => show("live"));
    source.addEventListener("ended", end);
    source.addEventListener("change", (event) => {
      if (!event.data.split(" ").some((kind) => kinds.has(kind))) return;
      isDue = true;
      refresh();
    });
    source.addEventListener("error", () => {
      show("reconnecting");
      if (source?.readyState !== EventSource.CLOSED) return;
      disconnect(); // refused: too many streams, or the session has ended
      load();
      timer = setTimeout(connect, LATER_MILLISECONDS);
    });
  }

  nameRows(main);
  document.addEventListener("visibilitychange", connect);
  for (const kind of ["change", "input", "focusout", "toggle"]) {
    main.addEventListener(kind, () => setTimeout(refresh), true);
  }
  document.addEventListener("selectionchange", () => setTimeout(refresh));
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", (event) => event.persisted && connect());
  connect();
})();
