"""Cancels orders; restocks and refunds at most once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from backhaul_reference.platform import order_models
from backhaul_reference.platform.json_codec import Document, encode_text
from backhaul_reference.platform.state import (
    customers,
    discounts,
    inventory,
    mail_outbox,
    order_lifecycle,
    order_views,
    webhook_outbox,
)
from backhaul_reference.platform.state.database import Row
from backhaul_reference.platform.state.inventory import Cause, Moved, Source
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

Reason = Literal["CUSTOMER", "FRAUD", "INVENTORY", "DECLINED", "STAFF", "OTHER"]
GATE = "UPDATE orders SET cancelled_ms = ? WHERE id = ? AND cancelled_ms IS NULL"
RESTOCK = """UPDATE order_item SET restocked = quantity
WHERE seq = ? AND restocked = 0 AND taken"""


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """A requested cancellation."""

    restock: bool = False
    refund: bool = False
    reason: str = "OTHER"
    note: str | None = None
    notify: bool = True


def cancel(
    tx: Tx, store: Store, source: Source, order_id: str, wanted: CancelRequest
) -> order_models.Order:
    row = order_views.find(tx, store, order_id)
    before = order_views.view(tx, store, order_id)
    at_ms = tx.tick(store.id)
    if not tx.run(GATE, (at_ms, order_id)):
        return _repeat(store, row, before, wanted)
    skipped: list[str] = []
    if wanted.restock:
        cause = Cause(
            tx.ids.new("adj"), "ORDER_CANCELLED", source, at_ms, order_id=order_id
        )
        skipped = _restock(tx, store, order_id, cause)
    order_views.touch(tx, order_id, at_ms, _columns(row, wanted, skipped))
    customers.give_back(tx, row["customer_id"], row["total"])
    discounts.give_back(tx, order_id)
    if wanted.notify and row["customer_email"]:
        mail_outbox.queue(tx, store.id, "order_cancelled", order_id)
    after = order_views.view(tx, store, order_id)
    data: order_models.CancelledOrder = {**after, "trigger": "CANCEL"}
    webhook_outbox.emit(tx, store.id, "orders/cancelled", data)
    order_views.announce_update(tx, store, before, after)
    return after


def _repeat(
    store: Store, row: Row, before: order_models.Order, wanted: CancelRequest
) -> order_models.Order:
    same = (wanted.restock, wanted.refund) == (
        bool(row["cancel_restock"]),
        bool(row["cancel_refund"]),
    )
    if same and "strict-repeat" not in store.quirks:
        return before
    raise order_views.refusal("ORDER_ALREADY_CANCELLED", "it is cancelled already", row)


def _columns(row: Row, wanted: CancelRequest, skipped: list[str]) -> Document:
    trigger = "cancel_refund" if wanted.refund else "cancel"
    money = order_lifecycle.financial_move(row["financial"], trigger, cancelled=False)
    goods = "cancel_restock" if wanted.restock else "cancel"
    return {
        "financial": money.to,
        "fulfillment": order_lifecycle.fulfillment_after(row["fulfillment"], goods),
        "cancel_reason": wanted.reason,
        "cancel_note": wanted.note,
        "cancel_restock": wanted.restock,
        "cancel_refund": wanted.refund,
        "cancel_skipped": encode_text(skipped),
    }


def _restock(tx: Tx, store: Store, order_id: str, cause: Cause) -> list[str]:
    """Restock every line; return the lines whose variant no longer exists."""
    lines = tx.all(
        "SELECT seq, id, variant_id, quantity, taken FROM order_item"
        " WHERE order_id = ? ORDER BY seq",
        (order_id,),
    )
    back: dict[str, int] = {}
    for line in lines:
        if line["variant_id"] is not None and line["taken"]:
            name = line["variant_id"]
            back[name] = back.get(name, 0) + line["quantity"]
    found = {
        variant_id: inventory.move(tx, store.id, variant_id, count, cause)
        for variant_id, count in sorted(back.items())
    }
    moved: list[Moved] = [one for one in found.values() if one is not None]
    inventory.announce(tx, store.id, cause, moved)
    return _mark(tx, lines, {one.variant_id for one in moved})


def _mark(tx: Tx, lines: Sequence[Row], moved: set[str]) -> list[str]:
    """Mark the restocked lines; return the others."""
    return [
        line["id"]
        for line in lines
        if line["variant_id"] not in moved or not tx.run(RESTOCK, (line["seq"],))
    ]
