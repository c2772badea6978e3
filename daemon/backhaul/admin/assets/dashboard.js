// Times in the reader's zone, and the key that leads to the search field.
"use strict";
(() => {
  const exact = new Intl.DateTimeFormat(undefined, {
    day: "numeric", month: "short", year: "numeric",
    hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  });

  function showLocal(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-relative])")) {
      const moment = new Date(time.dateTime);
      if (!Number.isNaN(moment.getTime())) time.textContent = exact.format(moment);
    }
  }

  function isTyping(element) {
    return element.isContentEditable || element.matches("input, textarea, select");
  }

  document.addEventListener("keydown", (event) => {
    const field = document.getElementById("find");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!field || isTyping(event.target)) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
  document.addEventListener("htmx:load", (event) => showLocal(event.target));
  document.addEventListener("backhaul:content", (event) => showLocal(event.detail));
  showLocal(document);
})();
