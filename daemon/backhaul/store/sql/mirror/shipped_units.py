"""Units of an order that are in parcels on their way, and what that forbids to send.

A unit is out once it has shipped, until its parcel is reported as returned. The store
puts back every unit of a cancelled order, so a restock counts units that are out twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.status_rank import is_refunded
from backhaul.store.matching import Hold
from backhaul.store.sql.documents import document_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from backhaul.store.matching import Command
    from backhaul.store.mirror import OrderSummary

_ORDER = """
    SELECT CAST(document AS BLOB), financial_status FROM orders
    WHERE store = ? AND id = ?
"""
_RETURNED = """
    SELECT s.id, p.status IS 'returned' FROM shipments s
    LEFT JOIN parcels p ON p.store = s.store AND p.shipment_id = s.id
    WHERE s.store = ? AND s.order_id = ?
"""
_QUANTITIES = "SELECT id, quantity FROM order_items WHERE store = ? AND order_id = ?"
_ACCEPTED = "SELECT accepted FROM commands WHERE seq = ?"


def out_by_line(
    connection: sqlite3.Connection,
    store: str,
    order_id: str,
    fulfilled: Mapping[str, int],
) -> dict[str, int]:
    """Return by line how many of its `fulfilled` units are out.

    Of a returned parcel that does not list its units nothing is taken off, unless every
    parcel of the order is returned.
    """
    rows = connection.execute(_RETURNED, (store, order_id)).fetchall()
    returned = {shipment for shipment, is_returned in rows if is_returned}
    if rows and len(returned) == len(rows):
        return dict.fromkeys(fulfilled, 0)
    out = dict(fulfilled)
    for line, units in _units(connection, store, order_id, returned):
        out[line] = max(out.get(line, 0) - units, 0)
    return out


def _units(
    connection: sqlite3.Connection, store: str, order_id: str, shipments: set[str]
) -> Iterator[tuple[str, int]]:
    """Yield line and units of each row of these shipments, as the mirror holds them."""
    row = connection.execute(_ORDER, (store, order_id)).fetchone()
    document = document_of(row[0]) if row and shipments else {}
    for shipment in document.get("shipments") or ():
        if shipment.get("id") in shipments:
            for item in shipment.get("items") or ():
                yield str(item.get("lineItemId")), _count(item.get("quantity"))


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def hold(
    connection: sqlite3.Connection, command: Command, order: OrderSummary
) -> Hold | None:
    """Return why an operator has to decide about a command before it is sent.

    None where there is no reason, or where an operator has accepted the same reason.
    """
    if order.cancelled:
        return None
    found = _HOLDS[command.kind](connection, command, order)
    if found is None:
        return None
    (accepted,) = connection.execute(_ACCEPTED, (command.seq,)).fetchone()
    return None if accepted == found.reason else found


def _fulfill(
    connection: sqlite3.Connection, command: Command, order: OrderSummary
) -> Hold | None:
    row = connection.execute(_ORDER, (command.store, order.id)).fetchone()
    if row is None or not is_refunded(row[1]):
        return None
    return Hold(
        f"order {order.name} is refunded: a parcel is reported for it, and nothing was"
        " sent; resend it to fulfill the order all the same, or drop it"
    )


def _cancel(
    connection: sqlite3.Connection, command: Command, order: OrderSummary
) -> Hold | None:
    if not command.payload["restock"]:
        return None
    place = (command.store, order.id)
    quantities = dict(connection.execute(_QUANTITIES, place).fetchall())
    # What was sent for an earlier command may have shipped, whatever became of it.
    shipped = {line.id: quantities[line.id] - line.left for line in order.items}
    out = sum(out_by_line(connection, *place, shipped).values())
    if not out:
        return None
    total = sum(quantities.values())
    other = {**command.payload, "restock": False, "restock_unshipped": True}
    return Hold(
        f"{out} of {total} units of order {order.name} have shipped and are not"
        f" reported returned; the restock would put back {total}. Choose: resend (the"
        f" parcels came back: cancel and put back {total}), resend --restock-unshipped"
        f" (cancel and put back {total - out}), or drop",
        other,
    )


_HOLDS = {"cancel": _cancel, "fulfill": _fulfill}
