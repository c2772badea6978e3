"""Holds what back offices were told against the store's own books."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from backhaul.core.lifecycle import OPEN, State
from backhaul.demo.findings import Finding, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backhaul.demo.books import Books, Row
    from backhaul.demo.erp import Told


def check_told(orders: Mapping[str, Row], told: Told) -> Iterator[Finding]:
    """Yield orders and news that the ERP lacks, has twice, or that are not so."""
    rows = {row["order_id"]: row for row in told.orders}
    for order_id, order in orders.items():
        row, name = rows.pop(order_id, None), f"order {order['name']} in the ERP"
        if row is None:
            yield Finding(Kind.LOST, name, "is at the store, not there")
        elif row["number"] != order["number"] or _is_off(row) != _is_off(order):
            what = f"is {row['number']} {row['status']}, not {order['status']}"
            yield Finding(Kind.DIFFERING, name, what)
    for order_id in rows:
        yield Finding(Kind.UNEXPECTED, f"order {order_id} in the ERP", "is not ours")
    yield from _check_news(orders, told)


def _is_off(order: Row) -> bool:
    """Tell whether an order is cancelled: the ERP is told of no other change."""
    return bool(order["status"] == "CANCELLED")


def _check_news(orders: Mapping[str, Row], told: Told) -> Iterator[Finding]:
    """Each order is placed once, and cancelled once if it is."""
    heard = Counter((row["topic"], row["order_id"]) for row in told.news)
    due = {("order.placed", order_id) for order_id in orders}
    due |= {("order.cancelled", key) for key in orders if orders[key]["cancellation"]}
    for topic, order_id in sorted(due - heard.keys()):
        yield Finding(Kind.LOST, f"{topic} of {order_id}", "the ERP was not told")
    for (topic, order_id), times in sorted(heard.items()):
        if (topic, order_id) not in due:
            yield Finding(Kind.UNEXPECTED, f"{topic} of {order_id}", "is not so")
        elif times > 1:
            yield Finding(Kind.DOUBLED, f"{topic} of {order_id}", f"told {times} times")


def check_deliveries(books: Books) -> Iterator[Finding]:
    """Yield news that did not get through to whoever is told of them."""
    for row in books.deliveries:
        name = f"{row['topic']} of {row['object_id']} to {row['instance']}"
        if row["state"] == State.PARKED:
            yield Finding(Kind.PARKED, name, row["reason"])
        elif row["state"] == State.REJECTED:
            yield Finding(Kind.LOST, name, f"was rejected: {row['reason']}")
        elif row["state"] in OPEN:
            yield Finding(Kind.DIFFERING, name, f"is still {row['state']}")
