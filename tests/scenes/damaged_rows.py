"""Writes rows that the program would not write: damaged, old, or of another version.

Only this module knows how to write them. The names are those of docs/mirror.md.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from backhaul.store.sqlite.connections import Connection
from scenes.databases import rows_with_names, write, writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.store import Place


AT = "2026-03-01T12:00:00.000Z"


def overwrite(
    place: Place, table: str, values: Mapping[str, object], **wanted: object
) -> None:
    """Overwrite columns of the rows whose columns have the values of `wanted`."""
    changes = ", ".join(f'"{name}" = ?' for name in values)
    statement = f"UPDATE {table} SET {changes} WHERE {_where(wanted)}"  # noqa: S608 - a test's own
    write(place, statement, *values.values(), *wanted.values())


def overwrite_text(
    place: Place, table: str, column: str, raw: bytes, **wanted: object
) -> None:
    """Overwrite a text with bytes that need not be UTF-8."""
    change = f'"{column}" = CAST(? AS TEXT)'
    statement = f"UPDATE {table} SET {change} WHERE {_where(wanted)}"  # noqa: S608 - a test's own
    write(place, statement, raw, *wanted.values())


def insert(place: Place, table: str, **values: object) -> None:
    """Insert a row."""
    insert_many(place, table, [values])


def insert_many(place: Place, table: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows with the same columns, in one transaction."""
    names = ", ".join(f'"{name}"' for name in rows[0])
    places = ", ".join("?" for _ in rows[0])
    statement = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - a test's own
    with writer(place) as connection:
        connection.executemany(statement, [tuple(row.values()) for row in rows])


def copy(place: Place, table: str, **changed: object) -> None:
    """Insert a copy of the first row of a table, with other values in some columns."""
    (row,) = rows_with_names(place, f"SELECT * FROM {table} LIMIT 1")  # noqa: S608 - a test's own
    insert(place, table, **{**row, **changed})


def delete_rows(place: Place, table: str, **wanted: object) -> None:
    """Delete the rows whose columns have the values of `wanted`."""
    statement = f"DELETE FROM {table} WHERE {_where(wanted)}"  # noqa: S608 - a test's own
    write(place, statement, *wanted.values())


def _where(wanted: Iterable[str]) -> str:
    return " AND ".join(f'"{name}" = ?' for name in wanted) or "1 = 1"


def insert_command(
    place: Place, id_: str, kind: str, target: str, state: str, **values: object
) -> None:
    """Insert a command of a connection, in the given state."""
    ordering_key = f"{'product' if kind == 'adjust' else 'order'}:{target}"
    known = {"id": id_, "kind": kind, "target": target, "state": state}
    empty = dict.fromkeys(("cause", "created_at", "due_at"), "")
    rest = {"store": "main", "lane": ordering_key, "payload": "{}"}
    insert(place, "commands", **(known | empty | rest | values))


def write_to_unused_space(path: Path, word: str) -> None:
    """Write a word into an unused part of the file, as SQLite may."""
    with closing(Connection(path, isolation_level=None)) as careless:
        careless.execute("PRAGMA secure_delete=OFF")
        careless.execute("CREATE TABLE scratch (word)")
        careless.execute("INSERT INTO scratch VALUES (?)", (word,))
        careless.execute("DELETE FROM scratch")


def insert_delivery(
    place: Place, instance: str, object_id: str, topic: str, **values: object
) -> None:
    """Insert a delivery for a connection, in the given state."""
    about = {"id": "d", "instance": instance, "topic": topic, "object_id": object_id}
    rest = {"store": "main", "change_id": 1, "created_at": AT, "due_at": AT}
    insert(place, "deliveries", **(about | rest | values))


def insert_incident(place: Place, text: str, command: str = "ab") -> None:
    """Insert an open incident of the order `ord_1`."""
    about = {"store": "main", "kind": "restocked", "order_id": "ord_1"}
    insert(place, "incidents", **about, command_id=command, at=AT, says=text)


@contextmanager
def refused_rows(path: Path, table: str, why: str) -> Iterator[None]:
    """Let the database reject each new row of a table within the block."""
    refusal = f"BEGIN SELECT RAISE(ABORT, '{why}'); END"
    write(path, f"CREATE TRIGGER refused BEFORE INSERT ON {table} {refusal}")
    try:
        yield
    finally:
        write(path, "DROP TRIGGER refused")
