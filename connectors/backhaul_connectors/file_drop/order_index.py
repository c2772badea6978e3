"""Which rows of a file of shipments belong together, in a database of digests.

A file may have a million rows, in any order. So the pass that judges them writes a
few bytes of each row into a nameless temporary database, and the pass that makes
shipments asks it for the other rows of an order.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from backhaul_connectors.file_drop.cells import same
from backhaul_connectors.file_drop.csv_rows import Position
from backhaul_connectors.file_drop.shipments import numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_connectors.file_drop.shipments import ShipmentRow

MOST_ROWS = 5_000
"""Rows of one order in a file that are compared with each other."""
STEP_ROWS = 1_000
"""Rows that are written at once."""
MOST_BESIDE = 500
"""Keys of other rows that a shipment names."""
_CACHE_KIB = 8_000
_ROWS = """
    SELECT n, offset, line, in_order, parcel, key, earlier_key, names_article FROM rows
    WHERE in_order IN (SELECT in_order FROM rows WHERE n BETWEEN ? AND ?)
      AND in_order NOT IN (SELECT in_order FROM crowded)
    ORDER BY in_order, n
"""
_REFUSED = """
    SELECT in_order FROM refused
    WHERE in_order IN (SELECT in_order FROM rows WHERE n BETWEEN ? AND ?)
"""


class Entry(NamedTuple):
    """A row: its number, where it begins, and digests of its order and parcel.

    `earlier_key` is empty unless older versions gave the row another key.
    """

    number: int
    offset: int
    line: int
    in_order: bytes
    parcel: bytes
    key: str
    earlier_key: str
    names_article: bool

    @property
    def position(self) -> Position:
        """Where a reader begins that reads this row next."""
        return Position(self.offset, self.line, self.number - 1)


class Siblings(NamedTuple):
    """A row among the other rows of its order in the file.

    `parcel` are the rows that make one shipment with it, itself among them, with how
    many equal rows stand before each. `beside` are the keys of the others. The file
    may name articles of the order, and several parcels that hold all of it.
    """

    parcel: tuple[tuple[Entry, int], ...]
    beside: tuple[str, ...]
    names_articles: bool
    whole_parcels: int


class OrderIndex:
    """The rows of one file. Used by one thread at a time; `close` it."""

    def __init__(self) -> None:
        self.begin = 0
        """How many rows were handed over before this reading of the file."""
        self._is_settled = False
        self._refused: list[tuple[bytes]] = []
        self._added: list[tuple[object, ...]] = []
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute(
            "CREATE TABLE rows (n INTEGER PRIMARY KEY, offset INTEGER, line INTEGER,"
            " in_order BLOB, parcel BLOB, key TEXT, earlier_key TEXT,"
            " names_article INTEGER)"
        )
        self._db.execute("CREATE TABLE refused (in_order BLOB PRIMARY KEY)")

    def add(self, position: Position, row: ShipmentRow) -> None:
        """Add a row that a reader at this position reads next."""
        self._added.append(_entry(position, row))
        if len(self._added) >= STEP_ROWS:
            self._write()

    def add_refused(self, order: str) -> None:
        """Add an order of which a row names an article and cannot be used."""
        self._refused.append((_digest(same(order).lstrip("#")),))
        if len(self._refused) >= STEP_ROWS:
            self._write()

    def close(self) -> None:
        self._db.close()

    def _write(self) -> None:
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._added
        )
        self._db.executemany("INSERT OR IGNORE INTO refused VALUES (?)", self._refused)
        self._db.execute("COMMIT")
        self._added.clear()
        self._refused.clear()

    def siblings(self, first: int, last: int) -> dict[int, Siblings]:
        """Return the siblings of the rows with these numbers.

        A row of an order with more than MOST_ROWS rows is not in it.
        """
        self._settle()
        found = [Entry(*row) for row in self._db.execute(_ROWS, (first, last))]
        refused = {order for (order,) in self._db.execute(_REFUSED, (first, last))}
        result: dict[int, Siblings] = {}
        for in_order, rows in groupby(found, key=lambda entry: entry.in_order):
            order = list(rows)
            related = _Order(order, self.begin, is_refused=in_order in refused)
            result |= {
                entry.number: related.siblings(entry)
                for entry in order
                if first <= entry.number <= last
            }
        return result

    def _settle(self) -> None:
        """Sort the rows by their orders, once all are there."""
        self._write()
        if self._is_settled:
            return
        self._db.execute("CREATE INDEX by_order ON rows(in_order)")
        self._db.execute(
            "CREATE TABLE crowded AS SELECT in_order FROM rows GROUP BY in_order"
            " HAVING count(*) > ?",
            (MOST_ROWS,),
        )
        self._is_settled = True


def _entry(position: Position, row: ShipmentRow) -> tuple[object, ...]:
    parcel = row.parcel()
    return (
        position.row + 1,
        position.offset,
        position.line,
        _digest(row.same_order),
        _digest(position.row if parcel is None else parcel),
        row.key(),
        row.earlier_key() if row.has_key else "",
        row.line is not None,
    )


def _digest(content: object) -> bytes:
    return blake2b(repr(content).encode(errors="replace"), digest_size=12).digest()


class _Order:
    """All rows of one order; the first `begin` rows of the file were handed over."""

    def __init__(self, rows: Sequence[Entry], begin: int, *, is_refused: bool) -> None:
        seen = Counter[str]()
        self._rows: list[tuple[Entry, int]] = []
        for entry in rows:
            is_counted = entry.names_article and not entry.earlier_key
            self._rows.append((entry, seen[entry.key] if is_counted else 0))
            seen[entry.key] += 1
        self._begin = begin
        names_article = any(entry.names_article for entry in rows)
        self._names_articles = is_refused or names_article
        whole = {entry.parcel for entry in rows if not entry.names_article}
        self._whole_parcels = len(whole)

    def siblings(self, own: Entry) -> Siblings:
        """Return how a row is related to the others."""
        parcel, beside = list[tuple[Entry, int]](), dict[str, None]()
        for entry, ordinal in self._rows:
            if entry.parcel == own.parcel and entry.number > self._begin:
                parcel.append((entry, ordinal))
            elif len(beside) < MOST_BESIDE:
                beside[numbered(entry.key, ordinal)] = None
                beside |= {entry.earlier_key: None} if entry.earlier_key else {}
        return Siblings(
            tuple(parcel), tuple(beside), self._names_articles, self._whole_parcels
        )
