"""Rows of the mirror's tables, written as far as they differ from what stands there.

An UPDATE writes a page of every index that it names a column of, changed or not. Among
a million orders these are pages of their own, read and written for nothing.
"""

from __future__ import annotations

import sqlite3
from itertools import compress
from operator import ne
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul.store.sqlite.connections import concerns_the_file

if TYPE_CHECKING:
    from collections.abc import Mapping


Values: TypeAlias = tuple[Any, ...]
DOCUMENTS = {
    "order": "SELECT CAST(document AS BLOB) FROM orders WHERE store = ? AND id = ?",
    "product": "SELECT CAST(document AS BLOB) FROM products"
    " WHERE store = ? AND id = ? AND deleted_at IS NULL",
    "customer": "SELECT CAST(document AS BLOB) FROM customers"
    " WHERE store = ? AND id = ?",
}
"""Reads a document by store and id, as bytes: what is damaged may be no text."""


class Table(Struct, frozen=True):
    """A table whose rows are told apart by their store and one more column."""

    name: str
    key: str
    columns: tuple[str, ...]
    insert: str
    upsert: str
    select: str

    def put(
        self, connection: sqlite3.Connection, store: str, id_: str, new: Values
    ) -> bool:
        """Write a row, `new` being all that stands beside its key.

        Returns whether there was none.
        """
        # Most rows are new: they are written without a look at what stands there.
        row = (store, id_, *new)
        if connection.execute(self.insert, row).rowcount:
            return True
        try:
            old = connection.execute(self.select, (store, id_)).fetchone()
        except sqlite3.OperationalError as error:
            if concerns_the_file(error):
                raise
            # A value that is damaged, and no text any more: all is written anew.
            connection.execute(self.upsert, row)
            return False
        if old != new:
            self._update(connection, store, id_, old, new)
        return False

    def _update(
        self,
        connection: sqlite3.Connection,
        store: str,
        id_: str,
        old: Values,
        new: Values,
    ) -> None:
        changed, values = _changed(self.columns, old, new)
        connection.execute(
            f"UPDATE {self.name} SET {changed} WHERE store = ? AND {self.key} = ?",  # noqa: S608 - constants
            (*values, store, id_),
        )


class Parts(Struct, frozen=True):
    """A table of what is told apart only within its parent.

    What moves from one parent to another is shown by both for a while, and a platform
    may number the parts of each parent from one on.
    """

    name: str
    columns: tuple[str, ...]
    is_row: str
    upsert: str
    select: str

    def put_all(
        self,
        connection: sqlite3.Connection,
        store: str,
        parent: str,
        rows: Mapping[str, Values],
    ) -> None:
        """Make these all the rows of a parent, by their ids."""
        held = connection.execute(self.select, (store, parent)).fetchall()
        for id_, *old in held:
            place = (store, parent, id_)
            if id_ not in rows:
                query = f"DELETE FROM {self.name} WHERE {self.is_row}"  # noqa: S608 - constants
                connection.execute(query, place)
            elif rows[id_] != tuple(old):
                changed, values = _changed(self.columns, tuple(old), rows[id_])
                query = f"UPDATE {self.name} SET {changed} WHERE {self.is_row}"  # noqa: S608 - constants
                connection.execute(query, (*values, *place))
        known = {id_ for id_, *_ in held}
        new = {id_: row for id_, row in rows.items() if id_ not in known}
        self.add_all(connection, store, parent, new)

    def add_all(
        self,
        connection: sqlite3.Connection,
        store: str,
        parent: str,
        rows: Mapping[str, Values],
    ) -> None:
        """Write rows of a parent that has none of them."""
        if rows:
            values = [(store, parent, id_, *row) for id_, row in rows.items()]
            connection.executemany(self.upsert, values)


def _changed(
    columns: tuple[str, ...], old: Values, new: Values
) -> tuple[str, tuple[Any, ...]]:
    """Return what to set where a row differs, and the values for it."""
    changed = tuple(map(ne, old, new))
    names = " = ?, ".join(compress(columns, changed))
    return f"{names} = ?", tuple(compress(new, changed))


def table(name: str, columns: str, key: str = "id") -> Table:
    """Return a table with these columns besides `store` and the key."""
    names = tuple(columns.split(", "))
    places = ", ".join("?" * (len(names) + 2))
    insert = f"INSERT INTO {name} (store, {key}, {columns}) VALUES ({places})"  # noqa: S608 - constants
    replaced = ", ".join(f"{column} = excluded.{column}" for column in names)
    return Table(
        name,
        key,
        names,
        f"{insert} ON CONFLICT (store, {key}) DO NOTHING",
        f"{insert} ON CONFLICT (store, {key}) DO UPDATE SET {replaced}",
        f"SELECT {columns} FROM {name} WHERE store = ? AND {key} = ?",  # noqa: S608 - constants
    )


def parts(name: str, parent: str, columns: str) -> Parts:
    """Return a table with these columns besides `store`, its parent's id and `id`."""
    names = tuple(columns.split(", "))
    places = ", ".join("?" * (len(names) + 3))
    replaced = ", ".join(f"{column} = excluded.{column}" for column in names)
    return Parts(
        name,
        names,
        f"store = ? AND {parent} = ? AND id = ?",
        f"INSERT INTO {name} (store, {parent}, id, {columns}) VALUES ({places})"  # noqa: S608 - constants
        f" ON CONFLICT (store, {parent}, id) DO UPDATE SET {replaced}",
        f"SELECT id, {columns} FROM {name} WHERE store = ? AND {parent} = ?",  # noqa: S608 - constants
    )


NEWEST = """
    NOT EXISTS (
        SELECT 1 FROM variants n WHERE n.store = v.store AND n.id = v.id
        AND (n.updated_at, n.product_id) > (v.updated_at, v.product_id))
"""
"""SQL that is true of the variant `v` as the product shows it that changed last."""
