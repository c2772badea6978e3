// One product: its variants by their options, whether they are there, how many.

import { get } from "./api.js";
import * as cart from "./cart.js";
import { announce, aside, h, heading } from "./elements.js";
import { count, money } from "./format.js";
import { picture } from "./pictures.js";

export async function product(shop, { handle }) {
  const found = await get(`/products/${encodeURIComponent(handle)}`);
  const pictured = h("div", { class: "frame large" },
    picture(found.title, found.images[0]));
  const words = h("div", { class: "about" },
    crumbs(found),
    heading(found.title),
    buying(found),
    found.description && h("p", { class: "lead" }, found.description),
    facts(found));
  const node = h("article", { class: "product" }, pictured, words);
  return { title: found.title, node, said: found.title };
}

function crumbs({ collections }) {
  const first = collections?.[0];
  const href = first ? `#/collections/${first.handle}` : "#/";
  const link = h("a", { href }, first?.title ?? "All products");
  return h("p", { class: "crumbs" }, "← ", link);
}

function facts({ vendor, productType }) {
  const rows = [["Made by", vendor], ["Kind", productType]].filter(([, text]) => text);
  const pairs = rows.map(([name, text]) => (
    h("div", {}, h("dt", {}, name), h("dd", {}, text))
  ));
  return rows.length > 0 && h("dl", { class: "facts" }, pairs);
}

/** Variants without options still need a choice: their titles then. */
function choices({ options, variants }) {
  if (options.length || variants.length < 2) return options;
  return [{ name: "Variant", values: variants.map((one) => one.title) }];
}

function valueOf(variant, name) {
  return variant.options[name] ?? variant.title;
}

function matching(found, chosen) {
  return found.variants.filter((variant) => (
    Object.entries(chosen).every(([name, value]) => valueOf(variant, name) === value)
  ));
}

function buying(found) {
  const groups = choices(found);
  const price = h("p", { class: "price big" });
  const stock = h("p", { class: "stock", role: "status" });
  const button = h("button", { class: "primary" }, "Add to cart");
  const after = h("p", { class: "after", role: "status" });
  const form = h("form", { class: "buying" }, price, groups.map(optionGroup), stock,
    h("div", { class: "buy-row" }, quantityField(), button), after);
  const chosen = () => choose(found, groups, form);
  form.addEventListener("change", () => draw(found, groups, form, chosen()));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    take(found, chosen(), form, after);
  });
  preselect(found, groups, form);
  draw(found, groups, form, chosen());
  return form;
}

function optionGroup({ name, values }, at) {
  const pills = values.map((value, index) => {
    const id = `option-${at}-${index}`;
    const radio = h("input", { type: "radio", name: `option-${at}`, id, value });
    const label = h("label", { for: id }, value);
    return h("span", { class: "pill" }, radio, label);
  });
  return h("fieldset", {}, h("legend", {}, name), h("div", { class: "pills" }, pills));
}

function quantityField() {
  const input = h("input", {
    type: "number", id: "quantity", name: "quantity", min: 1, max: 999, value: 1,
    inputmode: "numeric",
  });
  return h("label", { class: "quantity" }, "Quantity", input);
}

function preselect(found, groups, form) {
  const variant = found.variants.find((one) => one.available) ?? found.variants[0];
  groups.forEach(({ name }, at) => {
    const value = valueOf(variant, name);
    for (const radio of form.querySelectorAll(`[name="option-${at}"]`)) {
      radio.checked = radio.value === value;
    }
  });
}

function selection(groups, form) {
  const given = new FormData(form);
  return Object.fromEntries(
    groups.map(({ name }, at) => [name, given.get(`option-${at}`)]));
}

function choose(found, groups, form) {
  return matching(found, selection(groups, form))[0] ?? null;
}

function draw(found, groups, form, variant) {
  form.querySelector(".price").replaceChildren(...prices(variant));
  const stock = form.querySelector(".stock");
  const there = Boolean(variant?.available);
  stock.textContent = stockWords(variant);
  stock.classList.toggle("out", !there);
  form.querySelector("button").disabled = !there;
  markSoldOut(found, groups, form);
}

function stockWords(variant) {
  if (!variant) return "This combination is not made.";
  return variant.available ? "In stock" : "Sold out";
}

function prices(variant) {
  if (!variant) return ["—"];
  if (!variant.compareAtPrice) return [money(variant.price)];
  const before = h("s", {}, aside("instead of "), money(variant.compareAtPrice));
  return [money(variant.price), " ", before];
}

/** A value is struck out when nothing with it, beside the other choices, is left. */
function markSoldOut(found, groups, form) {
  const chosen = selection(groups, form);
  groups.forEach(({ name }, at) => {
    for (const radio of form.querySelectorAll(`[name="option-${at}"]`)) {
      const like = matching(found, { ...chosen, [name]: radio.value });
      const left = like.some((variant) => variant.available);
      const label = radio.nextElementSibling;
      label.classList.toggle("gone", !left);
      label.replaceChildren(radio.value, left ? "" : aside(" (sold out)"));
    }
  });
}

function take(found, variant, form, after) {
  if (!variant?.available) return;
  const wanted = Number.parseInt(new FormData(form).get("quantity"), 10) || 1;
  const quantity = Math.max(1, Math.min(999, wanted));
  cart.add(found, variant, quantity);
  const link = h("a", { href: "#/cart" }, "Go to your cart");
  after.replaceChildren(`Added ${quantity}. `, link);
  announce(`${found.title} added. ${count(cart.pieces(), "piece", "pieces")} in cart.`);
}
