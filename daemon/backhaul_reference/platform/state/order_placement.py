"""Places an order in one transaction, for both surfaces."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backhaul_reference.platform import order_models
from backhaul_reference.platform.json_codec import Document, encode_text
from backhaul_reference.platform.money import MAX_SUM_MINOR
from backhaul_reference.platform.problems import Flaw, Problem
from backhaul_reference.platform.state import (
    customers,
    inventory,
    order_views,
    webhook_outbox,
)
from backhaul_reference.platform.state.customers import Contact
from backhaul_reference.platform.state.database import Row
from backhaul_reference.platform.state.inventory import Cause, Moved, Source
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

NEXT_NUMBER = """UPDATE counter SET order_number = order_number + 1 WHERE store_id = ?
RETURNING order_number"""
ADD_ITEM = """INSERT INTO order_item(id, order_id, product_id, variant_id, sku, title,
  variant_title, options, image_url, quantity, taken, unit_price, discount, total)
VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an order about to be placed."""

    pointer: str
    quantity: int
    unit_price: int
    title: str
    discount: int = 0
    product_id: str | None = None
    variant_id: str | None = None
    sku: str | None = None
    variant_title: str | None = None
    options: str = "{}"
    image_url: str | None = None

    @property
    def total(self) -> int:
        return max(0, self.unit_price * self.quantity - self.discount)


@dataclass(frozen=True, slots=True)
class Totals:
    """What an order costs, in minor units."""

    subtotal: int
    discount: int
    shipping: int
    payment_fee: int
    tax: int
    total: int


@dataclass(frozen=True, slots=True)
class Draft:
    """An order with final lines and sums."""

    lines: Sequence[Line]
    totals: Totals
    contact: Contact
    source: Source
    columns: dict[str, Any]
    take: bool = True
    force: bool = False
    order_id: str = ""


def place(tx: Tx, store: Store, draft: Draft) -> order_models.Order:
    """Store the order, take its stock and queue its events and mails, atomically."""
    _check_sums(draft.totals)
    customer_id = customers.of_order(tx, store, draft.contact, draft.totals.total)
    order_id = draft.order_id or tx.ids.new("ord")
    at_ms = tx.tick(store.id)
    tx.insert("orders", _columns(tx, store, draft, order_id, customer_id, at_ms))
    for line in draft.lines:
        _add_item(tx, order_id, line, draft.take)
    if draft.take:
        _take(tx, store, draft, order_id, at_ms)
    placed = order_views.view(tx, store, order_id)
    webhook_outbox.emit(tx, store.id, "orders/create", placed)
    return placed


def _check_sums(totals: Totals) -> None:
    if max(totals.subtotal, totals.total) > MAX_SUM_MINOR:
        raise Problem(409, "TOTAL_LIMIT_EXCEEDED", "the order's sums are too large")


def _columns(
    tx: Tx,
    store: Store,
    draft: Draft,
    order_id: str,
    customer_id: str | None,
    at_ms: int,
) -> dict[str, Any]:
    totals = draft.totals
    return {
        "id": order_id,
        "store_id": store.id,
        "number": tx.value(NEXT_NUMBER, (store.id,)),
        "financial": "PENDING",
        "fulfillment": "UNFULFILLED",
        "confirmation_required": False,
        "currency": store.currency,
        "customer_id": customer_id,
        "customer_name": draft.contact.name,
        "customer_email": draft.contact.email,
        "customer_phone": draft.contact.phone,
        "subtotal": totals.subtotal,
        "discount": totals.discount,
        "shipping": totals.shipping,
        "payment_fee": totals.payment_fee,
        "tax": totals.tax,
        "total": totals.total,
        "tags": "[]",
        "placed_ms": at_ms,
        **draft.columns,
        "created_ms": at_ms,
        "updated_ms": at_ms,
        "version": 1,
    }


def _add_item(tx: Tx, order_id: str, line: Line, take: bool) -> None:
    params = (
        tx.ids.new("li"),
        order_id,
        line.product_id,
        line.variant_id,
        line.sku,
        line.title,
        line.variant_title,
        line.options,
        line.image_url,
        line.quantity,
        take and line.variant_id is not None,
        line.unit_price,
        line.discount,
        line.total,
    )
    tx.run(ADD_ITEM, params)


def _take(tx: Tx, store: Store, draft: Draft, order_id: str, at_ms: int) -> None:
    """Take the lines' quantities from stock, lines of one variant together."""
    asked: dict[str, int] = defaultdict(int)
    for line in draft.lines:
        if line.variant_id is not None:
            asked[line.variant_id] += line.quantity
    if not asked:
        return
    adjustment_id = tx.ids.new("adj")
    cause = Cause(adjustment_id, "ORDER_PLACED", draft.source, at_ms, order_id=order_id)
    moved: list[Moved] = []
    short: set[str] = set()
    for variant_id, quantity in sorted(asked.items()):
        one = inventory.move(tx, store.id, variant_id, -quantity, cause, draft.force)
        if one is None:
            short.add(variant_id)
        else:
            moved.append(one)
    if short:
        raise _out_of_stock(tx, draft, asked, short)
    inventory.announce(tx, store.id, cause, moved)


def _out_of_stock(
    tx: Tx, draft: Draft, asked: dict[str, int], short: set[str]
) -> Problem:
    items = [
        {
            "pointer": line.pointer,
            "productId": line.product_id,
            "variantId": line.variant_id,
            "requested": asked[line.variant_id],
            "available": tx.value(
                "SELECT MAX(stock, 0) FROM variant WHERE id = ?", (line.variant_id,)
            ),
        }
        for line in draft.lines
        if line.variant_id in short
    ]
    return Problem(409, "OUT_OF_STOCK", "there is not enough stock", items=items)


def line_of(
    pointer: str, variant: Row, quantity: int, unit_price: int, discount: int = 0
) -> Line:
    """A line with the snapshot of what it sells; `variant` is joined to its product."""
    only_default = variant["title"] == "Default"
    return Line(
        pointer=pointer,
        quantity=quantity,
        unit_price=unit_price,
        discount=discount,
        product_id=variant["product_id"],
        variant_id=variant["id"],
        sku=variant["sku"],
        title=variant["product_title"],
        variant_title=None if only_default else variant["title"],
        options=variant["options"],
        image_url=variant["image_url"] or variant["product_image"],
    )


def open_choice(pointer: str) -> Flaw:
    return Flaw(pointer, "VARIANT_REQUIRED", "the product has several variants")


def address_text(address: Document | None) -> str | None:
    return None if address is None else encode_text(address)
