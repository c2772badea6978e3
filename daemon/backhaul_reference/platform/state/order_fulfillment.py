"""Fulfills orders, in whole or in part."""

from collections.abc import Sequence
from dataclasses import dataclass

from backhaul_reference.platform import order_models
from backhaul_reference.platform.json_codec import decode_stored, encode_text
from backhaul_reference.platform.problems import Flaw, invalid
from backhaul_reference.platform.state import (
    mail_outbox,
    order_lifecycle,
    order_views,
    webhook_outbox,
)
from backhaul_reference.platform.state.database import Row
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

SHIP = """UPDATE order_item SET fulfilled = fulfilled + :n
WHERE order_id = :order_id AND id = :id AND fulfilled + :n <= quantity"""


@dataclass(frozen=True, slots=True)
class ShipmentRequest:
    """A requested shipment; without items it contains everything that is left."""

    company: str | None = None
    number: str | None = None
    url: str | None = None
    items: tuple[tuple[str, int], ...] | None = None
    notify: bool = True

    def same_tracking(self, shipment: Row) -> bool:
        given = (self.company, self.number, self.url)
        return given == (shipment["company"], shipment["number"], shipment["url"])


def fulfill(
    tx: Tx, store: Store, order_id: str, wanted: ShipmentRequest
) -> order_models.Order:
    row = order_views.find(tx, store, order_id)
    lines = tx.all("SELECT * FROM order_item WHERE order_id = ?", (order_id,))
    _check_lines(wanted, lines)
    if row["confirmation_required"] and row["confirmed_ms"] is None:
        raise order_views.refusal(
            "ORDER_AWAITING_CONFIRMATION", "the merchant has not confirmed it yet", row
        )
    if row["cancelled_ms"] is not None and "refuse-fulfill-cancelled" in store.quirks:
        raise order_views.refusal("ORDER_CANCELLED", "it is cancelled", row)
    left = {line["id"]: line["quantity"] - line["fulfilled"] for line in lines}
    if not any(left.values()):
        return _repeat(tx, store, row, wanted)
    parcel = _parcel(wanted, left)
    return _ship(tx, store, row, wanted, parcel, left)


def _check_lines(wanted: ShipmentRequest, lines: Sequence[Row]) -> None:
    known = {line["id"] for line in lines}
    flaws = [
        Flaw(f"/items/{n}/lineItemId", "NOT_FOUND", "the order has no such line")
        for n, (line_id, _) in enumerate(wanted.items or ())
        if line_id not in known
    ]
    if flaws:
        raise invalid(flaws)


def _repeat(
    tx: Tx, store: Store, row: Row, wanted: ShipmentRequest
) -> order_models.Order:
    """Handle a request for a fully shipped order: a repetition is accepted."""
    shipments = tx.all("SELECT * FROM shipment WHERE order_id = ?", (row["id"],))
    same = any(_is_repeat(wanted, shipment) for shipment in shipments)
    if same and "strict-repeat" not in store.quirks:
        return order_views.view(tx, store, row["id"])
    if "refulfill-attaches" in store.quirks and wanted.number and not same:
        return _attach(tx, store, row, wanted)
    raise order_views.refusal("ORDER_ALREADY_FULFILLED", "it is fulfilled already", row)


def _attach(
    tx: Tx, store: Store, row: Row, wanted: ShipmentRequest
) -> order_models.Order:
    """Add a shipment without units: a further tracking number of the same goods."""
    order_id = row["id"]
    at_ms = tx.tick(store.id)
    _add_shipment(tx, order_id, wanted, {}, at_ms)
    order_views.touch(tx, order_id, at_ms, {})
    return _announce(tx, store, row, wanted, order_views.view(tx, store, order_id))


def _announce(
    tx: Tx, store: Store, row: Row, wanted: ShipmentRequest, after: order_models.Order
) -> order_models.Order:
    """Mail the customer and emit the event of the newest shipment."""
    shipment = after["shipments"][-1]
    if wanted.notify and row["customer_email"]:
        mail_outbox.queue(tx, store.id, "order_shipped", row["id"], part=shipment["id"])
    data: order_models.FulfilledOrder = {**after, "shipment": shipment}
    webhook_outbox.emit(tx, store.id, "orders/fulfilled", data)
    return after


def _is_repeat(wanted: ShipmentRequest, shipment: Row) -> bool:
    if not wanted.same_tracking(shipment):
        return False
    if wanted.items is None:
        return True
    shipped = {
        item["lineItemId"]: item["quantity"]
        for item in decode_stored(shipment["items"])
    }
    return _parcel(wanted, {}) == shipped


def _parcel(wanted: ShipmentRequest, left: dict[str, int]) -> dict[str, int]:
    if wanted.items is None:
        return {line_id: count for line_id, count in left.items() if count}
    parcel: dict[str, int] = {}
    for line_id, count in wanted.items:
        parcel[line_id] = parcel.get(line_id, 0) + count
    return parcel


def _ship(
    tx: Tx,
    store: Store,
    row: Row,
    wanted: ShipmentRequest,
    parcel: dict[str, int],
    left: dict[str, int],
) -> order_models.Order:
    order_id = row["id"]
    before = order_views.view(tx, store, order_id)
    for line_id, count in parcel.items():
        if not tx.connection.execute(
            SHIP, {"n": count, "order_id": order_id, "id": line_id}
        ).rowcount:
            raise order_views.refusal(
                "QUANTITY_NOT_FULFILLABLE", "fewer are left than asked for", row
            )
    at_ms = tx.tick(store.id)
    _add_shipment(tx, order_id, wanted, parcel, at_ms)
    rest = sum(left.values()) - sum(parcel.values())
    trigger = "some" if rest else "all"
    fulfillment = order_lifecycle.fulfillment_after(row["fulfillment"], trigger)
    order_views.touch(tx, order_id, at_ms, {"fulfillment": fulfillment})
    after = _announce(tx, store, row, wanted, order_views.view(tx, store, order_id))
    order_views.announce_update(tx, store, before, after)
    return after


def _add_shipment(
    tx: Tx, order_id: str, wanted: ShipmentRequest, parcel: dict[str, int], at_ms: int
) -> None:
    items = [
        {"lineItemId": line_id, "quantity": count} for line_id, count in parcel.items()
    ]
    tx.insert(
        "shipment",
        {
            "id": tx.ids.new("shp"),
            "order_id": order_id,
            "company": wanted.company,
            "number": wanted.number,
            "url": wanted.url,
            "items": encode_text(items),
            "shipped_ms": at_ms,
        },
    )
