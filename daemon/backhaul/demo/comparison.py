"""Compares the store's rows with the daemon's and explains every difference."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core.clock import from_text
from backhaul.demo.back_office_checks import (
    check_counts,
    check_deliveries,
    check_received,
    check_tryton,
)
from backhaul.demo.daemon_rows import Finding, Kind
from backhaul.demo.effect_checks import (
    StoreBooks,
    check_causes,
    check_commands,
    check_strays,
)
from backhaul.demo.mirror_checks import check_mirror

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backhaul.demo.back_office_checks import TrytonBooks
    from backhaul.demo.daemon_rows import Cause, DaemonRows, Placement
    from backhaul.demo.mirror_checks import State
    from backhaul.demo.workers import ReceivedByErp


class Latency(Struct, frozen=True):
    """How long something took, in seconds, over `count` cases."""

    count: int
    p50: float
    p99: float


class ComparisonReport(Struct, frozen=True):
    """What was compared, and everything that does not agree.

    `mirrored` runs from an order's `createdAt` at the store to when the daemon folded
    it, `fulfilled` from the daemon's receipt for a scan to the store's answer to the
    command.
    """

    orders: int
    commands: int
    findings: tuple[Finding, ...]
    mirrored: Latency
    fulfilled: Latency

    def of(self, kind: Kind) -> list[Finding]:
        """Return the findings of one kind."""
        return [finding for finding in self.findings if finding.kind is kind]

    def balances(self, *, may_park: bool = False) -> bool:
        """Tell whether nothing is wrong.

        A parked command is right only where a program was killed: `may_park`.
        """
        wrong = {finding.kind for finding in self.findings}
        return not wrong - ({Kind.PARKED} if may_park else set())


def compare_sides(
    state: State,
    books: DaemonRows,
    causes: Sequence[Cause],
    placements: Sequence[Placement] | None = None,
    told: ReceivedByErp | None = None,
    tryton: TrytonBooks | None = None,
) -> ComparisonReport:
    """Compare the store, the mirror and the back office.

    `placements` are the orders that shoppers placed, if known. `told` is what an ERP
    received and `tryton` what Tryton holds; None without an ERP or Tryton.
    """
    store = StoreBooks(state)
    found = chain(
        check_mirror(state, books),
        check_commands(store, books),
        check_causes(store, books, causes),
        check_counts(state, books, causes),
        check_strays(store, books),
        _check_set_aside(books),
        check_deliveries(books),
        _check_stock(state, store),
        [] if placements is None else _check_placements(store, placements),
        [] if told is None else check_received(store.orders, books, told),
        [] if tryton is None else check_tryton(state, books, tryton),
    )
    return ComparisonReport(
        orders=len(store.orders),
        commands=len(books.commands),
        findings=tuple(found),
        mirrored=_latency(_sightings(store, books)),
        fulfilled=_latency((row["began"], row["ended"]) for row in books.scans),
    )


def compare_effects(state: State, books: DaemonRows) -> list[Finding]:
    """Compare only commands, what they left at the store, and its stock."""
    store = StoreBooks(state)
    return [
        *check_commands(store, books),
        *check_strays(store, books),
        *_check_stock(state, store),
    ]


def _check_set_aside(books: DaemonRows) -> Iterator[Finding]:
    for row in books.set_aside:
        what = f"{row['state']}: {row['reason']}"
        yield Finding(Kind.UNEXPECTED, row["name"], what)


def _check_placements(
    store: StoreBooks, placements: Sequence[Placement]
) -> Iterator[Finding]:
    """Hold the store to its word: a shopper may have tried twice, but bought once."""
    for placed in placements:
        order = store.orders.get(placed.order_id)
        name = f"order #{placed.number}"
        if order is None:
            yield Finding(Kind.LOST, name, "was placed, the store has forgotten it")
        elif _lines(order["items"]) != placed.lines:
            yield Finding(Kind.DIFFERING, name, "holds not what the shopper ordered")
    told = Counter(placed.order_id for placed in placements)
    for order_id, order in store.orders.items():
        if told[order_id] != 1:
            what = f"belongs to {told[order_id]} shoppers"
            yield Finding(Kind.UNEXPECTED, f"order {order['name']}", what)


def _lines(items: Iterable[dict[str, str | int]]) -> dict[str, int]:
    units = Counter[str]()
    for item in items:
        units[str(item["variantId"])] += int(item["quantity"])
    return dict(units)


def _check_stock(state: State, store: StoreBooks) -> Iterator[Finding]:
    """Calculate every stock level from orders, restocks and adjustments."""
    expected = Counter[str]()
    for entry in store.history:
        if entry["reason"] not in {"ORDER_PLACED", "ORDER_CANCELLED"}:
            expected[entry["variantId"]] += entry["adjustment"]
    for order in store.orders.values():
        for item in order["items"]:
            left = item["quantity"] - item["restockedQuantity"]
            expected[item["variantId"]] -= left
    for level in state["levels"]:
        if level["stock"] != (should := expected[level["variantId"]]):
            what = f"is {level['stock']}, the work done leaves {should}"
            yield Finding(Kind.DIFFERING, f"stock of {level['sku']}", what)


def _sightings(store: StoreBooks, books: DaemonRows) -> Iterator[tuple[str, str]]:
    for row in books.sightings:
        if (order := store.orders.get(row["order_id"])) is not None:
            yield order["createdAt"], row["folded_at"]


def _latency(spans: Iterable[tuple[str, str]]) -> Latency:
    seconds = sorted(
        (from_text(ended) - from_text(began)).total_seconds() for began, ended in spans
    )
    if not seconds:
        return Latency(0, 0.0, 0.0)
    last = len(seconds) - 1
    return Latency(len(seconds), seconds[last // 2], seconds[round(last * 0.99)])
