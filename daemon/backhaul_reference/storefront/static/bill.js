// What the order would come to: goods, discount, shipping and fee, asked as it changes.

import { ask } from "./api.js";
import * as cart from "./cart.js";
import { announce, h } from "./elements.js";
import { decimal, freight, minor, money } from "./format.js";
import { sentence, title } from "./problems.js";

export class Bill {
  constructor(store) {
    this.store = store;
    this.node = h("div", { class: "bill-body" });
    this.due = h("strong", {});
    this.shipping = null;
    this.words = "Enter your address";
    this.code = "";
    this.discount = "0";
    this.fee = "0";
    this.asked = 0;
    this.draw();
  }

  /** Ask what shipping to an address costs; only the newest answer counts. */
  async quote(address) {
    const asked = ++this.asked;
    const body = { storeId: this.store.id, items: cart.priced(), address };
    let shipping = null;
    let words = "We do not deliver there";
    try {
      const answer = await ask("POST", "/api/shipping/calculate", body);
      if (!answer.unavailable) shipping = answer.total;
    } catch (error) {
      words = sentence(error);
    }
    if (asked !== this.asked) return;
    Object.assign(this, { shipping, words });
    if (this.code) await this.check(this.code).catch(() => this.forget());
    this.draw();
    announce(shipping === null ? words : `Shipping ${freight(shipping)}, total ${this.total()}`);
  }

  /** Ask what a code takes off; throws the refusal. */
  async check(code) {
    const asked = { subtotal: cart.subtotal(), items: cart.priced() };
    if (this.shipping !== null) asked.shipping = this.shipping;
    const body = { code, cart: asked };
    const answer = await ask("POST", "/storefront/discounts/validate", body);
    this.code = answer.discount.code;
    this.discount = answer.amount;
    this.draw();
  }

  forget() {
    this.code = "";
    this.discount = "0";
    this.draw();
  }

  charge(fee) {
    this.fee = fee ?? "0";
    this.draw();
  }

  total() {
    const plus = minor(cart.subtotal()) + minor(this.shipping ?? "0") + minor(this.fee);
    return money(decimal(Math.max(0, plus - minor(this.discount))));
  }

  draw() {
    const sent = this.shipping === null ? this.words : freight(this.shipping);
    const known = this.shipping !== null;
    this.due.textContent = this.total();
    this.node.replaceChildren(
      h("ul", {}, cart.lines().map(line)),
      h("dl", {},
        pair("Subtotal", money(cart.subtotal())),
        minor(this.discount) > 0 && pair(`Discount ${this.code}`, `−${money(this.discount)}`),
        pair("Shipping", sent, known ? "" : "muted"),
        minor(this.fee) > 0 && pair("Payment fee", money(this.fee)),
        pair(known ? "Total" : "Total before shipping", this.total(), "total")));
  }
}

function line(one) {
  const words = `${one.quantity} × ${title(one)}`;
  return h("li", {}, h("span", {}, words), h("span", {}, money(cart.lineTotal(one))));
}

export function pair(name, value, kind = "") {
  return h("div", { class: kind }, h("dt", {}, name), h("dd", {}, value));
}
