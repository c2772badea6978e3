// Following an order, for whoever holds its link; and saying that it was paid.

import { ask, freshKey } from "./api.js";
import { pair } from "./bill.js";
import { announce, h, heading, merchantLink } from "./elements.js";
import { clearFlaws, documentOf, field, showFlaws, watchFlaws } from "./fields.js";
import { decimal, freight, minor, moment, money, words } from "./format.js";
import { isOurs, picture } from "./pictures.js";
import { notice, title } from "./problems.js";

const AGAIN_MILLISECONDS = 20_000;
const STATUS = {
  PENDING: "We have your order.",
  CONFIRMED: "Your order is confirmed.",
  COMPLETED: "Your order is complete.",
  CANCELLED: "Your order was cancelled.",
};
const PAID = {
  PENDING: "Not paid yet", PAID: "Paid", REFUNDED: "Paid back", VOIDED: "Nothing is due",
};
const SENT = {
  UNFULFILLED: "Not sent yet", PARTIALLY_FULFILLED: "Partly sent",
  FULFILLED: "Sent", RESTOCKED: "Not sent",
};
const TOTALS = [
  ["subtotal", "Subtotal"], ["discount", "Discount"], ["shipping", "Shipping"],
  ["paymentFee", "Payment fee"], ["tax", "Tax"], ["total", "Total"],
];

export async function order(shop, { token }) {
  const path = `/storefront/orders/track/${encodeURIComponent(token)}`;
  const { data } = await ask("GET", path);
  const body = h("div", { class: "order" });
  const name = `Order ${data.name}`;
  const node = h("section", {}, heading(name), body);
  const page = { path, body, seen: "" };
  draw(page, data);
  const timer = setInterval(() => look(page), AGAIN_MILLISECONDS);
  return { title: name, node, said: `${name}. ${says(data)}`, leave: () => clearInterval(timer) };
}

/** News arrive by themselves; what has not changed stays, and so does the focus. */
async function look(page) {
  if (document.hidden) return;
  try {
    const { data } = await ask("GET", page.path);
    if (draw(page, data)) announce(says(data));
  } catch {
    // The last answer stays on the page; the next look may succeed.
  }
}

function says(data) {
  const first = STATUS[data.status] ?? words(data.status);
  if (data.awaitingConfirmation) return `${first} The shop will confirm it.`;
  return owes(data) && !data.payment.report ? `${first} Please pay for it below.` : first;
}

function owes({ payment, financialStatus, status }) {
  return Boolean(payment) && financialStatus === "PENDING" && status !== "CANCELLED";
}

function draw(page, data) {
  const text = JSON.stringify(data);
  if (text === page.seen) return false;
  page.seen = text;
  const left = [status(data), toPay(page, data), shipments(data)];
  const right = [h("h2", {}, "What you ordered"), items(data), totals(data)];
  page.body.replaceChildren(
    h("div", {}, left.filter(Boolean)), h("aside", { class: "bill" }, right));
  return true;
}

function status(data) {
  const facts = [
    ["Placed", moment(data.placedAt)],
    ["Payment", PAID[data.financialStatus] ?? words(data.financialStatus)],
    ["Delivery", SENT[data.fulfillmentStatus] ?? words(data.fulfillmentStatus)],
  ];
  if (data.cancelledAt) facts.push(["Cancelled", moment(data.cancelledAt)]);
  return h("div", { class: "state" },
    h("p", { class: "lead" }, says(data)),
    h("dl", { class: "facts" }, facts.map(([name, value]) => pair(name, value))),
    h("p", { class: "muted" }, "Keep this page's address: it is the key to your order."));
}

function toPay(page, data) {
  const { payment } = data;
  if (!owes(data)) return null;
  return h("section", { class: "pay" },
    h("h2", {}, "Scan & Pay"),
    h("p", { class: "due" }, "Amount due ", h("strong", {}, money(payment.amountDue))),
    code(payment),
    payment.instructions && h("p", {}, payment.instructions),
    payment.report && reported(payment.report),
    reportForm(page, payment.report));
}

function code({ qr, amountDue }) {
  if (!qr) return null;
  const alt = `Payment code for ${money(amountDue)}`;
  if (isOurs(qr)) return h("img", { class: "qr", src: qr, alt });
  // Elsewhere's pictures are not loaded: that would tell them who looks.
  return h("p", {}, merchantLink(qr, "Open the payment code"));
}

function reported({ transactionId, reportedAt }) {
  const text = `You told us of payment ${transactionId} on ${moment(reportedAt)}.`;
  return h("p", { class: "notice good" }, text, " The shop will check it.");
}

function reportForm(page, report) {
  const form = h("form", { class: "report", novalidate: true },
    h("h3", {}, report ? "Was that number wrong?" : "Have you paid?"),
    h("div", { class: "refusal" }),
    h("div", { class: "two" },
      field("/transactionId", "Transaction number",
        { required: true, autocomplete: "off" }),
      field("/payerName", "Payer's name", { autocomplete: "name" })),
    h("button", { class: report ? "secondary" : "primary" }, "Report the payment"));
  watchFlaws(form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(page, form);
  });
  return form;
}

async function send(page, form) {
  const button = form.querySelector("button");
  if (button.disabled) return;
  button.disabled = true;
  clearFlaws(form);
  form.querySelector(".refusal").replaceChildren();
  try {
    const headers = { "idempotency-key": freshKey() };
    await ask("POST", `${page.path}/payment`, documentOf(form), headers);
    await look(page);
    announce("Thank you. The shop will check your payment.");
    document.querySelector("main h1").focus();
  } catch (error) {
    refuse(form, error);
  }
  button.disabled = false;
}

function refuse(form, error) {
  const flaws = error.status === 422 ? error.document.errors ?? [] : [];
  if (flaws.length && !showFlaws(form, flaws).length) return;
  const told = notice(error);
  form.querySelector(".refusal").replaceChildren(told);
  told.focus();
}

function shipments({ shipments: parcels }) {
  if (!parcels.length) return null;
  return h("section", {}, h("h2", {}, "Parcels"),
    h("ul", { class: "parcels" }, parcels.map(parcel)));
}

function parcel({ trackingCompany, trackingNumber, trackingUrl, shippedAt }) {
  const name = [trackingCompany, trackingNumber].filter(Boolean).join(" ") || "Parcel";
  const shown = trackingUrl ? merchantLink(trackingUrl, name) : name;
  return h("li", {}, h("strong", {}, shown),
    h("span", { class: "muted" }, ` sent on ${moment(shippedAt)}`));
}

function items(data) {
  return h("ul", { class: "lines small" }, data.items.map((item) => {
    const image = item.imageUrl ? { url: item.imageUrl } : null;
    // Before the discount, which stands among the sums.
    const full = decimal(minor(item.unitPrice) * item.quantity);
    return h("li", {}, h("div", { class: "thumb" }, picture(item.title, image)),
      h("div", { class: "words" }, h("p", {}, title(item)),
        h("p", { class: "muted" }, `${item.quantity} × ${money(item.unitPrice)}`)),
      h("p", { class: "price" }, money(full)));
  }));
}

function totals({ totals: sums }) {
  const always = ["subtotal", "shipping", "total"];
  const listed = TOTALS.filter(([name]) => always.includes(name) || minor(sums[name]) > 0);
  return h("dl", {}, listed.map(([name, label]) => {
    const sign = name === "discount" ? "−" : "";
    const shown = name === "shipping" ? freight(sums[name]) : sign + money(sums[name]);
    return pair(label, shown, name === "total" ? "total" : "");
  }));
}
