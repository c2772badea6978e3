"""Prices and validates a shopper's cart and turns it into an order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from backhaul_reference.platform.json_codec import Document, encode_text
from backhaul_reference.platform.problems import Problem, invalid
from backhaul_reference.platform.state import (
    discounts,
    mail_outbox,
    order_placement,
    shipping_rates,
    stock_ledger,
)
from backhaul_reference.platform.state.customers import Contact
from backhaul_reference.platform.state.database import Row, Rows, marks
from backhaul_reference.platform.state.discounts import Occasion
from backhaul_reference.platform.state.order_placement import Draft, Line, Totals
from backhaul_reference.platform.state.shipping_rates import Destination
from backhaul_reference.platform.state.stores import METHODS, Store
from backhaul_reference.platform.state.writer import Tx

SELLABLE = """SELECT v.*, p.title AS product_title,
  json_extract(p.images, '$[0].url') AS product_image, p.status AS product_status
FROM variant v JOIN product p ON p.id = v.product_id
WHERE v.store_id = ? AND v.product_id IN ({}) ORDER BY v.position"""


@dataclass(frozen=True, slots=True)
class Wish:
    """One line of a shopper's cart."""

    product_id: str
    variant_id: str | None
    quantity: int


@dataclass(frozen=True, slots=True)
class Cart:
    """A shopper's whole request, checked for its form only."""

    payment_method: str
    wishes: Sequence[Wish]
    contact: Contact
    address: Document
    discount_code: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Bargain:
    """A discount that holds, and what it gives on this order."""

    row: Row
    goods_off: int

    def freight_off(self, freight: int) -> int:
        return discounts.freight_off(discounts.terms(self.row), freight)


def check_out(
    tx: Tx, store: Store, cart: Cart, order_id: str, token_hash: str
) -> Document:
    """Place the order at catalogue prices, or refuse it whole."""
    lines = _lines(tx, store, cart)
    bargain = _bargain(tx, store, cart, lines)
    if bargain is not None:
        lines = _reduced(lines, bargain.goods_off)
    totals = _totals(tx, store, cart, lines, bargain)
    if bargain is not None:
        discounts.use(tx, bargain.row, order_id, cart.contact.email or "")
    columns: dict[str, Any] = {
        "source": "STOREFRONT",
        "payment_method": cart.payment_method,
        "confirmation_required": store.cod_confirmation
        and cart.payment_method == "COD",
        "discount_code": bargain and bargain.row["code"],
        "address": encode_text(cart.address),
        "note": cart.note,
        "token_hash": token_hash,
    }
    draft = Draft(
        lines=lines,
        totals=totals,
        contact=cart.contact,
        source=stock_ledger.STOREFRONT,
        columns=columns,
        order_id=order_id,
    )
    placed = order_placement.place(tx, store, draft)
    mail_outbox.queue(tx, store.id, "order_placed", order_id)
    mail_outbox.queue(tx, store.id, "order_received", order_id)
    return placed


def _bargain(
    rows: Tx, store: Store, cart: Cart, lines: Sequence[Line]
) -> Bargain | None:
    if cart.discount_code is None:
        return None
    subtotal = sum(line.total for line in lines)
    occasion = Occasion(rows.now_ms(), subtotal, cart.contact.email)
    row = discounts.check(rows, store, cart.discount_code, occasion)
    return Bargain(row, discounts.goods_off(discounts.terms(row), subtotal))


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
    wishes = cart.wishes
    product_ids = sorted({wish.product_id for wish in wishes})
    sql = SELLABLE.format(marks(product_ids))
    on_sale: dict[str, list[Row]] = {}
    for row in rows.all(sql, (store.id, *product_ids)):
        if row["product_status"] == "active":
            on_sale.setdefault(row["product_id"], []).append(row)
    _check_choices(wishes, on_sale)
    _check_method(store, cart.payment_method)
    chosen = [_choose(wish, on_sale.get(wish.product_id, [])) for wish in wishes]
    _check_available(wishes, chosen)
    return [
        order_placement.line_of(f"/items/{n}", variant, wish.quantity, variant["price"])
        for n, (wish, variant) in enumerate(zip(wishes, chosen, strict=True))
        if variant is not None
    ]


def _choose(wish: Wish, variants: Sequence[Row]) -> Row | None:
    if wish.variant_id is None:
        return variants[0] if variants else None
    return next((row for row in variants if row["id"] == wish.variant_id), None)


def _check_choices(wishes: Sequence[Wish], on_sale: dict[str, list[Row]]) -> None:
    open_choices = [
        order_placement.open_choice(f"/items/{n}/variantId")
        for n, wish in enumerate(wishes)
        if wish.variant_id is None and len(on_sale.get(wish.product_id, ())) > 1
    ]
    if open_choices:
        raise invalid(open_choices)


def _check_available(wishes: Sequence[Wish], chosen: Sequence[Row | None]) -> None:
    missing = [
        {
            "pointer": f"/items/{n}",
            "productId": wish.product_id,
            "variantId": wish.variant_id,
            "requested": wish.quantity,
            "available": 0,
        }
        for n, (wish, variant) in enumerate(zip(wishes, chosen, strict=True))
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
    bargain: Bargain | None,
) -> Totals:
    """Sums of the order; freight is quoted on the goods before the discount."""
    subtotal = sum(line.unit_price * line.quantity for line in lines)
    freight = shipping_rates.quote(rows, store.id, destination(cart.address), subtotal)
    if freight is None:
        raise Problem(
            409, "SHIPPING_UNAVAILABLE", "no shipping zone covers the address"
        )
    discount = bargain.goods_off if bargain is not None else 0
    if bargain is not None:
        freight -= bargain.freight_off(freight)
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
