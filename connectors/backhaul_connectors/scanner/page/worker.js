// Keeps the files of the shop-floor page, so that it starts without network.
"use strict";

// The server writes both: a digest of all files, and their names.
const VERSION = "@version";
const FILES = "@files".split(" ");

// Several connections share an origin, and each has its own page.
const PREFIX = `backhaul-page:${registration.scope}:`;
const CACHE = PREFIX + VERSION;
const PATHS = new Map(
  FILES.map((name) => [new URL(name, registration.scope).pathname, name]),
);

addEventListener("install", (event) => event.waitUntil(fetchAll()));
addEventListener("activate", (event) => event.waitUntil(removeOld()));
addEventListener("message", (event) => {
  if (event.data === "use") skipWaiting();
});
addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  const asked = new URL(url);
  const name = PATHS.get(asked.pathname);
  if (method !== "GET" || asked.origin !== location.origin || !name) return;
  event.respondWith(answer(event.request, name));
});

async function answer(request, name) {
  const cache = await caches.open(CACHE);
  return (await cache.match(name)) ?? (await fetch(request));
}

// All files are of one version, or none is kept: an upgrade may happen in between.
async function fetchAll() {
  const cache = await caches.open(CACHE);
  for (const name of FILES) {
    const found = await fetch(name, { cache: "no-store", redirect: "error" });
    if (!found.ok || found.headers.get("Backhaul-Page-Version") !== VERSION) {
      throw new Error(`${name} is not of version ${VERSION}; tried again later`);
    }
    await cache.put(name, found);
  }
}

async function removeOld() {
  for (const name of await caches.keys()) {
    if (name.startsWith(PREFIX) && name !== CACHE) await caches.delete(name);
  }
}
