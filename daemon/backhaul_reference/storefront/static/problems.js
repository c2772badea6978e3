// Refusals in the shopper's words.

import { h } from "./elements.js";
import { Problem, Unreachable } from "./api.js";

const WORDS = {
  DISCOUNT_NOT_FOUND: "We do not know this code.",
  DISCOUNT_NOT_STARTED: "This code is not valid yet.",
  DISCOUNT_EXPIRED: "This code has expired.",
  DISCOUNT_USED_UP: "This code has been used up.",
  DISCOUNT_MINIMUM_NOT_MET: "Your cart is below the amount this code asks for.",
  LOGIN_REQUIRED: "This shop takes orders from signed-in customers only.",
  OUT_OF_STOCK: "Some things sold out before you ordered.",
  PRODUCT_UNAVAILABLE: "Some things are no longer on offer.",
  SHIPPING_UNAVAILABLE: "We do not deliver to this address.",
  PAYMENT_METHOD_UNAVAILABLE: "This way of paying is not offered any more.",
  PAYMENT_NOT_EXPECTED: "This order is paid on delivery: nothing to report.",
  ORDER_ALREADY_PAID: "This order is paid already. Thank you!",
  ORDER_CANCELLED: "This order was cancelled, so please do not pay for it.",
  IDEMPOTENCY_IN_PROGRESS: "Your order is being placed. Please wait a moment.",
  STORE_NOT_FOUND: "This shop has closed.",
  PRODUCT_NOT_FOUND: "This product is no longer on offer.",
  COLLECTION_NOT_FOUND: "This collection is no longer on offer.",
  ORDER_NOT_FOUND: "We cannot find this order. Please check the link.",
};

const FLAWS = {
  REQUIRED: "Please fill this in.",
  TOO_SHORT: "Please fill this in.",
  TOO_LONG: "This is too long.",
  BAD_FORMAT: "This does not look right.",
  NOT_ALLOWED: "This cannot be chosen.",
};

const FIELDS = {
  "/customer/email": "Please give an address such as name@example.com.",
  "/customer/phone": "Please give a number such as +91 98765 43210.",
};

export function sentence(error) {
  if (error instanceof Unreachable) {
    return "The shop did not answer. Please check your connection and try again.";
  }
  if (!(error instanceof Problem)) return "Something went wrong on this page.";
  if (error.status === 429) {
    const wait = error.waitSeconds ?? 60;
    return `That was a little fast. Please try again in ${wait} seconds.`;
  }
  return WORDS[error.code] ?? `The shop refused this: ${error.message}.`;
}

export function flawSentence(flaw) {
  const missing = flaw.code === "REQUIRED" || flaw.code === "TOO_SHORT";
  if (missing) return FLAWS[flaw.code];
  return FIELDS[flaw.pointer] ?? FLAWS[flaw.code] ?? flaw.detail;
}

/** Lines of the cart that a refusal names, each with what is left of it. */
export function refusedLines(error, lines) {
  const named = error.document?.items ?? [];
  return named.map((item) => {
    const line = lines.find((one) => one.variantId === item.variantId)
      ?? lines.find((one) => one.productId === item.productId);
    const name = line ? title(line) : "One thing";
    if (error.code !== "OUT_OF_STOCK") return `${name} is no longer on offer.`;
    const left = Number(item.available) || 0;
    return left ? `${name}: only ${left} left.` : `${name} is sold out.`;
  });
}

export function title(line) {
  return line.variantTitle ? `${line.title} (${line.variantTitle})` : line.title;
}

export function notice(error, more = []) {
  const listed = more.length > 0 && h("ul", {}, more.map((one) => h("li", {}, one)));
  const text = h("p", {}, sentence(error));
  return h("div", { class: "notice", role: "alert", tabindex: "-1" }, text, listed);
}
