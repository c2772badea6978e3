// The cart: what is in it, how many, and what it comes to.

import * as cart from "./cart.js";
import { announce, h, heading } from "./elements.js";
import { money } from "./format.js";
import { picture } from "./pictures.js";
import { title } from "./problems.js";

export async function cartView() {
  await cart.refresh();
  const body = h("div", {});
  const node = h("section", { class: "narrow" }, heading("Your cart"), body);
  draw(body);
  return { title: "Your cart", node, said: "Your cart" };
}

function draw(body) {
  const lines = cart.lines();
  if (!lines.length) return body.replaceChildren(empty());
  const list = h("ul", { class: "lines" }, lines.map((line) => row(line, body)));
  return body.replaceChildren(list, foot(lines));
}

function empty() {
  const link = h("a", { class: "primary", href: "#/" }, "See the products");
  return h("div", { class: "quiet" }, h("p", {}, "There is nothing in it yet."), link);
}

function foot(lines) {
  const blocked = lines.some((line) => !line.available);
  const words = "Some things are sold out. Please remove them to go on.";
  const on = h("a", { class: "primary", href: "#/checkout" }, "Check out");
  return h("div", { class: "foot" },
    h("p", { class: "sum" }, "Subtotal ", h("strong", {}, money(cart.subtotal()))),
    h("p", { class: "muted" }, "Shipping and discounts come next."),
    blocked ? h("p", { class: "notice", role: "alert" }, words) : on);
}

function row(line, body) {
  const name = title(line);
  const link = h("a", { href: `#/products/${line.handle}` }, line.title);
  const words = h("div", { class: "words" }, h("p", { class: "what" }, link),
    line.variantTitle && h("p", { class: "muted" }, line.variantTitle),
    h("p", { class: "muted" }, `${money(line.price)} each`),
    !line.available && h("p", { class: "out" }, "Sold out"));
  return h("li", {}, h("div", { class: "thumb" }, picture(line.title, line.image)),
    words, number(line, name, body), price(line), removal(line, name, body));
}

function price(line) {
  return h("p", { class: "price" }, money(cart.lineTotal(line)));
}

function number(line, name, body) {
  const input = h("input", {
    type: "number", min: 1, max: 999, value: line.quantity, inputmode: "numeric",
    "aria-label": `Quantity of ${name}`,
  });
  input.addEventListener("change", () => {
    cart.setQuantity(line.variantId, Number.parseInt(input.value, 10));
    const at = [...body.querySelectorAll("input")].indexOf(input);
    draw(body);
    body.querySelectorAll("input")[at]?.focus();
    announce(`Subtotal ${money(cart.subtotal())}`);
  });
  return input;
}

function removal(line, name, body) {
  const button = h("button", { class: "quietly", "aria-label": `Remove ${name}` }, "Remove");
  button.addEventListener("click", () => {
    cart.remove(line.variantId);
    draw(body);
    document.querySelector("main h1").focus();
    announce(`${name} removed.`);
  });
  return button;
}
