"""The stock ledger is the same in any order and repetition of its sources."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from backhaul.core.resources import Level, StockChange, StockMove
from backhaul.store.sql.mirror.stock_ledger import Ledger
from backhaul.store.sqlite.connections import Connection
from scenes.databases import make_database, rows

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class RealMove:
    """A real stock movement, and which source reports it."""

    change: StockChange
    event: str
    by_webhook: bool
    by_history: bool


@dataclass(frozen=True)
class ReportingStyle:
    """How a platform reports movements: its clock, and what its webhooks omit.

    A platform that reports orders reports reasons too. Otherwise a delivery without an
    order would be ambiguous.
    """

    whole_seconds: bool
    has_events: bool
    has_orders: bool
    has_reasons: bool
    has_changes: bool

    def webhook(self, real: RealMove) -> tuple[StockChange, str]:
        """Return the change in the webhook, and the event's id."""
        (move,) = real.change.moves
        left = structs.replace(
            move,
            reason=move.reason if self.has_reasons or self.has_orders else "",
            adjustment=move.adjustment if self.has_changes else 0,
        )
        order = real.change.order_id if self.has_orders else None
        reported = structs.replace(
            real.change, adjustment_id=None, order_id=order, moves=(left,)
        )
        return reported, real.event if self.has_events else ""


CAUSES = [("ORDER_PLACED", "ord_1"), ("ORDER_PLACED", "ord_2"), ("CORRECTION", None)]


@st.composite
def trade(draw: st.DrawFn) -> tuple[ReportingStyle, list[RealMove]]:
    """Change the stock of two variants; many movements are equal in whole seconds."""
    style = ReportingStyle(*(draw(st.booleans()) for _ in range(5)))
    stock = {"var_1": 5, "var_2": 5}
    real: list[RealMove] = []
    for number in range(draw(st.integers(1, 9))):
        variant = draw(st.sampled_from(sorted(stock)))
        delta = draw(st.sampled_from((-1, 1)))
        stock[variant] += delta
        reason, order = draw(st.sampled_from(CAUSES))
        step = draw(st.integers(0, 1))
        second, milli = (step, 0) if style.whole_seconds else (0, number + 1)
        change = StockChange(
            adjustment_id=f"adj_{number}",
            product_id="prod_1",
            order_id=order,
            updated_at=f"2026-03-01T12:00:0{second}.{milli:03}Z",
            moves=(StockMove(Level("prod_1", variant, stock[variant]), delta, reason),),
        )
        reported = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
        real.append(RealMove(change, f"evt_{number}", *reported))
    return style, real


Told = tuple[StockChange, str]
SLICES = st.sampled_from([1, 3, 256])


def reports(style: ReportingStyle, real: Sequence[RealMove]) -> list[Told]:
    webhooks = [style.webhook(one) for one in real if one.by_webhook]
    return webhooks + [(one.change, "") for one in real if one.by_history]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("schema") / "backhaul.db"
    make_database(path)
    query = "SELECT sql FROM sqlite_master WHERE tbl_name = 'stock_ledger' AND sql > ''"
    return ";".join(sql for (sql,) in rows(path, query))


def ledger_of(
    schema: str, reported: Sequence[Told], in_a_slice: int = 1
) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:", factory=Connection)) as connection:
        connection.executescript(schema)
        ledger = Ledger(connection)
        for number, (change, event) in enumerate(reported, 1):
            ledger.add("main", change, event)
            if number % in_a_slice == 0:
                ledger.flush()
        ledger.flush()
        return connection.execute(
            "SELECT variant_id, at, adjustment, stock_after, reason, cause,"
            " adjustment_id FROM stock_ledger ORDER BY 1, 2, 3, 4, 5, 6, 7"
        ).fetchall()


def row_of(change: StockChange) -> tuple[Any, ...]:
    (move,) = change.moves
    return (
        *(move.level.variant_id, change.updated_at, move.adjustment, move.level.stock),
        *(move.reason, change.order_id or change.adjustment_id, change.adjustment_id),
    )


@pytest.mark.parametrize("id_", [None, "adj_1"])
def test_a_move_is_looked_up_by_its_time_among_many(
    id_: str | None, schema: str
) -> None:
    move = StockMove(Level("prod_1", "var_1", 5), -1, "CORRECTION")
    times = [
        f"2026-03-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}.500Z"
        for n in range(5_000)
    ]
    changes = [StockChange(None, "prod_1", None, at, (move,)) for at in times]
    steps: list[None] = []
    with closing(sqlite3.connect(":memory:", factory=Connection)) as connection:
        connection.executescript(schema)
        ledger = Ledger(connection)
        for change in changes:
            ledger.add("main", change, "")
        ledger.flush()
        connection.set_progress_handler(lambda: steps.append(None), 10)
        ledger.add("main", structs.replace(changes[-1], adjustment_id=id_), "")
        ledger.flush()
    assert len(steps) < 20


@pytest.mark.parametrize("in_a_slice", [1, 2])
def test_moves_of_two_ids_are_two_even_if_all_else_is_equal(
    in_a_slice: int, schema: str
) -> None:
    """In whole seconds, units of one order leave, return and leave at the same time."""
    move = StockMove(Level("prod_1", "var_1", 5), -1, "SALE")
    at = "2026-03-01T12:00:00.000Z"
    reported = [
        (StockChange(id_, "prod_1", "ord_1", at, (move,)), "")
        for id_ in ("adj_1", "adj_2")
    ]
    assert len(ledger_of(schema, reported, in_a_slice)) == 2


@given(shop=trade(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_in_any_order_and_repetition_it_is_the_same_ledger(
    schema: str, shop: tuple[ReportingStyle, list[RealMove]], data: st.DataObject
) -> None:
    reported = reports(*shop)
    again = data.draw(st.lists(st.sampled_from(reported), max_size=6))
    shuffled = data.draw(st.permutations(reported + again))
    assert ledger_of(schema, shuffled, data.draw(SLICES)) == ledger_of(schema, reported)


@given(shop=trade(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_complete_history_is_the_ledger(
    schema: str, shop: tuple[ReportingStyle, list[RealMove]], data: st.DataObject
) -> None:
    style, real = shop
    real = [replace(one, by_history=True) for one in real]
    reported = reports(style, real)
    again = data.draw(st.lists(st.sampled_from(reported), max_size=6))
    shuffled = data.draw(st.permutations(reported + again))
    found = ledger_of(schema, shuffled, data.draw(SLICES))
    assert found == sorted(row_of(one.change) for one in real)


@given(shop=trade(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_webhooks_alone_merge_no_two_distinguishable_moves(
    schema: str, shop: tuple[ReportingStyle, list[RealMove]], data: st.DataObject
) -> None:
    style, real = shop
    style = replace(style, has_events=style.has_events or style.whole_seconds)
    real = [replace(one, by_webhook=True, by_history=False) for one in real]
    reported = reports(style, real)
    again = data.draw(st.lists(st.sampled_from(reported), max_size=6))
    shuffled = data.draw(st.permutations(reported + again))
    assert len(ledger_of(schema, shuffled, data.draw(SLICES))) == len(real)
