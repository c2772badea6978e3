// What every view shares: the shop's name, its menus, the search and the cart.

import { get, getPage } from "./api.js";
import { pieces } from "./cart.js";
import { aside, h, merchantLink } from "./elements.js";
import { count } from "./format.js";

export async function loadShop() {
  const [store, menus, collections] = await Promise.all([
    get("/store"),
    get("/navigation").catch(() => ({})),
    getPage("/collections", { limit: 100 }).catch(() => ({ data: [] })),
  ]);
  return { store, menus, collections: collections.data };
}

export function drawFrame(shop) {
  const masthead = document.getElementById("masthead");
  const name = h("a", { class: "name", href: "#/" }, shop.store.storeName);
  const top = h("div", { class: "top" }, name, searchForm(), cartLink());
  masthead.replaceChildren(top, navigation(shop));
  document.getElementById("colophon").replaceChildren(...footer(shop));
}

function searchForm() {
  const input = h("input", {
    type: "search", name: "q", id: "search", maxlength: 200,
    placeholder: "Search", autocomplete: "off",
  });
  const label = h("label", { for: "search", class: "hidden" }, "Search products");
  const button = h("button", { class: "quietly" }, "Search");
  return h("form", { role: "search", onsubmit: goSearch }, label, input, button);
}

function goSearch(event) {
  event.preventDefault();
  const words = new FormData(event.target).get("q").trim();
  location.hash = words ? `/?${new URLSearchParams({ q: words })}` : "/";
}

function cartLink() {
  const link = h("a", { class: "cart-link", href: "#/cart" });
  const draw = () => {
    const all = pieces();
    const badge = h("span", { class: "badge", "aria-hidden": "true" }, String(all));
    const spoken = aside(`, ${count(all, "piece", "pieces")}`);
    link.replaceChildren("Cart", all ? badge : "", spoken);
  };
  addEventListener("cart-changed", draw);
  draw();
  return link;
}

function navigation({ menus, collections }) {
  const main = menus["main-menu"];
  const chosen = main?.items.length ? main.items : collections.map(asItem);
  const all = { label: "All products", url: "/", children: [] };
  const items = chosen.some((item) => item.url === "/") ? chosen : [all, ...chosen];
  return h("nav", { "aria-label": "Shop" }, h("ul", {}, items.map(entry)));
}

function asItem({ title, handle }) {
  return { label: title, url: `/collections/${handle}`, children: [] };
}

function entry(item) {
  if (!item.children?.length) return h("li", {}, merchantLink(item.url, item.label));
  const own = h("li", {}, merchantLink(item.url, item.label));
  const below = h("ul", {}, own, item.children.map(entry));
  return h("li", {}, h("details", {}, h("summary", {}, item.label), below));
}

function footer({ store, menus }) {
  const items = menus.footer?.items ?? [];
  const links = h("ul", {}, items.map((one) => h("li", {}, merchantLink(one.url, one.label))));
  const nav = items.length > 0 && h("nav", { "aria-label": "More" }, links);
  return [nav, h("p", {}, store.storeName)].filter(Boolean);
}

/** Tell which page of the menu this is, to eyes and to screen readers. */
export function markCurrent() {
  const here = location.hash.split("?")[0] || "#/";
  for (const link of document.querySelectorAll("#masthead nav a")) {
    if (link.getAttribute("href") === here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const open of document.querySelectorAll("#masthead details[open]")) {
    open.removeAttribute("open");
  }
}
