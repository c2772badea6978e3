// Checking out: who, where to, how it is paid; one key for each attempt.

import { ask, freshKey, subdomain } from "./api.js";
import { Bill } from "./bill.js";
import * as cart from "./cart.js";
import { countries } from "./countries.js";
import { announce, h, heading } from "./elements.js";
import { choice, clearFlaws, documentOf, field, idOf, showFlaws, watchFlaws } from "./fields.js";
import { minor, money, region } from "./format.js";
import { notice, refusedLines, sentence } from "./problems.js";

const ATTEMPT = `attempt ${subdomain}`;
const PAUSE_MILLISECONDS = 350;
const DELIVERY = ["country", "province", "city", "zip"];
const METHODS = [
  ["COD", "cod", "Cash on delivery"],
  ["CUSTOM_QR", "customQr", "Scan & Pay"],
];

export async function checkout(shop) {
  if (!cart.lines().length) {
    location.replace("#/cart");
    return null;
  }
  await cart.refresh();
  const bill = new Bill(shop.store);
  const form = orderForm(shop.store, bill);
  const summary = h("aside", { class: "bill", "aria-label": "Order summary" },
    h("h2", {}, "Your order"), bill.node, discountForm(bill));
  const node = h("section", {}, heading("Check out"),
    h("div", { class: "checkout" }, summary, form));
  listen(form, bill);
  return { title: "Check out", node, said: "Check out" };
}

function orderForm(store, bill) {
  const form = h("form", { novalidate: true, id: "order-form" },
    h("div", { class: "refusal" }),
    contact(), address(), payment(store), more(),
    h("p", { class: "foot sum" }, h("span", {}, "To pay ", bill.due),
      h("button", { class: "primary wide" }, "Place the order")));
  return form;
}

function contact() {
  return h("fieldset", {}, h("legend", {}, "Who are you?"),
    field("/customer/name", "Name", { required: true, autocomplete: "name" }),
    h("div", { class: "two" },
      field("/customer/email", "Email",
        { required: true, type: "email", autocomplete: "email" }),
      field("/customer/phone", "Phone", { type: "tel", autocomplete: "tel" })));
}

function address() {
  const at = (name, label, attributes) => (
    field(`/shippingAddress/${name}`, label, attributes)
  );
  const must = { required: true };
  return h("fieldset", {}, h("legend", {}, "Where shall it go?"),
    at("address1", "Address", { ...must, autocomplete: "address-line1" }),
    at("address2", "Flat, floor, landmark", { autocomplete: "address-line2" }),
    h("div", { class: "two" },
      at("city", "City", { ...must, autocomplete: "address-level2" }),
      at("zip", "Postcode", { autocomplete: "postal-code" }),
      at("province", "State or province", { autocomplete: "address-level1" }),
      choice("/shippingAddress/country", "Country", countries(), region(),
        { ...must, autocomplete: "country" })));
}

function payment({ paymentSettings }) {
  const offered = METHODS.filter(([, name]) => paymentSettings[name].enabled);
  const radios = offered.map(([value, name, label], at) => (
    method(value, label, paymentSettings[name], at === 0)
  ));
  const none = h("p", { class: "out" }, "This shop takes no orders at present.");
  return h("fieldset", {}, h("legend", {}, "How will you pay?"),
    radios.length ? radios : none);
}

function method(value, label, settings, checked) {
  const id = `method-${value}`;
  const fee = minor(settings.fee) > 0 ? ` (+ ${money(settings.fee)})` : "";
  const radio = h("input", {
    type: "radio", name: "/paymentMethod", id, value, checked,
    "data-fee": settings.fee,
  });
  const words = settings.instructions
    && h("span", { class: "muted" }, settings.instructions);
  return h("p", { class: "method" }, radio,
    h("label", { for: id }, h("span", {}, label, fee), words));
}

function more() {
  const box = h("input", { type: "checkbox", id: "marketing", name: "marketing" });
  return h("fieldset", {}, h("legend", {}, "Anything else?"),
    field("/note", "A note for the shop", { rows: 2 }),
    h("p", { class: "method" }, box,
      h("label", { for: "marketing" }, "Send me news of this shop")));
}

function discountForm(bill) {
  const input = field("/discountCode", "Discount code", { autocomplete: "off" });
  const form = h("form", { class: "discount", novalidate: true }, input,
    h("button", { class: "secondary" }, "Apply"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearFlaws(form);
    await apply(form, bill);
  });
  return form;
}

async function apply(form, bill) {
  const code = documentOf(form).discountCode;
  bill.forget();
  if (!code) return;
  try {
    await bill.check(code);
    announce(`Discount ${bill.code} applied, total ${bill.total()}`);
  } catch (error) {
    refuseCode(sentence(error));
  }
}

function refuseCode(words) {
  const input = document.getElementById(idOf("/discountCode"));
  input.setAttribute("aria-invalid", "true");
  document.getElementById(`${input.id}-flaw`).textContent = words;
  input.focus();
}

function listen(form, bill) {
  let pause = 0;
  const quote = () => {
    const given = documentOf(form).shippingAddress ?? {};
    const parts = DELIVERY.filter((name) => given[name]).map((name) => [name, given[name]]);
    bill.quote(Object.fromEntries(parts));
  };
  form.addEventListener("input", (event) => {
    if (!DELIVERY.some((name) => event.target.name === `/shippingAddress/${name}`)) return;
    clearTimeout(pause);
    pause = setTimeout(quote, PAUSE_MILLISECONDS);
  });
  watchFlaws(form);
  form.addEventListener("change", (event) => {
    if (event.target.name === "/paymentMethod") bill.charge(event.target.dataset.fee);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(form, bill);
  });
  bill.charge(form.querySelector("[name='/paymentMethod']:checked")?.dataset.fee);
  if (documentOf(form).shippingAddress?.country) quote();
}

async function submit(form, bill) {
  const button = form.querySelector("button.primary");
  if (button.disabled) return;
  button.disabled = true;
  clearFlaws(form);
  form.querySelector(".refusal").replaceChildren();
  try {
    await place({ customer: {}, shippingAddress: {}, ...wanted(form, bill) });
  } catch (error) {
    button.disabled = false;
    refuse(form, error);
  }
}

function wanted(form, bill) {
  const document = { ...documentOf(form), items: cart.wishes() };
  if (bill.code) document.discountCode = bill.code;
  document.acceptsMarketing = form.querySelector("#marketing").checked;
  return document;
}

/** The same order keeps its key, also over a reload, until an answer is known. */
function keyFor(body) {
  const known = JSON.parse(sessionStorage.getItem(ATTEMPT) ?? "{}");
  if (known.body === body) return known.key;
  const key = freshKey();
  sessionStorage.setItem(ATTEMPT, JSON.stringify({ body, key }));
  return key;
}

async function place(document) {
  const body = JSON.stringify(document);
  const headers = { "idempotency-key": keyFor(body) };
  const { data } = await ask("POST", "/storefront/orders", body, headers);
  sessionStorage.removeItem(ATTEMPT);
  cart.clear();
  // After the sign: browsers send fragments to nobody, so no log can hold them.
  location.replace(`#/orders/${data.trackingToken}`);
}

function refuse(form, error) {
  if (error.code?.startsWith("DISCOUNT_")) return refuseCode(sentence(error));
  const flaws = error.status === 422 ? error.document.errors ?? [] : [];
  const homeless = flaws.length ? showFlaws(form, flaws) : [];
  const shown = flaws.length - homeless.length;
  if (shown && !homeless.length) {
    return announce(`${shown} ${shown === 1 ? "field needs" : "fields need"} a look.`);
  }
  const listed = homeless.map((flaw) => flaw.detail);
  const more = [...refusedLines(error, cart.lines()), ...listed];
  const told = notice(error, more);
  if (error.document?.items) told.append(h("a", { href: "#/cart" }, "Change your cart"));
  form.querySelector(".refusal").replaceChildren(told);
  return told.focus();
}
