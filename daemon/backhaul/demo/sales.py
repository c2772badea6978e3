"""Holds Tryton's sales and goods against the store's own books."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.demo.counts import check_standing, is_of_tryton
from backhaul.demo.findings import Finding, Kind
from backhaul.demo.home import TRYTON

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from backhaul.demo.books import Books, Row
    from backhaul.demo.mirrored import State as StoreState


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
    state: StoreState, books: Books, tryton: TrytonBooks
) -> Iterator[Finding]:
    """Yield sales that are missing, doubled or not so, and levels that are not."""
    told = {row["object_id"] for row in books.deliveries if _is_placing(row)}
    yield from _check_sales(state["orders"], tryton.sales, told)
    for command in books.commands:
        if is_of_tryton(command):
            yield from check_standing(command, command["cause"])
    yield from _check_levels(state, tryton.on_hand)


def _is_placing(delivery: Row) -> bool:
    return (delivery["instance"], delivery["topic"]) == (TRYTON, "order.placed")


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
    """Reckon each level: what is in the house, and not sold to somebody."""
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
