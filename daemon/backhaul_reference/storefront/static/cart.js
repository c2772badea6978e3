// What the shopper means to buy: kept by this tab, gone when it closes.

import { get, subdomain } from "./api.js";
import { decimal, minor } from "./format.js";

const NAME = `cart ${subdomain}`;
const MOST = 999;

function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(NAME)) ?? [];
  } catch {
    return [];
  }
}

export function lines() {
  return kept();
}

function keep(changed) {
  sessionStorage.setItem(NAME, JSON.stringify(changed));
  dispatchEvent(new Event("cart-changed"));
}

export function add(product, variant, quantity) {
  const all = kept();
  const known = all.find((line) => line.variantId === variant.id);
  if (known) known.quantity = Math.min(MOST, known.quantity + quantity);
  else all.push({ ...shown(product, variant), quantity });
  keep(all);
}

function shown(product, variant) {
  const several = product.variants.length > 1;
  return {
    productId: product.id,
    variantId: variant.id,
    handle: product.handle,
    title: product.title,
    variantTitle: several ? variant.title : "",
    image: product.images[0] ?? null,
    price: variant.price,
    available: variant.available,
  };
}

export function setQuantity(variantId, quantity) {
  const all = kept();
  const line = all.find((one) => one.variantId === variantId);
  if (line) line.quantity = Math.max(1, Math.min(MOST, quantity || 1));
  keep(all);
}

export function remove(variantId) {
  keep(kept().filter((line) => line.variantId !== variantId));
}

export function clear() {
  keep([]);
}

export function pieces() {
  return kept().reduce((sum, line) => sum + line.quantity, 0);
}

export function lineTotal(line) {
  return decimal(minor(line.price) * line.quantity);
}

export function subtotal() {
  return decimal(kept().reduce((sum, line) => sum + minor(lineTotal(line)), 0));
}

export function priced() {
  return kept().map(({ productId, variantId, quantity, price }) => (
    { productId, variantId, quantity, price }
  ));
}

export function wishes() {
  return kept().map(({ productId, variantId, quantity }) => (
    { productId, variantId, quantity }
  ));
}

/** Ask for each product again: prices and stock may have changed meanwhile. */
export async function refresh() {
  const ids = [...new Set(kept().map((line) => line.productId))];
  const answers = await Promise.allSettled(ids.map((id) => get(`/products/${id}`)));
  const found = new Map(answers.map((answer, at) => [ids[at], answer]));
  keep(kept().map((line) => refreshed(line, found.get(line.productId))));
}

function refreshed(line, answer) {
  if (answer === undefined) return line;
  if (answer.status === "rejected") {
    const gone = answer.reason.status === 404;
    return gone ? { ...line, available: false } : line;
  }
  const product = answer.value;
  const variant = product.variants.find((one) => one.id === line.variantId);
  if (!variant) return { ...line, available: false };
  return { ...shown(product, variant), quantity: line.quantity };
}
