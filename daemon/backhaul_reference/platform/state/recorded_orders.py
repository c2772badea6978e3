"""Orders a back office creates through v1, with prices as sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backhaul_reference.platform import order_models
from backhaul_reference.platform.json_codec import Document, encode_text
from backhaul_reference.platform.problems import Flaw, Problem, invalid
from backhaul_reference.platform.state import customers, mail_outbox, order_placement
from backhaul_reference.platform.state.customers import Contact
from backhaul_reference.platform.state.database import Row, Rows
from backhaul_reference.platform.state.inventory import Source
from backhaul_reference.platform.state.order_placement import Draft, Line, Totals
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

VARIANTS = """SELECT v.*, p.title AS product_title,
  json_extract(p.images, '$[0].url') AS product_image
FROM variant v JOIN product p ON p.id = v.product_id
WHERE v.store_id = :store AND CASE
  WHEN :variant IS NOT NULL THEN v.id = :variant
    AND (:product IS NULL OR v.product_id = :product)
  WHEN :product IS NOT NULL THEN v.product_id = :product
    AND (:sku IS NULL OR v.sku = :sku)
  ELSE v.sku = :sku END
ORDER BY v.position LIMIT 2"""


@dataclass(frozen=True, slots=True)
class SentLine:
    """One line as the back office sent it."""

    product_id: str | None
    variant_id: str | None
    sku: str | None
    title: str | None
    quantity: int
    price: int
    discount: int


@dataclass(frozen=True, slots=True)
class SentOrder:
    """An order as the back office sent it."""

    lines: Sequence[SentLine]
    contact: Contact
    address: Document | None
    totals: dict[str, int | None]
    external_id: str | None
    payment_method: str | None
    financial: str
    discount_code: str | None
    note: str | None
    tags: Sequence[str]
    placed_ms: int | None
    stock_behaviour: str
    send_receipt: bool = False


def record(tx: Tx, store: Store, source: Source, sent: SentOrder) -> order_models.Order:
    lines = _lines(tx, store, sent.lines)
    draft = Draft(
        lines=lines,
        totals=_totals(lines, sent.totals),
        contact=_contact(tx, store, sent.contact),
        source=source,
        columns=_columns(tx, source, sent),
        take=sent.stock_behaviour != "BYPASS",
        force=sent.stock_behaviour == "DECREMENT_IGNORING_POLICY",
    )
    placed = order_placement.place(tx, store, draft)
    if sent.send_receipt and draft.contact.email:
        mail_outbox.queue(tx, store.id, "order_placed", placed["id"])
    return placed


def _columns(tx: Tx, source: Source, sent: SentOrder) -> dict[str, Any]:
    placed_ms = sent.placed_ms or tx.now_ms()
    return {
        "source": "API" if source.type == "API_KEY" else source.type,
        "external_id": sent.external_id,
        "financial": sent.financial,
        "paid_ms": placed_ms if sent.financial == "PAID" else None,
        "payment_method": sent.payment_method,
        "discount_code": sent.discount_code,
        "address": order_placement.address_text(sent.address),
        "note": sent.note,
        "tags": encode_text(list(sent.tags)),
        "placed_ms": placed_ms,
    }


def _contact(tx: Tx, store: Store, contact: Contact) -> Contact:
    if contact.id is None:
        return contact
    row = customers.find(tx, store, contact.id)
    return Contact(
        name=contact.name or row["name"],
        email=contact.email or row["email"],
        phone=contact.phone or row["phone"],
        id=contact.id,
    )


def _lines(rows: Rows, store: Store, sent: Sequence[SentLine]) -> list[Line]:
    found = [_variants(rows, store, line) for line in sent]
    _check(sent, found)
    return [
        order_placement.line_of(
            f"/items/{n}", one[0], line.quantity, line.price, line.discount
        )
        if one
        else _custom(f"/items/{n}", line)
        for n, (line, one) in enumerate(zip(sent, found, strict=True))
    ]


def _variants(rows: Rows, store: Store, line: SentLine) -> list[Row]:
    """Return the variants that match a line, at most two."""
    if line.product_id is None and line.variant_id is None and line.sku is None:
        return []
    params = {
        "store": store.id,
        "variant": line.variant_id,
        "product": line.product_id,
        "sku": line.sku,
    }
    return rows.all(VARIANTS, params)


def _check(sent: Sequence[SentLine], found: Sequence[Sequence[Row]]) -> None:
    flaws = []
    unknown = []
    for n, (line, meant) in enumerate(zip(sent, found, strict=True)):
        if len(meant) > 1:
            flaws.append(order_placement.open_choice(f"/items/{n}/variantId"))
        elif meant:
            continue
        elif line.product_id or line.variant_id:
            unknown.append(_missing(n, line))
        elif line.title is None:
            flaws.append(Flaw(f"/items/{n}/title", "REQUIRED", "is required"))
    if flaws:
        raise invalid(flaws)
    if unknown:
        raise Problem(
            409, "PRODUCT_UNAVAILABLE", "a product does not exist", items=unknown
        )


def _missing(n: int, line: SentLine) -> Document:
    return {
        "pointer": f"/items/{n}",
        "productId": line.product_id,
        "variantId": line.variant_id,
        "requested": line.quantity,
        "available": 0,
    }


def _custom(pointer: str, line: SentLine) -> Line:
    return Line(
        pointer=pointer,
        quantity=line.quantity,
        unit_price=line.price,
        discount=line.discount,
        title=line.title or "",
        sku=line.sku,
    )


def _totals(lines: Sequence[Line], sent: dict[str, int | None]) -> Totals:
    """Return the sums as sent, with missing ones computed."""

    def given(name: str, otherwise: int) -> int:
        value = sent.get(name)
        return otherwise if value is None else value

    subtotal = sum(line.unit_price * line.quantity for line in lines)
    discount = given("discount", sum(line.discount for line in lines))
    freight, fee, tax = given("shipping", 0), given("payment_fee", 0), given("tax", 0)
    computed = max(0, subtotal - discount + freight + fee + tax)
    return Totals(subtotal, discount, freight, fee, tax, given("total", computed))
