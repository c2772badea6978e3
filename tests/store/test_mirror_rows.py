"""Mirror rows and indexes that did not change are not written."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.core.fold import Version
from backhaul.platform import decoding
from backhaul.store.sql.mirror.write import MirrorTransaction
from backhaul.store.sqlite.connections import Connection
from backhaul.store.sqlite.opening import open_store
from scenes import payloads

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

VERSION = Version(payloads.instant(0), 1, True, payloads.instant(1), b"digest")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "backhaul.db"
    open_store(path, SystemClock())
    with closing(Connection(path, isolation_level=None)) as opened:
        yield opened


def written(connection: sqlite3.Connection, **members: Any) -> list[str]:
    """Write an order with these members; return the statements that changed a row."""
    said: list[tuple[str, int]] = []
    mirror = MirrorTransaction(connection, SystemClock())
    connection.set_trace_callback(
        lambda text: said.append((text, connection.total_changes))
    )
    mirror.put_order("main", decoding.order(payloads.order(**members)), VERSION)
    mirror.flush()
    connection.set_trace_callback(None)
    then = [*(changes for _, changes in said[1:]), connection.total_changes]
    return [
        text
        for (text, changes), after in zip(said, then, strict=True)
        if after > changes
    ]


def columns_written(said: list[str]) -> dict[str, set[str]]:
    found = [re.match(r"UPDATE (\w+) SET (.*) WHERE", text, re.DOTALL) for text in said]
    return {
        match[1]: set(re.findall(r"(\w+) = ", match[2])) for match in found if match
    }


def test_only_changed_rows_are_written(connection: sqlite3.Connection) -> None:
    """An UPDATE of a column writes to every index with the column."""
    assert len(written(connection, note="one")) == 2
    assert columns_written(written(connection, note="two")) == {"orders": {"document"}}
    sent = payloads.item(fulfilledQuantity=2)
    changed = written(connection, note="two", items=[sent | {"id": "li_1"}])
    assert columns_written(changed) == {
        "orders": {"document"},
        "order_items": {"fulfilled_quantity"},
    }
    assert written(connection, note="two", items=[sent | {"id": "li_1"}]) == []


def test_a_changed_order_keeps_the_rows_of_itself_and_of_its_lines(
    connection: sqlite3.Connection,
) -> None:
    """To delete and insert a row costs two writes in each of its indexes."""
    lines = [payloads.item(f"li_{number}") for number in range(3)]
    written(connection, items=lines)
    # after another order's rows, a row that is inserted again gets a new rowid
    written(connection, id_="ord_9", items=[payloads.item("li_9")])
    places = "SELECT 'order', rowid, id FROM orders UNION ALL SELECT 'line', rowid, id"
    places += " FROM order_items WHERE id < 'li_2'"
    before = connection.execute(places).fetchall()
    assert len(before) == 4
    written(connection, note="new", items=[lines[0], {**lines[1], "quantity": 7}])
    assert connection.execute(places).fetchall() == before
