"""Databases to move: what is in them, and whether a daemon would start with them."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from backhaul.core.clock import SystemClock
from backhaul.errors import ConfigurationError
from backhaul.store import database_at, move_database, open_store
from backhaul.store.postgres import schema
from backhaul.store.postgres.connection import Connection as ServerConnection
from backhaul.store.postgres.database import open_store as open_server
from backhaul.store.sql.inbox.fold import CURSOR
from backhaul.store.sqlite.connections import Connection
from backhaul.store.sqlite.movable_rows import is_json, tables
from scenes.databases import make_database

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store import Place
    from backhaul.store.moving import Column, Moved, Row, Table

CLOCK = SystemClock()
LARGEST = 2**63 - 1
_TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12
)
_JSON = st.sampled_from(["{}", "null", '{"a":[1,2.5,"\\u00e9 \\\\u0000"]}', "[]", '""'])
_FOLDED = """
    INSERT OR IGNORE INTO kv
    SELECT ?, max(id) FROM event_outcomes HAVING max(id) > 0
"""
_VALUES = {
    "INTEGER": st.integers(-LARGEST - 1, LARGEST),
    "REAL": st.floats(allow_nan=False).map(lambda value: value + 0.0),
    "TEXT": _TEXT,
    "BLOB": st.binary(max_size=12),
}


def move(source: Place, target: Place) -> Moved:
    """Move a database as the command does, without its lock and its output."""
    return move_database(source, target, CLOCK, lambda _: None)


def contents(place: Place) -> dict[str, list[Row]]:
    """Return the rows of all tables, in a fixed order."""
    with database_at(place).connection() as connection:
        return {
            table.name: sorted(
                (
                    tuple(map(_as_stored, row))
                    for row in connection.execute(
                        f"SELECT {table.names} FROM {table.name}"  # noqa: S608 - ours
                    )
                ),
                key=repr,
            )
            for table in tables()
        }


def _as_stored(value: object) -> object:
    return bytes(value) if isinstance(value, memoryview) else value


def is_usable(place: Place) -> bool:
    """Return True if a daemon would start with the rows of this place."""
    try:
        if not isinstance(place, str):
            if place.exists():
                open_store(place, CLOCK)
            return place.exists()
        with closing(ServerConnection(place)) as connection:
            if not schema.exists(connection):
                return False
        open_server(place, CLOCK)
    except ConfigurationError:
        return False
    return True


def _value(table: Table, column: Column, events: list[int]) -> st.SearchStrategy[Any]:
    if (table.name, column.name) == ("event_outcomes", "id"):
        return st.sampled_from(events)
    if is_json(column):
        values: st.SearchStrategy[Any] = _JSON
    else:
        values = _VALUES[column.kind]
    return st.none() | values if column.is_nullable else values


@st.composite
def random_rows(draw: st.DrawFn) -> dict[str, list[Row]]:
    """Draw rows for every table; some may violate a unique constraint."""
    found: dict[str, list[Row]] = {}
    for table in tables():
        events = [row[0] for row in found.get("inbox", [])]
        if table.name == "event_outcomes" and not events:
            continue
        row = st.tuples(*(_value(table, column, events) for column in table.columns))
        found[table.name] = draw(st.lists(row, max_size=4))
    return found


def fill(path: Path, rows: dict[str, list[Row]]) -> None:
    """Create a database with these rows, without those that are not unique."""
    make_database(path)
    with closing(Connection(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for table in tables():
            places = ", ".join("?" * len(table.columns))
            connection.executemany(
                f"INSERT OR IGNORE INTO {table.name} ({table.names}) VALUES ({places})",  # noqa: S608 - ours
                rows.get(table.name, []),
            )
        # the last event with an outcome was folded, so no event waits behind it
        connection.execute(_FOLDED, (CURSOR,))
        # no trigger would write this value; a move must copy it without computing
        connection.execute("UPDATE commands SET behind = seq % 3")
        connection.execute("COMMIT")


def some_rows(seed: int = 1) -> dict[str, list[Row]]:
    """Return three rows for every table, always the same."""
    chosen = random.Random(seed)  # noqa: S311 - no secret
    plain: dict[str, Any] = {
        "TEXT": lambda: f"wört {chosen.randrange(10**9)}",
        "INTEGER": lambda: chosen.randrange(1, 10**12),
        "REAL": chosen.random,
        "BLOB": lambda: chosen.randbytes(9),
    }
    found: dict[str, list[Row]] = {}
    for table in tables():
        found[table.name] = [
            tuple(
                '{"a": 1}' if is_json(column) else plain[column.kind]()
                for column in table.columns
            )
            for _ in range(3)
        ]
    pairs = zip(found["inbox"], found["event_outcomes"], strict=True)
    found["event_outcomes"] = [(event[0], *outcome[1:]) for event, outcome in pairs]
    return found
