"""Tests of the stock ledger: one row for each move, however often it is reported."""

# ruff: noqa: S101, S311 - these are tests, which assert, and repeat their sequences

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pytest
from msgspec.structs import replace

from backhaul.core.resources import Level, StockChange, StockMove
from backhaul.store.inbox import Folded
from backhaul.store.testing.event_scenes import append, fold_all_with, in_fold
from backhaul.store.testing.mirror_scenes import rows_of, show_order, show_product
from backhaul.store.testing.scenes import MirrorTests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent

AT = "2026-03-01T12:00:01.000Z"
COLUMNS = ("adjustment", "stock_after", "reason", "cause", "adjustment_id")
SEEDS = range(60)
Report: TypeAlias = tuple[StockChange, str]
"""A change as it is reported, and the id of the event that reports it."""


def change(
    id_: str | None = "adj_1",
    delta: int = -2,
    stock: int = 10,
    *,
    reason: str = "ORDER_PLACED",
    order: str | None = "ord_1",
    at: str = AT,
    variant: str = "var_1",
) -> StockChange:
    """Return a change of one variant of `prod_1`."""
    move = StockMove(Level("prod_1", variant, stock), delta, reason)
    return StockChange(id_, "prod_1", order, at, (move,))


async def add(
    store: Store, *reports: StockChange | Report, name: str = "main"
) -> list[bool]:
    """Add reports to the ledger, each in a fold of its own; return what was new."""
    found = []
    for each in reports:
        report = (each, "") if isinstance(each, StockChange) else each
        found.append(await add_one(store, name, *report))
    return found


async def add_one(store: Store, name: str, moved: StockChange, event_id: str) -> bool:
    """Add a report to the ledger; return whether it was new."""
    return await in_fold(store, lambda m, _: m.add_moves(name, moved, event_id), name)


async def add_all(store: Store, name: str, reports: Sequence[Report]) -> None:
    """Add many reports to the ledger, each by an event of its own."""
    waiting = iter(reports)

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        reported, event_id = next(waiting)
        mirror.add_moves(name, reported, event_id)
        return Folded("folded", event.topic)

    await append(store, *["{}" for _ in reports], name=name)
    await fold_all_with(store, fold)


def ledger(store: Store, name: str = "main") -> list[tuple[Any, ...]]:
    """Return the rows of the ledger, in the order of their writing."""
    return rows_of(store, "stock_ledger", *COLUMNS, store=name)


def sorted_ledger(store: Store, name: str) -> list[tuple[Any, ...]]:
    """Return the moves of a store in an order of their own."""
    columns = ("variant_id", "at", *COLUMNS)
    return sorted(rows_of(store, "stock_ledger", *columns, store=name), key=repr)


class Real(NamedTuple):
    """A move as it was, and who reports it."""

    change: StockChange
    event: str
    by_webhook: bool
    by_history: bool


class Platform(NamedTuple):
    """How a platform reports moves: its clock, and what its webhooks leave out.

    A platform that reports orders reports reasons too. Otherwise a webhook without an
    order could mean that there is none, or that it was left out.
    """

    whole_seconds: bool
    has_events: bool
    has_orders: bool
    has_reasons: bool
    has_changes: bool

    def webhook(self, real: Real) -> Report:
        """Return what the webhook of a move says, and the event's id."""
        (move,) = real.change.moves
        left = replace(
            move,
            reason=move.reason if self.has_reasons or self.has_orders else "",
            adjustment=move.adjustment if self.has_changes else 0,
        )
        order = real.change.order_id if self.has_orders else None
        reported = replace(
            real.change, adjustment_id=None, order_id=order, moves=(left,)
        )
        return reported, real.event if self.has_events else ""

    def reports(self, moves: Iterable[Real]) -> list[Report]:
        """Return all reports of these moves: the webhooks, then the history."""
        webhooks = [self.webhook(each) for each in moves if each.by_webhook]
        return webhooks + [(each.change, "") for each in moves if each.by_history]


CAUSES = [("ORDER_PLACED", "ord_1"), ("ORDER_PLACED", "ord_2"), ("CORRECTION", None)]
REPORTERS = [(True, True), (True, False), (False, True)]


def trade(chance: random.Random) -> tuple[Platform, list[Real]]:
    """Let two variants go up and down; many moves look alike in whole seconds."""
    platform = Platform(*(chance.random() < 0.5 for _ in range(5)))
    stock = {"var_1": 5, "var_2": 5}
    moves: list[Real] = []
    for number in range(chance.randint(1, 9)):
        variant = chance.choice(sorted(stock))
        delta = chance.choice((-1, 1))
        stock[variant] += delta
        reason, order = chance.choice(CAUSES)
        step = chance.randint(0, 1)
        second, milli = (step, 0) if platform.whole_seconds else (0, number + 1)
        moved = change(
            f"adj_{number}",
            delta,
            stock[variant],
            reason=reason,
            order=order,
            at=f"2026-03-01T12:00:0{second}.{milli:03}Z",
            variant=variant,
        )
        moves.append(Real(moved, f"evt_{number}", *chance.choice(REPORTERS)))
    return platform, moves


def shuffled(chance: random.Random, reports: Sequence[Report]) -> list[Report]:
    """Return reports in any order, some of them several times."""
    again = [chance.choice(reports) for _ in range(chance.randint(0, 6))]
    found = [*reports, *again]
    chance.shuffle(found)
    return found


def row_of(moved: StockChange) -> tuple[Any, ...]:
    """Return the row of a move that the history reports."""
    (move,) = moved.moves
    place = (move.level.variant_id, moved.updated_at, move.adjustment, move.level.stock)
    cause = moved.order_id or moved.adjustment_id
    return (*place, move.reason, cause, moved.adjustment_id)


KNOWN = (-2, 10, "ORDER_PLACED", "ord_1", "adj_1")
NAMELESS = (-2, 10, "ORDER_PLACED", "ord_1", None)
LEAVE_OUT: dict[str, Callable[[], StockChange]] = {
    "nothing but the id": lambda: change(None),
    "the reason": lambda: change(None, reason=""),
    "the order": lambda: change(None, order=None),
    "the reason and the order": lambda: change(None, reason="", order=None),
    "the change": lambda: change(None, 0),
}
OTHERS: dict[str, StockChange] = {
    "reason": change(reason="RETURN"),
    "order": change(order="ord_2"),
    "change": change(delta=-3),
    "stock": change(stock=9),
    "time": change(at="2026-03-01T12:00:02.000Z"),
    "no order": change(order=None),
    "variant": change(variant="var_2"),
}


class StockLedgerConformance(MirrorTests):
    """Tests of `MirrorWriter.add_moves`, `Mirror.unknown_moves` and the ledger."""

    async def test_a_move_has_all_its_columns(self, store: Store) -> None:
        moved = StockChange(
            *("adj_1", "prod_1", "ord_1", AT),
            (
                StockMove(Level("prod_1", "var_1", 10), -2, "ORDER_PLACED"),
                StockMove(Level("prod_1", "var_2", -1), -3, ""),
            ),
        )
        assert await add(store, moved) == [True]
        columns = ("store", "product_id", "variant_id", "at", *COLUMNS)
        place = ("main", "prod_1")
        assert rows_of(store, "stock_ledger", *columns) == [
            (*place, "var_1", AT, -2, 10, "ORDER_PLACED", "ord_1", "adj_1"),
            (*place, "var_2", AT, -3, -1, "", "ord_1", "adj_1"),
        ]

    async def test_a_move_without_an_order_has_its_adjustment_as_cause(
        self, store: Store
    ) -> None:
        await add(store, change(order=None))
        assert ledger(store) == [(-2, 10, "ORDER_PLACED", "adj_1", "adj_1")]

    async def test_an_adjustment_is_one_move(self, store: Store) -> None:
        assert await add(store, change(), change(at=AT, stock=99)) == [True, False]
        assert ledger(store) == [KNOWN]
        assert await add(store, change(), name="other") == [True]

    async def test_a_further_variant_of_a_known_adjustment_is_added(
        self, store: Store
    ) -> None:
        both = replace(
            change(), moves=(*change().moves, *change(variant="var_2").moves)
        )
        assert await add(store, change(), both, both) == [True, True, False]
        assert ledger(store) == [KNOWN, KNOWN]

    @pytest.mark.parametrize("history_is_first", [False, True])
    @pytest.mark.parametrize("left_out", LEAVE_OUT)
    async def test_the_history_names_the_move_that_a_webhook_did_not(
        self, left_out: str, history_is_first: bool, store: Store
    ) -> None:
        reports = [LEAVE_OUT[left_out](), change()]
        if history_is_first:
            reports.reverse()
        assert await add(store, *reports) == [True, False]
        assert ledger(store) == [KNOWN]

    @pytest.mark.parametrize("other", OTHERS)
    async def test_a_report_that_differs_is_another_move(
        self, other: str, store: Store
    ) -> None:
        assert await add(store, change(None), OTHERS[other]) == [True, True]
        assert len(ledger(store)) == 2

    async def test_the_same_webhook_in_other_bytes_is_one_move(
        self, store: Store
    ) -> None:
        same = (change(None), "evt_1")
        assert await add(store, same, same) == [True, False]
        nameless = (change(None, stock=9), "")
        assert await add(store, nameless, nameless) == [True, False]
        assert len(ledger(store)) == 2

    async def test_a_millisecond_identifies_a_move(self, store: Store) -> None:
        moved = change(None, at="2026-03-01T12:00:01.234Z")
        found = await add(store, (moved, "evt_1"), (moved, "evt_2"))
        assert found == [True, False]

    async def test_two_events_of_one_whole_second_are_two_moves(
        self, store: Store
    ) -> None:
        """Goods left, came back and left again within one second."""
        events = [(change(None), "evt_1"), (change(None), "evt_2")]
        assert await add(store, *events, *events) == [True, True, False, False]
        assert ledger(store) == [NAMELESS, NAMELESS]
        assert await add(store, change()) == [False]
        assert ledger(store) == [KNOWN, NAMELESS]
        assert await add(store, change("adj_2"), change("adj_3")) == [False, True]
        ids = [row[-1] for row in ledger(store)]
        assert ids == ["adj_1", "adj_2", "adj_3"]
        assert await add(store, *events) == [False, False]

    async def test_any_order_and_repetition_gives_the_same_ledger(
        self, store: Store
    ) -> None:
        for seed in SEEDS:
            chance = random.Random(seed)
            platform, moves = trade(chance)
            reports = platform.reports(moves)
            await add_all(store, f"once_{seed}", reports)
            await add_all(store, f"again_{seed}", shuffled(chance, reports))
            once = sorted_ledger(store, f"once_{seed}")
            assert sorted_ledger(store, f"again_{seed}") == once, seed

    async def test_a_complete_history_is_the_ledger(self, store: Store) -> None:
        for seed in SEEDS:
            chance = random.Random(seed)
            platform, moves = trade(chance)
            moves = [each._replace(by_history=True) for each in moves]
            name = f"store_{seed}"
            await add_all(store, name, shuffled(chance, platform.reports(moves)))
            expected = sorted((row_of(each.change) for each in moves), key=repr)
            assert sorted_ledger(store, name) == expected, seed

    async def test_webhooks_alone_merge_no_moves_that_differ(
        self, store: Store
    ) -> None:
        for seed in SEEDS:
            chance = random.Random(seed)
            platform, moves = trade(chance)
            has_events = platform.has_events or platform.whole_seconds
            platform = platform._replace(has_events=has_events)
            moves = [each._replace(by_webhook=True, by_history=False) for each in moves]
            name = f"store_{seed}"
            await add_all(store, name, shuffled(chance, platform.reports(moves)))
            assert len(sorted_ledger(store, name)) == len(moves), seed

    async def test_moves_that_the_ledger_lacks_are_named(self, store: Store) -> None:
        await add(store, change(), change("adj_2", variant="var_2"), change(None))
        asked = [("adj_1", "var_1"), ("adj_1", "var_2"), ("adj_3", "var_1")]
        found = await store.mirror.unknown_moves("main", asked)
        assert found == {("adj_1", "var_2"), ("adj_3", "var_1")}
        assert await store.mirror.unknown_moves("other", asked) == set(asked)
        assert await store.mirror.unknown_moves("main", []) == set()

    async def test_the_view_of_moves_names_article_and_order(
        self, store: Store
    ) -> None:
        await show_product(store)
        await show_order(store, "ord_1")
        await add(store, change(), change("adj_2", order=None))
        columns = ("sku", "product", "variant", "adjustment", "order_name", "cause")
        assert rows_of(store, "stock_moves", *columns) == [
            ("SKU-1", "Lamp", "small", -2, "#1001", "ord_1"),
            ("SKU-1", "Lamp", "small", -2, None, "adj_2"),
        ]

    async def test_the_timeline_names_a_move_that_may_be_reported_twice(
        self, store: Store
    ) -> None:
        await show_product(store)
        later = change(None, at="2026-03-01T12:00:09.000Z")
        await add(store, (change(None), "evt_1"), (change(None), "evt_2"))
        await add(store, change(), later)
        found = await store.read(lambda reader: reader.find_objects("sku", "SKU-1"))
        entries = await store.read(lambda reader: reader.timeline("sku", found[0]))
        said = [each.detail for each in entries if each.what == "stock"]
        moved = "now 10, ORDER_PLACED by ord_1"
        without = f"{moved}, reported without an id"
        twice = ": it may be another movement of the same time, reported twice"
        assert sorted(map(str, said)) == sorted([moved, without + twice, without])
