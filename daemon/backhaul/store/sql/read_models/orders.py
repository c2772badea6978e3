"""Orders in lists, the newest first, page by page; and the parcels of one order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.store.order_lists import ListedOrder, OrderPlace, OrderTab, Parcel
from backhaul.store.sql.dialect import hint, member
from backhaul.store.sql.read_models.timeline import ORDER_NAME
from backhaul.store.sql.schema.inbox_and_mirror import (
    ORDER_PLACED,
    ORDER_STORE,
    ORDER_TAB,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.store.sql.family import Connection

_TABS: Mapping[OrderTab, str] = {
    OrderTab.UNFULFILLED: "UNFULFILLED",
    OrderTab.PARTIALLY: "PARTIALLY_FULFILLED",
    OrderTab.FULFILLED: "FULFILLED",
    OrderTab.CANCELLED: "CANCELLED",
}
"""The value of ORDER_TAB for each tab that has one."""
MOST_WAITING = 10_000
"""The open commands, and the parked ones, whose orders are listed as waiting."""
_NAME = member("o.document", "$.customer.name")
_COLUMNS = f"""
    o.store, o.id, {ORDER_NAME} AS name, o.placed_at, o.status, o.financial_status,
    o.fulfillment_status, o.cancelled_at, o.total_minor, o.currency, o.customer_id,
    coalesce((SELECT c.name FROM customers c
              WHERE c.store = o.store AND c.id = o.customer_id), {_NAME}) AS customer,
    (SELECT count(*) FROM commands c WHERE c.target = o.id AND c.store = o.store
     AND c.state IN ('planned', 'sending', 'uncertain', 'parked')) AS waiting
"""  # noqa: S608 - constants
# The first condition is that of an index: neither engine compares a row with one.
_BEFORE = f"""
    {ORDER_PLACED} <= :placed AND ({ORDER_PLACED} < :placed OR {{key}} < {{place}})
"""
_OF_STORE = f"""
    SELECT {_COLUMNS} FROM orders o
    WHERE {ORDER_STORE} = :store {{tab}} AND {_BEFORE.format(key="id", place=":id")}
    ORDER BY {ORDER_PLACED} DESC, id DESC LIMIT :limit
"""  # noqa: S608 - constants
ALL = _OF_STORE.format(tab="")
OF_TAB = _OF_STORE.format(tab=f"AND {ORDER_TAB} = :tab")
_OPEN = "state IN ('planned', 'sending', 'uncertain') AND kind IN ('fulfill', 'cancel')"
_PARKED = "state = 'parked' AND kind IN ('fulfill', 'cancel')"
_TARGETS = f"SELECT store, target FROM commands WHERE {{}} LIMIT {MOST_WAITING}"  # noqa: S608 - constants
WAITING = f"""
    SELECT {_COLUMNS} FROM (
        SELECT store, target FROM ({_TARGETS.format(_OPEN)}) AS planned
        UNION SELECT store, target FROM ({_TARGETS.format(_PARKED)}) AS parked
        UNION SELECT store, order_id FROM incidents WHERE resolved_at IS NULL
        UNION SELECT store, order_id FROM unreadable_orders) w
    {hint("CROSS")} JOIN orders o ON o.store = w.store AND o.id = w.target
    WHERE o.store = :store AND {_BEFORE.format(key="o.id", place=":id")}
    ORDER BY {ORDER_PLACED} DESC, o.id DESC LIMIT :limit
"""  # noqa: S608 - constants
OF_CUSTOMER = f"""
    SELECT {_COLUMNS} FROM orders o
    WHERE o.customer_id = :customer AND o.store = :store
    ORDER BY {ORDER_PLACED} DESC, o.id DESC LIMIT :limit
"""  # noqa: S608 - constants
_PARCELS = """
    SELECT id, tracking_company, tracking_number, shipped_at FROM shipments
    WHERE store = :store AND order_id = :id ORDER BY shipped_at, id
"""
_LAST = chr(0x10FFFF)
"""A text behind every time and id."""


def list_orders(
    connection: Connection,
    tab: OrderTab,
    stores: Iterable[str],
    limit: int,
    before: OrderPlace | None,
) -> list[ListedOrder]:
    """Return the orders of these stores after a place, the newest first.

    Each store is read on its own, from an index that begins with the store.
    """
    found = [
        ListedOrder(*row)
        for store in stores
        for row in _rows(connection, tab, store, limit, before)
    ]
    found.sort(key=lambda each: _sorted_by(each.place), reverse=True)
    return found[:limit]


def of_customer(
    connection: Connection, store: str, customer_id: str, limit: int
) -> list[ListedOrder]:
    """Return the newest orders of a customer."""
    values = {"store": store, "customer": customer_id, "limit": limit}
    return [ListedOrder(*row) for row in connection.execute(OF_CUSTOMER, values)]


def parcels(connection: Connection, store: str, id_: str) -> list[Parcel]:
    """Return the parcels of an order, the oldest first."""
    values = {"store": store, "id": id_}
    return [Parcel(*row) for row in connection.execute(_PARCELS, values)]


def _sorted_by(place: OrderPlace) -> tuple[str, str, str]:
    return place.placed_at, place.store, place.id


def _rows(
    connection: Connection,
    tab: OrderTab,
    store: str,
    limit: int,
    before: OrderPlace | None,
) -> list[Any]:
    values: dict[str, Any] = {"store": store, "limit": limit}
    values |= _bounds(store, before)
    if tab is OrderTab.WAITING:
        return connection.execute(WAITING, values).fetchall()
    if tab is OrderTab.ALL:
        return connection.execute(ALL, values).fetchall()
    return connection.execute(OF_TAB, values | {"tab": _TABS[tab]}).fetchall()


def _bounds(store: str, before: OrderPlace | None) -> dict[str, str]:
    """Return the time and id that all orders of a store after a place are below."""
    if before is None:
        return {"placed": _LAST, "id": _LAST}
    if store == before.store:
        return {"placed": before.placed_at, "id": before.id}
    # Of equal times, the orders of the stores that sort before come later.
    return {"placed": before.placed_at, "id": _LAST if store < before.store else ""}
