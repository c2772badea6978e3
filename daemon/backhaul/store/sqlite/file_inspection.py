"""Reads facts from a database file: its mode, damage, schema and newest rows."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.store.sql.mirror.diff import Difference, differences
from backhaul.store.sql.operations.orphaned_work import of_other_stores
from backhaul.store.sqlite import file_backup
from backhaul.store.sqlite.connections import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from backhaul.store.operations import OrphanedWork

_APPLIED = """
    SELECT DISTINCT kind FROM commands
    WHERE store = ? AND state = 'applied'
"""
_LAST = "SELECT coalesce(max(id), 0) FROM inbox"
_FIND_TEST = """
    SELECT id, topic, topic LIKE '%/test' OR EXISTS (
        SELECT 1 FROM json_each(:names)
        WHERE value != '' AND instr(CAST(e.body AS TEXT), value)) AS is_test
    FROM events e WHERE id > :after AND store = :store AND source = 'delivery'
    ORDER BY is_test DESC, id LIMIT 1
"""


class StoredWebhook(Struct, frozen=True):
    """A stored webhook; `is_test` if its topic or its body shows that."""

    event: int
    topic: str
    is_test: bool


def journal_mode(path: Path) -> str:
    """Return the journal mode of a database, normally `wal`.

    Raises CorruptData, and BackhaulError if it cannot be read now.
    """
    try:
        with file_backup.open_read_only(path) as connection:
            return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise file_backup.unread(path, error) from None


def problems(path: Path, *, deep: bool = False) -> list[str]:
    """Return what is damaged in a database; empty if nothing was found.

    Reads the structure of every page. Only `deep` also compares each index with its
    table, which takes several times as long.
    """
    check = "PRAGMA integrity_check" if deep else "PRAGMA quick_check"
    try:
        with file_backup.open_read_only(path) as connection:
            rows = connection.execute(check).fetchmany(file_backup.FINDINGS_SHOWN)
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [str(row[0]).strip() for row in rows if row[0] != "ok"]


def applied_kinds(path: Path, store: str) -> set[str]:
    """Return the kinds of commands that the platform has ever applied."""
    return {str(row[0]) for row in _rows(path, _APPLIED, (store,))}


def last_event(path: Path) -> int:
    """Return the number of the newest event."""
    return int(_rows(path, _LAST, ())[0][0])


def find_test_webhook(
    path: Path, after: int, store: str, names: Sequence[str]
) -> StoredWebhook | None:
    """Return the test webhook that arrived after an event, or else any other webhook.

    A webhook may have no topic: then one of `names` identifies it, the ids that the
    platform gave it.
    """
    values = {"after": after, "store": store, "names": json.dumps(names)}
    rows = _rows(path, _FIND_TEST, values)
    return StoredWebhook(rows[0][0], rows[0][1], bool(rows[0][2])) if rows else None


def orphaned_work(path: Path, stores: Iterable[str]) -> tuple[OrphanedWork, ...]:
    """Return the open work of each store that is not one of these.

    Empty if there is no database, or if it cannot be read: other checks report that.
    """
    try:
        if not path.is_file():
            return ()
        with file_backup.open_read_only(path) as connection:
            return of_other_stores(connection, stores)
    except (OSError, sqlite3.Error):
        return ()


def schema(path: Path) -> list[str]:
    """Return the statements that create the tables, indexes and views."""
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name"
    return [str(row[0]) for row in _rows(path, query, ())]


def mirror_differences(left: Path, right: Path) -> Iterator[Difference]:
    """Yield every difference between the mirrors of two databases."""
    with closing(open_reader(left)) as here, closing(open_reader(right)) as there:
        yield from differences(here, there)


def counts(path: Path) -> dict[str, int]:
    """Return how many rows each table has."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    names = [str(row[0]).replace('"', '""') for row in _rows(path, query, ())]
    return {
        name: int(_rows(path, f'SELECT count(*) FROM "{name}"', ())[0][0])  # noqa: S608 - a name of the schema
        for name in names
    }


def _rows(
    path: Path, query: str, values: tuple[object, ...] | dict[str, object]
) -> list[tuple[Any, ...]]:
    with file_backup.open_read_only(path) as connection:
        return connection.execute(query, values).fetchall()
