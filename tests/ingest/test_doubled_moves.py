"""A move that an earlier version wrote down twice, with its id and without, is one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul.store import database_at
from backhaul.store.read_records import FoundObject
from backhaul.store.sqlite.migrations import row_rewrites
from ingest.test_stock_moves import (
    ledger_of,
    row_of,
    schema,
    tellings,
    trade,
)
from scenes.clock import VirtualClock
from scenes.databases import make_database, started_store, write
from scenes.stored import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ingest.test_stock_moves import Manner, Real, Told

__all__ = ["schema"]  # a fixture

INSERT = """
    INSERT OR IGNORE INTO stock_ledger (store, product_id, variant_id, adjustment,
      stock_after, reason, cause, adjustment_id, at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
LEDGER = """
    SELECT variant_id, at, adjustment, stock_after, reason, cause, adjustment_id
    FROM stock_ledger ORDER BY 1, 2, 3, 4, 5, 6, 7
"""
AT = "2026-03-01T12:00:00.000Z"
SOLD = ("main", "prod_1", "var_1", -2, 10, "ORDER_PLACED", "ord_1")


def write_as_before(connection: sqlite3.Connection, told: Sequence[Told]) -> None:
    """Write what is told as the version did that knew a move by its id alone."""
    for change, _ in told:
        for move in change.moves:
            id_, order = change.adjustment_id, change.order_id
            values: tuple[Any, ...] = (
                *("main", change.product_id, move.level.variant_id, move.adjustment),
                *(move.level.stock, move.reason, order or id_, id_, change.updated_at),
            )
            connection.execute(INSERT, values)


def joined(schema: str, told: Sequence[Told]) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema)
        write_as_before(connection, told)
        row_rewrites.join(connection)
        return connection.execute(LEDGER).fetchall()


@given(shop=trade(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_what_the_history_tells_whole_is_the_ledger(
    schema: str, shop: tuple[Manner, list[Real]], data: st.DataObject
) -> None:
    manner, real = shop
    real = [replace(one, by_history=True) for one in real]
    shuffled = data.draw(st.permutations(tellings(manner, real)))
    assert joined(schema, shuffled) == sorted(row_of(one.change) for one in real)


@given(shop=trade(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_it_is_the_ledger_of_a_version_that_joins_at_once(
    schema: str, shop: tuple[Manner, list[Real]], data: st.DataObject
) -> None:
    manner, real = shop
    told = tellings(replace(manner, has_events=True), real)
    shuffled = data.draw(st.permutations(told))
    assert len(joined(schema, shuffled)) == len(ledger_of(schema, told))


@pytest.mark.parametrize(("at", "left"), [(".000Z", 2), (".001Z", 1)])
@pytest.mark.parametrize("named", [0, 1, 2])
def test_in_one_second_a_row_with_an_id_is_the_double_of_one(
    named: int, at: str, left: int, schema: str
) -> None:
    """Goods may have left, come back and left again, and the history tell of one."""
    ids: list[str | None] = [None, None]
    ids.insert(named, "adj_1")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema)
        for id_ in ids:
            values = (*SOLD, id_, AT.replace(".000Z", at))
            connection.execute(INSERT, values)
        row_rewrites.join(connection)
        found = connection.execute("SELECT adjustment_id FROM stock_ledger").fetchall()
    assert sorted(found, key=str) == [("adj_1",), (None,)][:left]


@pytest.mark.parametrize("named_first", [True, False])
async def test_an_upgrade_joins_them_where_the_older_row_stands(
    named_first: bool, tmp_path: Path
) -> None:
    path = tmp_path / "backhaul.db"
    make_database(path)
    write(path, "DELETE FROM _sqlite_migrations WHERE name = 'm091_joined_moves'")
    named, nameless = (*SOLD, "adj_1", AT), (*SOLD, None, AT)
    for row in (named, nameless) if named_first else (nameless, named):
        write(path, INSERT, *row)
    write(path, INSERT, *SOLD, "adj_2", "2026-03-01T13:00:00.000Z")
    async with started_store(path, VirtualClock()):
        found = rows_of(path, "stock_ledger", "id", "adjustment_id")
    assert found == [(1, "adj_1"), (3, "adj_2")]


async def test_why_says_which_may_have_been_told_twice(tmp_path: Path) -> None:
    """Two deliveries of one second, one of which the history has named."""
    path = tmp_path / "backhaul.db"
    make_database(path)
    for id_ in ("adj_1", None):
        write(path, INSERT, *SOLD, id_, AT)
    write(path, INSERT, *SOLD, None, "2026-03-01T13:00:00.000Z")
    found = FoundObject("", "main", "var_1", {"product_id": "prod_1"})
    with database_at(path).reader() as known:
        told = [one.detail for one in known.timeline("sku", found)]
    sold = "now 10, ORDER_PLACED by ord_1"
    twice = ", reported without an id: it may be another movement of the same time"
    twice += ", reported twice"
    assert told == [sold, sold + twice, f"{sold}, reported without an id"]
