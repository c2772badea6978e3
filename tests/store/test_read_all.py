"""`read_all` returns what `execute` does, for damaged rows as well."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.store.sqlite.connections import Connection, DamagedText

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERY = "SELECT text, body FROM kept WHERE id > :after ORDER BY id"


@pytest.fixture
def connection() -> Iterator[Connection]:
    with closing(Connection(":memory:", isolation_level=None)) as opened:
        opened.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, text TEXT, body)")
        rows = [(b"plain", 1), ("Zoë".encode(), b"\xff"), (b"a\0b", None), (None, 0.5)]
        for row in rows:
            opened.execute(
                "INSERT INTO kept (text, body) VALUES (CAST(? AS TEXT), ?)", row
            )
        yield opened


def test_text_and_bytes_stay_what_they_are(connection: Connection) -> None:
    found = connection.read_all(QUERY, {"after": 0})
    assert found == [("plain", 1), ("Zoë", b"\xff"), ("a\0b", None), (None, 0.5)]
    assert found == connection.execute(QUERY, {"after": 0}).fetchall()


@pytest.mark.parametrize("id_", [1, 4])
def test_damaged_text_ends_no_query(connection: Connection, id_: int) -> None:
    damage = "UPDATE kept SET text = CAST(x'6cff' AS TEXT) WHERE id = ?"
    connection.execute(damage, [id_])
    found = connection.read_all(QUERY, {"after": 0})
    assert found == connection.execute(QUERY, {"after": 0}).fetchall()
    damaged = [type(text) is DamagedText for text, _ in found]
    assert damaged == [id_ == number for number in range(1, 5)]
    assert found[id_ - 1][0] == "l\N{REPLACEMENT CHARACTER}"


def test_a_query_that_fails_is_not_tried_again(connection: Connection) -> None:
    tried: list[str] = []
    connection.set_trace_callback(tried.append)
    with pytest.raises(sqlite3.OperationalError, match="malformed JSON"):
        connection.read_all("SELECT json('{') FROM kept")
    assert len(tried) == 1
    damaged = connection.execute("SELECT CAST(x'ff' AS TEXT)").fetchone()[0]
    assert type(damaged) is DamagedText
