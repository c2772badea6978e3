"""Rows of the mirror's tables as a slice of events reads and leaves them.

A slice reads the rows that its events concern with one statement for each table,
changes them in memory, and writes them at the end. Only what differs from the stored
row is written: an UPDATE writes a page of every index of a column that it names,
changed or not. Among a million orders these are separate pages, read and written for
nothing.

Rows are compared as tuples, so these statements take their values by place. Names would
need a dictionary for each row: a thirtieth of a fold.
"""

from __future__ import annotations

from itertools import compress
from operator import ne
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, json

from backhaul.store.sql.dialect import batch, elements, hint, member

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.store.sql.family import Connection


Values: TypeAlias = tuple[Any, ...]
Key: TypeAlias = tuple[str, ...]
TABLES = {"product": "products", "order": "orders", "customer": "customers"}
"""The table of the objects of each kind."""
_DOCUMENT = "SELECT document FROM {} WHERE store = :store AND id = :id"
DOCUMENTS = {
    "order": _DOCUMENT.format("orders"),
    "product": f"{_DOCUMENT.format('products')} AND deleted_at IS NULL",
    "customer": _DOCUMENT.format("customers"),
}
"""Reads the document of an object of each kind that is not deleted."""
VERSION = "updated_at, sequence, delivered, seen_at, digest, standing, confirmed_at"
"""The last columns of each table of objects."""
KEYS = f"{elements(':keys', '$')} e {hint('CROSS')} JOIN"
"""The keys of the rows to read, before the table to read them from."""


def document_text(
    connection: Connection, kind: str, store: str, object_id: str
) -> str | None:
    """Return the text of an object's document, None if there is no such object."""
    values = {"store": store, "id": object_id}
    row = connection.execute(DOCUMENTS[kind], values).fetchone()
    return row[0] if row else None


def part_of_key(place: int) -> str:
    """Return SQL for a part of a key in `KEYS`."""
    return member("e.value", f"$[{place}]")


def key_is(table: str, columns: Iterable[str]) -> str:
    """Return a condition that these columns of a table are the key in `KEYS`."""
    parts = (f"{table}.{name} = {part_of_key(n)}" for n, name in enumerate(columns))
    return " AND ".join(parts)


def read_by_keys(
    connection: Connection, query: str, keys: Iterable[Sequence[str | None]]
) -> list[Any]:
    """Return the rows of a query with `KEYS`. No part of a key has a zero byte."""
    values = {"keys": json.encode([*keys]).decode()}
    read_all = getattr(connection, "read_all", None)
    if read_all is None:
        return connection.execute(query, values).fetchall()
    found: list[Any] = read_all(query, values)  # SQLite's connection: faster
    return found


class Table(Struct, frozen=True):
    """A table and its columns, of which the first are its key."""

    name: str
    columns: tuple[str, ...]
    key_width: int
    select: str
    upsert: str
    is_row: str


def table(name: str, columns: str, key: str = "store, id") -> Table:
    """Return a table with these columns besides its key."""
    keys, names = tuple(key.split(", ")), tuple(columns.split(", "))
    shown = ", ".join(f"t.{column}" for column in keys + names)
    places = ", ".join("?" * len(keys + names))
    replaced = ", ".join(f"{column} = excluded.{column}" for column in names)
    return Table(
        name,
        keys + names,
        len(keys),
        f"SELECT {shown} FROM {KEYS} {name} t ON {key_is('t', keys)}",  # noqa: S608 - constants
        batch(
            f"INSERT INTO {name} ({key}, {columns}) VALUES ({places})"  # noqa: S608 - constants
            f" ON CONFLICT ({key}) DO UPDATE SET {replaced}"
        ),
        " AND ".join(f"{column} = ?" for column in keys),
    )


class Changes:
    """The statements that bring the rows of one table from one state to another."""

    def __init__(self, table_: Table) -> None:
        self._table = table_
        self.new: list[Values] = []
        self._gone: list[Values] = []
        self._changed: dict[Values, list[Values]] = {}

    def add(self, key: Key, old: Values | None, new: Values | None) -> None:
        """Add a row that is, or is to be, None if it is not in the table."""
        if old is None:
            if new is not None:
                self.new.append(new)
        elif new is None:
            self._gone.append(key)
        elif old != new:
            differs = tuple(map(ne, old, new))
            values = (*compress(new, differs), *key)
            self._changed.setdefault(differs, []).append(values)

    def write(self, connection: Connection) -> None:
        """Write all that was added."""
        name, is_row = self._table.name, self._table.is_row
        if self._gone:
            query = f"DELETE FROM {name} WHERE {is_row}"  # noqa: S608 - constants
            connection.executemany(batch(query), self._gone)
        for differs, rows in self._changed.items():
            names = " = ?, ".join(compress(self._table.columns, differs))
            query = f"UPDATE {name} SET {names} = ? WHERE {is_row}"  # noqa: S608 - constants
            connection.executemany(batch(query), rows)
        if self.new:
            connection.executemany(self._table.upsert, self.new)


class SliceRows:
    """The rows of one table that a slice has read or changed."""

    def __init__(self, connection: Connection, table_: Table) -> None:
        self._connection = connection
        self._table = table_
        self._stored: dict[Key, Values | None] = {}
        self._changed: dict[Key, Values | None] = {}

    def load(self, keys: Iterable[Key]) -> None:
        """Read the rows of these keys that were not read yet."""
        missing = dict.fromkeys(key for key in keys if key not in self._stored)
        if not missing:
            return
        self._stored |= missing
        width = self._table.key_width
        for row in read_by_keys(self._connection, self._table.select, missing):
            self._keep(tuple(row[:width]), tuple(row))

    def _keep(self, key: Key, row: Values) -> None:
        self._stored[key] = row

    def is_known(self, key: Key) -> bool:
        """Return True if the row of a key was read or changed."""
        return key in self._changed or key in self._stored

    def is_new(self, key: Key) -> bool:
        """Return True if the table was read, and has no row of this key."""
        return key in self._stored and self._stored[key] is None

    def get(self, key: Key) -> Values | None:
        """Return a row with its key, None if there is none."""
        if key in self._changed:
            return self._changed[key]
        if key not in self._stored:
            self.load((key,))
        return self._stored[key]

    def put(self, key: Key, row: Values | None) -> None:
        """Write a row at `flush`, or delete it."""
        self._changed[key] = row

    def flush(self) -> None:
        """Write the rows that differ from the stored ones."""
        if not self._changed:
            return
        self.load(self._changed)
        changes = Changes(self._table)
        for key, row in self._changed.items():
            changes.add(key, self._stored[key], row)
        changes.write(self._connection)
        self._stored |= self._changed
        self._changed = {}


NEWEST = """
    NOT EXISTS (
        SELECT 1 FROM variants n WHERE n.store = v.store AND n.id = v.id
        AND (n.updated_at, n.product_id) > (v.updated_at, v.product_id))
"""
"""SQL that is true of the row of variant `v` from the product that changed last."""
