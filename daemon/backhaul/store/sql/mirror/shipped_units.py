"""Counts the units of an order that are out, and holds the commands they forbid.

A unit is out once it has shipped, until its parcel is reported as returned. The store
puts back every unit of a cancelled order, so a restock counts units that are out twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.resources import is_refunded
from backhaul.store.matching import Hold
from backhaul.store.sql.dialect import document_of
from backhaul.store.sql.mirror.rows import document_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backhaul.store.matching import Command
    from backhaul.store.mirror import OrderSummary
    from backhaul.store.sql.family import Connection

_FINANCIAL_STATUS = """
    SELECT financial_status FROM orders WHERE store = :store AND id = :order
"""
_PARCELS = """
    SELECT s.id, p.status FROM shipments s
    LEFT JOIN parcels p ON p.store = s.store AND p.shipment_id = s.id
    WHERE s.store = :store AND s.order_id = :order
"""
_QUANTITIES = """
    SELECT id, quantity FROM order_items WHERE store = :store AND order_id = :order
"""
_ACCEPTED = "SELECT accepted FROM commands WHERE seq = :seq"


def out_by_line(
    connection: Connection,
    store: str,
    order_id: str,
    fulfilled: Mapping[str, int],
) -> dict[str, int]:
    """Return for each line how many of its `fulfilled` units are out.

    A returned parcel that does not list its units lowers no number, unless every parcel
    of the order is returned.
    """
    values = {"store": store, "order": order_id}
    rows = connection.execute(_PARCELS, values).fetchall()
    returned = {shipment for shipment, status in rows if status == "returned"}
    if rows and len(returned) == len(rows):
        return dict.fromkeys(fulfilled, 0)
    out = dict(fulfilled)
    for line, units in _units(connection, store, order_id, returned):
        out[line] = max(out.get(line, 0) - units, 0)
    return out


def _units(
    connection: Connection, store: str, order_id: str, shipments: set[str]
) -> Iterator[tuple[str, int]]:
    """Yield line and units of each row of these shipments, as the mirror has them."""
    if not shipments:
        return
    text = document_text(connection, "order", store, order_id)
    for shipment in document_of(text).get("shipments") or ():
        if shipment.get("id") in shipments:
            for item in shipment.get("items") or ():
                yield str(item.get("lineItemId")), _count(item.get("quantity"))


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def hold(connection: Connection, command: Command, order: OrderSummary) -> Hold | None:
    """Return why an operator has to decide about a command before it is sent.

    None where there is no reason, or where an operator has accepted the same reason.
    """
    if order.cancelled:
        return None
    found = _HOLDS[command.kind](connection, command, order)
    if found is None:
        return None
    (accepted,) = connection.execute(_ACCEPTED, {"seq": command.seq}).fetchone()
    return None if accepted == found.reason else found


def _fulfill(
    connection: Connection, command: Command, order: OrderSummary
) -> Hold | None:
    values = {"store": command.store, "order": order.id}
    row = connection.execute(_FINANCIAL_STATUS, values).fetchone()
    if row is None or not is_refunded(row[0]):
        return None
    return Hold(
        f"order {order.name} is refunded, but a parcel is reported for it. Nothing"
        " was sent. To fulfill the order anyway, resend the command. Otherwise"
        " discard it"
    )


def _cancel(
    connection: Connection, command: Command, order: OrderSummary
) -> Hold | None:
    if not command.payload["restock"]:
        return None
    values = {"store": command.store, "order": order.id}
    quantities = dict(connection.execute(_QUANTITIES, values).fetchall())
    # An earlier command that was sent may have shipped its units.
    shipped = {line.id: quantities[line.id] - line.left for line in order.items}
    out = sum(out_by_line(connection, command.store, order.id, shipped).values())
    if not out:
        return None
    total = sum(quantities.values())
    other = {**command.payload, "restock": False, "restock_unshipped": True}
    return Hold(
        f"{out} of {total} units of order {order.name} have shipped, and no return is"
        f" reported. But this cancellation would put {total} units back into stock."
        " If the parcels came back, resend the command: this cancels"
        f" the order and restocks {total} units. If the parcels did not come back,"
        " resend the command with --restock-unshipped: this cancels the order and"
        f" restocks {total - out} units. To keep the order, discard the command",
        other,
    )


_HOLDS = {"cancel": _cancel, "fulfill": _fulfill}
