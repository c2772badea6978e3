// The way through the shop: the address after the sign decides what is shown.

import { cartView } from "./cart_view.js";
import { catalogue } from "./catalogue.js";
import { checkout } from "./checkout.js";
import { announce, h, heading } from "./elements.js";
import { useStore } from "./format.js";
import { drawFrame, loadShop, markCurrent } from "./layout.js";
import { order } from "./order.js";
import { notice } from "./problems.js";
import { product } from "./product.js";

const WAYS = [
  [/^\/$/, catalogue],
  [/^\/collections\/(?<handle>[^/]+)$/, catalogue],
  [/^\/products\/(?<handle>[^/]+)$/, product],
  [/^\/cart$/, cartView],
  [/^\/checkout$/, checkout],
  [/^\/orders\/(?<token>[^/]+)$/, order],
];

const content = document.getElementById("content");
let newest = 0;
let leave = null;

function wayTo(hash) {
  const [path, search] = hash.replace(/^#/, "").split("?");
  for (const [pattern, view] of WAYS) {
    const found = pattern.exec(path || "/");
    if (found) return { view, with: { ...found.groups, query: new URLSearchParams(search) } };
  }
  return { view: lost, with: {} };
}

async function lost() {
  const back = h("a", { href: "#/" }, "See all products");
  const words = h("p", {}, "There is no such page in this shop.");
  const node = h("section", { class: "quiet" }, heading("Nothing here"), words, h("p", {}, back));
  return { title: "Nothing here", node, said: "Nothing here" };
}

function refused(error) {
  const back = h("p", {}, h("a", { href: "#/" }, "See all products"));
  const title = error.status === 404 ? "Nothing here" : "That did not work";
  const node = h("section", { class: "quiet" }, heading(title), notice(error), back);
  return { title, node, said: title };
}

async function show(shop, moved) {
  const asked = ++newest;
  const way = wayTo(location.hash);
  content.setAttribute("aria-busy", "true");
  const shown = await way.view(shop, way.with).catch(refused);
  if (shown === null || asked !== newest) return shown?.leave?.();
  leave?.();
  leave = shown.leave;
  content.removeAttribute("aria-busy");
  content.replaceChildren(shown.node);
  document.title = `${shown.title} · ${shop.store.storeName}`;
  markCurrent();
  if (moved) arrive(shown);
  return undefined;
}

/** A new view is a new page: begin at its top, and say what it is. */
function arrive(shown) {
  scrollTo(0, 0);
  content.querySelector("h1")?.focus({ preventScroll: true });
  announce(shown.said);
}

function skip(event) {
  // The fragment names the view, so this link may not change it.
  event.preventDefault();
  content.focus();
}

async function open() {
  document.querySelector(".skip").addEventListener("click", skip);
  try {
    const shop = await loadShop();
    useStore(shop.store);
    drawFrame(shop);
    addEventListener("hashchange", () => show(shop, true));
    await show(shop, false);
  } catch (error) {
    content.replaceChildren(refused(error).node);
  }
}

open();
