"""A further tracking number for an order that was shipped whole.

Some platforms take it as a further shipment without units. It must never ship units, so
it is planned, and later sent, only while nothing of the order is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.identity import command_id
from backhaul.errors import BackhaulError
from backhaul.store.contract import NewCommand
from backhaul.store.sqlite.members import document_of
from backhaul.store.sqlite.mirror_reading import MirrorReader

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from backhaul.store.order_views import OrderSummary


def may_correct(connection: sqlite3.Connection, row: Mapping[str, Any]) -> bool:
    """Return whether the number of a quarantined row can be sent to the store."""
    try:
        correction(connection, row)
    except BackhaulError:
        return False
    return True


def correction(connection: sqlite3.Connection, row: Mapping[str, Any]) -> NewCommand:
    """Return the command that sends the number of a quarantined row to the store.

    `row` has `id`, `name`, `key`, `store` and `payload`. Raises BackhaulError where the
    row is no shipment with a number, or its order is not shipped whole.
    """
    document = document_of(row["payload"])
    record = document.get("record") or {}
    number = record.get("tracking_number")
    if document.get("kind") != "fulfill" or not number:
        raise BackhaulError(
            f"row {row['id']} is no shipment with a tracking number, so there is no "
            "number to send"
        )
    order = _order(connection, row, str(record["order"]))
    _check(connection, row, order, number)
    store, target = row["store"], order.id
    asked = {
        "tracking_company": record.get("tracking_company"),
        "tracking_number": number,
        "lines": [],
        "number_only": True,
    }
    identity = command_id(store, row["name"], f"{row['key']}:number", "fulfill")
    return NewCommand(identity, "fulfill", target, f"order:{target}", asked)


def _order(
    connection: sqlite3.Connection, row: Mapping[str, Any], name: str
) -> OrderSummary:
    orders = MirrorReader(connection).orders_called(row["store"], name)
    if len(orders) != 1:
        found = "is not known" if not orders else "could be any of several orders"
        raise BackhaulError(f"order {name!r} of row {row['id']} {found}")
    return orders[0]


def _check(
    connection: sqlite3.Connection,
    row: Mapping[str, Any],
    order: OrderSummary,
    number: str,
) -> None:
    if order.cancelled:
        raise BackhaulError(
            f"order {order.name} is cancelled; no number is sent for it"
        )
    mirror = MirrorReader(connection)
    parcels = mirror.parcels_of(row["store"], order.id)
    if number in {parcel.number for parcel in parcels}:
        raise BackhaulError(f"order {order.name} shows number {number} already")
    if open_ := mirror.open_units(row["store"], order.id):
        raise BackhaulError(
            f"order {order.name} has {open_} units that are not shipped in the store, "
            "and a number alone would ship them; retry ships the row's units, or "
            "change the number in the store's dashboard"
        )
