// The catalogue: all products, a collection's, or those that a search finds.

import { getPage, Problem } from "./api.js";
import { h, heading } from "./elements.js";
import { count, money } from "./format.js";
import { picture } from "./pictures.js";

const PER_PAGE = 12;

export async function catalogue(shop, { handle, query }) {
  const search = query.get("q") ?? "";
  const page = Math.max(1, Number.parseInt(query.get("page") ?? "1", 10) || 1);
  const collection = handle ? named(shop, handle) : null;
  const filters = { search, collectionId: collection?.id, page, limit: PER_PAGE };
  const { data, meta } = await getPage("/products", filters);
  const title = titleOf(collection, search);
  const found = count(meta.total, "product", "products");
  const node = h("section", {},
    h("div", { class: "intro" }, heading(title), h("p", { class: "muted" }, found)),
    collection?.description && h("p", { class: "lead" }, collection.description),
    data.length ? h("ul", { class: "grid" }, data.map(card)) : nothing(search),
    pager(meta, page));
  return { title, node, said: `${title}: ${found}` };
}

function named(shop, handle) {
  const found = shop.collections.find((one) => one.handle === handle);
  if (!found) throw new Problem(404, { code: "COLLECTION_NOT_FOUND" });
  return found;
}

function titleOf(collection, search) {
  if (search) return `Results for “${search}”`;
  return collection?.title ?? "All products";
}

function nothing(search) {
  const words = search ? "Nothing matches. Try fewer or other words." : "Nothing here yet.";
  const back = h("a", { href: "#/" }, "See all products");
  return h("div", { class: "quiet" }, h("p", {}, words), search && h("p", {}, back));
}

function card(product) {
  const link = h("a", { href: `#/products/${product.handle}` }, product.title);
  const out = !product.available && h("span", { class: "tag" }, "Sold out");
  return h("li", { class: "card" },
    h("div", { class: "frame" }, picture(product.title, product.images[0]), out),
    h("h2", {}, link),
    h("p", { class: "price" }, range(product.priceRange)));
}

export function range({ min, max }) {
  return min === max ? money(min) : `from ${money(min)}`;
}

function pager(meta, page) {
  const last = Math.ceil(meta.total / meta.limit);
  if (last < 2) return null;
  const back = page > 1 && step(page - 1, "← Previous", "prev");
  const on = meta.hasMore && step(page + 1, "Next →", "next");
  const where = h("span", { class: "muted" }, `Page ${page} of ${last}`);
  return h("nav", { class: "pager", "aria-label": "Pages" },
    h("span", {}, back), where, h("span", {}, on));
}

function step(page, text, rel) {
  const [path, query] = location.hash.slice(1).split("?");
  const changed = new URLSearchParams(query);
  changed.set("page", page);
  return h("a", { href: `#${path || "/"}?${changed}`, rel }, text);
}
