"""Prices and validates a shopper's cart and turns it into an order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from backhaul_reference.platform import order_models
from backhaul_reference.platform.json_codec import Document, encode_text
from backhaul_reference.platform.problems import Problem, invalid
from backhaul_reference.platform.state import (
    discounts,
    inventory,
    mail_outbox,
    order_placement,
    shipping,
)
from backhaul_reference.platform.state.customers import Contact
from backhaul_reference.platform.state.database import Row, Rows, placeholders
from backhaul_reference.platform.state.discounts import DiscountUse
from backhaul_reference.platform.state.order_placement import Draft, Line, Totals
from backhaul_reference.platform.state.shipping import Destination
from backhaul_reference.platform.state.stores import METHODS, Store
from backhaul_reference.platform.state.writer import Tx

SELLABLE = """SELECT v.*, p.title AS product_title,
  json_extract(p.images, '$[0].url') AS product_image, p.status AS product_status
FROM variant v JOIN product p ON p.id = v.product_id
WHERE v.store_id = ? AND v.product_id IN ({}) ORDER BY v.position"""


@dataclass(frozen=True, slots=True)
class CartLine:
    """One line of a shopper's cart."""

    product_id: str
    variant_id: str | None
    quantity: int


@dataclass(frozen=True, slots=True)
class Cart:
    """A shopper's whole request, checked for its form only."""

    payment_method: str
    items: Sequence[CartLine]
    contact: Contact
    address: Document
    discount_code: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class AppliedDiscount:
    """A valid discount and its amount on this order."""

    row: Row
    goods_off: int

    def freight_off(self, freight: int) -> int:
        return discounts.freight_off(discounts.terms(self.row), freight)


def check_out(
    tx: Tx, store: Store, cart: Cart, order_id: str, token_hash: str
) -> order_models.Order:
    """Place the order at catalogue prices, or refuse it whole."""
    lines = _lines(tx, store, cart)
    discount_used = _applied_discount(tx, store, cart, lines)
    if discount_used is not None:
        lines = _reduced(lines, discount_used.goods_off)
    totals = _totals(tx, store, cart, lines, discount_used)
    if discount_used is not None:
        discounts.use(tx, discount_used.row, order_id, cart.contact.email or "")
    columns: dict[str, Any] = {
        "source": "STOREFRONT",
        "payment_method": cart.payment_method,
        "confirmation_required": store.cod_confirmation
        and cart.payment_method == "COD",
        "discount_code": discount_used and discount_used.row["code"],
        "address": encode_text(cart.address),
        "note": cart.note,
        "token_hash": token_hash,
    }
    draft = Draft(
        lines=lines,
        totals=totals,
        contact=cart.contact,
        source=inventory.STOREFRONT,
        columns=columns,
        order_id=order_id,
    )
    placed = order_placement.place(tx, store, draft)
    mail_outbox.queue(tx, store.id, "order_placed", order_id)
    mail_outbox.queue(tx, store.id, "order_received", order_id)
    return placed


def _applied_discount(
    rows: Tx, store: Store, cart: Cart, lines: Sequence[Line]
) -> AppliedDiscount | None:
    if cart.discount_code is None:
        return None
    subtotal = sum(line.total for line in lines)
    occasion = DiscountUse(rows.now_ms(), subtotal, cart.contact.email)
    row = discounts.check(rows, store, cart.discount_code, occasion)
    return AppliedDiscount(row, discounts.goods_off(discounts.terms(row), subtotal))


def _reduced(lines: Sequence[Line], off: int) -> list[Line]:
    shares = discounts.split(off, [line.total for line in lines])
    return [
        replace(line, discount=share) for line, share in zip(lines, shares, strict=True)
    ]


def _check_method(store: Store, method: str) -> None:
    accepted = store.accepted_methods()
    if method not in accepted:
        raise Problem(
            409,
            "PAYMENT_METHOD_UNAVAILABLE",
            "the store does not take this payment method",
            acceptedMethods=accepted,
        )


def _lines(rows: Rows, store: Store, cart: Cart) -> list[Line]:
    items = cart.items
    product_ids = sorted({item.product_id for item in items})
    sql = SELLABLE.format(placeholders(product_ids))
    on_sale: dict[str, list[Row]] = {}
    for row in rows.all(sql, (store.id, *product_ids)):
        if row["product_status"] == "active":
            on_sale.setdefault(row["product_id"], []).append(row)
    _check_choices(items, on_sale)
    _check_method(store, cart.payment_method)
    chosen = [_choose(item, on_sale.get(item.product_id, [])) for item in items]
    _check_available(items, chosen)
    return [
        order_placement.line_of(f"/items/{n}", variant, item.quantity, variant["price"])
        for n, (item, variant) in enumerate(zip(items, chosen, strict=True))
        if variant is not None
    ]


def _choose(item: CartLine, variants: Sequence[Row]) -> Row | None:
    if item.variant_id is None:
        return variants[0] if variants else None
    return next((row for row in variants if row["id"] == item.variant_id), None)


def _check_choices(items: Sequence[CartLine], on_sale: dict[str, list[Row]]) -> None:
    open_choices = [
        order_placement.open_choice(f"/items/{n}/variantId")
        for n, item in enumerate(items)
        if item.variant_id is None and len(on_sale.get(item.product_id, ())) > 1
    ]
    if open_choices:
        raise invalid(open_choices)


def _check_available(items: Sequence[CartLine], chosen: Sequence[Row | None]) -> None:
    missing = [
        {
            "pointer": f"/items/{n}",
            "productId": item.product_id,
            "variantId": item.variant_id,
            "requested": item.quantity,
            "available": 0,
        }
        for n, (item, variant) in enumerate(zip(items, chosen, strict=True))
        if variant is None
    ]
    if missing:
        raise Problem(
            409, "PRODUCT_UNAVAILABLE", "a product is not on sale", items=missing
        )


def _totals(
    rows: Rows,
    store: Store,
    cart: Cart,
    lines: Sequence[Line],
    discount_used: AppliedDiscount | None,
) -> Totals:
    """Sums of the order; freight is quoted on the goods before the discount."""
    subtotal = sum(line.unit_price * line.quantity for line in lines)
    freight = shipping.quote(rows, store.id, destination(cart.address), subtotal)
    if freight is None:
        raise Problem(
            409, "SHIPPING_UNAVAILABLE", "no shipping zone covers the address"
        )
    discount = discount_used.goods_off if discount_used is not None else 0
    if discount_used is not None:
        freight -= discount_used.freight_off(freight)
    fee: int = getattr(store, METHODS[cart.payment_method])["fee"]
    return Totals(
        subtotal=subtotal,
        discount=discount,
        shipping=freight,
        payment_fee=fee,
        tax=0,
        total=subtotal - discount + freight + fee,
    )


def destination(address: Document) -> Destination:
    return Destination(
        address["country"], address["province"], address["city"], address["zip"]
    )
