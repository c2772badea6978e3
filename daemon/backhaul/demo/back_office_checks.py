"""Compares ERP, counts and Tryton sales with the store's own books."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core.lifecycle import OPEN, State
from backhaul.demo.daemon_rows import Finding, Kind
from backhaul.demo.demo_folder import TRYTON

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from backhaul.demo.daemon_rows import Cause, DaemonRows, Row
    from backhaul.demo.mirror_checks import State as StoreState
    from backhaul.demo.workers import ReceivedByErp


NOT_TOLD = "the ERP was not told"


def check_received(
    orders: Mapping[str, Row], books: DaemonRows, told: ReceivedByErp
) -> Iterator[Finding]:
    """Yield orders and news that the ERP lacks, has twice, or that are not so."""
    placed = _planned_for(books, lambda instance: instance != TRYTON)
    placed |= {row["order_id"] for row in told.news}
    # An order that is cancelled before its turn in the change feed has no news.
    due = {
        order_id: order
        for order_id, order in orders.items()
        if order_id in placed or not _is_off(order)
    }
    rows = {row["order_id"]: row for row in told.orders}
    for order_id, order in due.items():
        row, name = rows.pop(order_id, None), f"order {order['name']} in the ERP"
        if row is None:
            yield Finding(Kind.LOST, name, "is at the store, not there")
        elif row["number"] != order["number"] or _is_off(row) != _is_off(order):
            what = f"is {row['number']} {row['status']}, not {order['status']}"
            yield Finding(Kind.DIFFERING, name, what)
    for order_id in rows:
        yield Finding(Kind.UNEXPECTED, f"order {order_id} in the ERP", "is not ours")
    yield from _check_notifications(due, told)


def _planned_for(books: DaemonRows, concerns: Callable[[str], bool]) -> set[str]:
    """Return the orders for which some connectors have an `order.placed`."""
    return {
        row["object_id"]
        for row in books.deliveries
        if row["topic"] == "order.placed" and concerns(row["instance"])
    }


def _is_off(order: Row) -> bool:
    """Return whether an order is cancelled, the only change that the ERP receives."""
    return bool(order["status"] == "CANCELLED")


def _check_notifications(
    orders: Mapping[str, Row], told: ReceivedByErp
) -> Iterator[Finding]:
    """Each order is placed once, and cancelled once if it is."""
    heard = Counter((row["topic"], row["order_id"]) for row in told.news)
    due = {("order.placed", order_id) for order_id in orders}
    due |= {("order.cancelled", key) for key in orders if orders[key]["cancellation"]}
    for topic, order_id in sorted(due - heard.keys()):
        yield Finding(Kind.LOST, f"{topic} of {order_id}", NOT_TOLD)
    for (topic, order_id), times in sorted(heard.items()):
        if (topic, order_id) not in due:
            yield Finding(Kind.UNEXPECTED, f"{topic} of {order_id}", "is not so")
        elif times > 1:
            yield Finding(Kind.DOUBLED, f"{topic} of {order_id}", f"told {times} times")


def check_deliveries(books: DaemonRows) -> Iterator[Finding]:
    """Yield news that did not reach their connector."""
    for row in books.deliveries:
        name = f"{row['topic']} of {row['object_id']} to {row['instance']}"
        if row["state"] == State.PARKED:
            yield Finding(Kind.PARKED, name, row["reason"])
        elif row["state"] == State.REJECTED:
            yield Finding(Kind.LOST, name, f"was rejected: {row['reason']}")
        elif row["state"] in OPEN:
            yield Finding(Kind.DIFFERING, name, f"is still {row['state']}")


COUNT = "target"
"""The kind of a command that says how much there is; its steps are commands too."""


def is_of_count(command: Row) -> bool:
    """Tell whether a command is a count, or a step that one became."""
    return command["kind"] == COUNT or "target" in json.loads(command["payload"])


def is_of_tryton(command: Row) -> bool:
    """Tell whether a command is a count of Tryton's, which nobody enters."""
    cause: str = command["cause"]
    return command["kind"] == COUNT and cause.startswith(f"record {TRYTON} ")


def check_counts(
    state: StoreState, books: DaemonRows, causes: Sequence[Cause]
) -> Iterator[Finding]:
    """Yield counts that were not heard once, and levels that are not as counted."""
    counted = [cause for cause in causes if cause.kind == COUNT]
    heard: dict[str, list[Row]] = defaultdict(list)
    for command in books.commands:
        if command["kind"] == COUNT and not is_of_tryton(command):
            heard[command["cause"]].append(command)
    newest = {cause.sku: cause for cause in sorted(counted, key=_moment)}
    replaced = {row["cause"] for row in books.replaced}
    for cause in counted:
        name = f"record {cause.instance} {cause.locator}"
        found = heard.pop(name, [])
        if found or name not in replaced or cause is newest[cause.sku]:
            yield from _check_count(cause, found)
    for strays in heard.values():
        for stray in strays:
            yield Finding(Kind.UNEXPECTED, _name(stray), "nobody counted")
    for cause in newest.values():
        yield from _check_level(state, books, cause)


def _check_count(cause: Cause, commands: Sequence[Row]) -> Iterator[Finding]:
    if not commands and cause.acknowledged:
        yield Finding(Kind.LOST, str(cause), "became no command")
    elif len(commands) > 1:
        yield Finding(Kind.DOUBLED, str(cause), f"became {len(commands)} commands")
    for command in commands:
        yield from check_standing(command, str(cause))
        said = json.loads(command["payload"])["quantity"]
        if said != cause.quantity:
            what = f"is {said}, not {cause.quantity}"
            yield Finding(Kind.DIFFERING, str(cause), what)


def check_standing(command: Row, cause: str) -> Iterator[Finding]:
    """Yield a count that was refused, or that nothing came of yet."""
    state, reason = command["state"], command["reason"]
    if state == State.REJECTED:
        yield Finding(Kind.LOST, cause, f"is {state}: {reason}")
    elif state == State.PARKED:
        yield Finding(Kind.PARKED, _name(command), reason)
    elif state in OPEN:
        yield Finding(Kind.DIFFERING, _name(command), f"is still {state}: {reason}")


def _check_level(
    state: StoreState, books: DaemonRows, cause: Cause
) -> Iterator[Finding]:
    """Calculate the level from the count and what was sold and returned since."""
    asked_at = _returns(books)
    should = cause.quantity + sum(
        entry["adjustment"]
        for entry in state["history"]
        if entry["sku"] == cause.sku and _is_notification(entry, asked_at, cause)
    )
    for level in state["levels"]:
        if level["sku"] == cause.sku and level["stock"] != should:
            what = f"is {level['stock']}, the {cause} leaves {should}"
            yield Finding(Kind.DIFFERING, f"counted stock of {cause.sku}", what)


def _is_notification(entry: Row, asked_at: Mapping[str, str], cause: Cause) -> bool:
    """Tell whether the one who counted could not know of it.

    What we were asked to put back before the count was on the shelf then, whenever the
    store heard of it; after a restore it may be asked for again, long after it was put
    back.
    """
    if entry["reason"] == "ORDER_CANCELLED" and entry["orderId"] in asked_at:
        first = min(asked_at[entry["orderId"]], str(entry["createdAt"]))
        return first > cause.counted_at
    sold = entry["reason"] == "ORDER_PLACED"
    return sold and bool(entry["createdAt"] >= cause.counted_at)


def _returns(books: DaemonRows) -> dict[str, str]:
    """Return when each cancellation was asked for, by its order."""
    asked: dict[str, str] = {}
    for command in books.commands:
        if command["kind"] == "cancel":
            at = command["caused_at"] or command["created_at"]
            asked[command["target"]] = at
    return asked


def _moment(cause: Cause) -> tuple[str, int]:
    """Order counts of one moment by the numbers of their rows, if they have any."""
    number = cause.locator.rpartition(" ")[2]
    return cause.counted_at, int(number) if number.isdecimal() else 0


def _name(command: Row) -> str:
    return f"count {command['id'][:8]} for {command['target']}"


class Sale(Struct, frozen=True):
    """A sale in Tryton; `reference` is the store's order, `units` are by SKU."""

    reference: str
    state: str
    units: Mapping[str, int]


class TrytonBooks(Struct, frozen=True):
    """What Tryton holds: its sales, and by SKU how many goods are in the house."""

    sales: Sequence[Sale]
    on_hand: Mapping[str, int]


def check_tryton(
    state: StoreState, books: DaemonRows, tryton: TrytonBooks
) -> Iterator[Finding]:
    """Yield sales that are missing, doubled or not so, and levels that are not."""
    told = _planned_for(books, lambda instance: instance == TRYTON)
    yield from _check_sales(state["orders"], tryton.sales, told)
    for command in books.commands:
        if is_of_tryton(command):
            yield from check_standing(command, command["cause"])
    yield from _check_levels(state, tryton.on_hand)


def _check_sales(
    orders: Sequence[Row], sales: Sequence[Sale], told: Collection[str]
) -> Iterator[Finding]:
    """Compare; what was cancelled before Tryton was `told` of it never was a sale."""
    found: dict[str, list[Sale]] = defaultdict(list)
    for sale in sales:
        found[sale.reference].append(sale)
    for order in orders:
        name, mine = f"order {order['name']} in Tryton", found.pop(order["id"], [])
        if not mine and (order["id"] in told or order["status"] != "CANCELLED"):
            yield Finding(Kind.LOST, name, "is at the store, not there")
        elif len(mine) > 1:
            yield Finding(Kind.DOUBLED, name, f"is {len(mine)} sales")
        elif mine:
            yield from _check_sale(name, order, mine[0])
    for reference in found:
        yield Finding(Kind.UNEXPECTED, f"sale of {reference}", "is no order's")


def _check_sale(name: str, order: Row, sale: Sale) -> Iterator[Finding]:
    is_off = order["status"] == "CANCELLED"
    if is_off != (sale.state == "cancelled"):
        what = f"is {sale.state}, {order['status']} at the store"
        yield Finding(Kind.DIFFERING, name, what)
    ordered = Counter[str]()
    for item in order["items"]:
        ordered[item["sku"]] += item["quantity"]
    if sale.units != ordered:
        what = f"is {dict(sale.units)}, not {dict(ordered)}"
        yield Finding(Kind.DIFFERING, name, what)


def _check_levels(state: StoreState, on_hand: Mapping[str, int]) -> Iterator[Finding]:
    """Calculate each level: what is in the house, and not sold to somebody."""
    sold = Counter[str]()
    for order in state["orders"]:
        if order["status"] != "CANCELLED":
            for item in order["items"]:
                sold[item["sku"]] += item["quantity"] - item["fulfilledQuantity"]
    levels = {level["sku"]: level["stock"] for level in state["levels"]}
    for sku, quantity in on_hand.items():
        if levels.get(sku) != (should := quantity - sold[sku]):
            what = f"is {levels.get(sku)}, {quantity} in the house leave {should}"
            yield Finding(Kind.DIFFERING, f"Tryton's stock of {sku}", what)
