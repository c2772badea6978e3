"""Rows of the mirror's tables, written only where they differ from the stored ones.

An UPDATE writes a page of every index of a column that it names, changed or not. Among
a million orders these are separate pages, read and written for nothing.

Rows are compared as tuples, so these statements take their values by place. Names would
need a dictionary for each row: a thirtieth of a fold.
"""

from __future__ import annotations

from itertools import compress
from operator import ne
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul.store.sql.dialect import is_damaged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store.sql.family import Connection


Values: TypeAlias = tuple[Any, ...]
_DOCUMENT = "SELECT document FROM {} WHERE store = :store AND id = :id"
DOCUMENTS = {
    "order": _DOCUMENT.format("orders"),
    "product": f"{_DOCUMENT.format('products')} AND deleted_at IS NULL",
    "customer": _DOCUMENT.format("customers"),
}
"""Reads the document of an object of each kind that is not deleted."""


def document_text(
    connection: Connection, kind: str, store: str, object_id: str
) -> str | None:
    """Return the text of an object's document, None if there is no such object."""
    values = {"store": store, "id": object_id}
    row = connection.execute(DOCUMENTS[kind], values).fetchone()
    return row[0] if row else None


class Table(Struct, frozen=True):
    """A table whose key is the store and one more column."""

    name: str
    key: str
    columns: tuple[str, ...]
    insert: str
    select: str

    def put(self, connection: Connection, store: str, id_: str, new: Values) -> bool:
        """Write a row; `new` has all columns except its key.

        Returns True if the row was not there before.
        """
        # Most rows are new: they are written without a read of the stored row.
        if connection.execute(self.insert, (store, id_, *new)).rowcount:
            return True
        old = connection.execute(self.select, (store, id_)).fetchone()
        if old != new:
            changed, values = _changed(self.columns, old, new)
            connection.execute(
                f"UPDATE {self.name} SET {changed} WHERE store = ? AND {self.key} = ?",  # noqa: S608 - constants
                (*values, store, id_),
            )
        return False


class Parts(Struct, frozen=True):
    """A table of the parts of objects; a part's id is unique only within its parent.

    A part that moves to another parent belongs to both for a while, and a platform may
    number the parts of each parent from one.
    """

    name: str
    columns: tuple[str, ...]
    is_row: str
    upsert: str
    select: str
    delete_all: str

    def put_all(
        self,
        connection: Connection,
        store: str,
        parent: str,
        rows: Mapping[str, Values],
    ) -> None:
        """Replace all rows of a parent by these, from their ids to their columns."""
        stored = connection.execute(self.select, (store, parent)).fetchall()
        if any(is_damaged(id_) for id_, *_ in stored):
            # No statement finds such a row by its id, and it would stay beside the new.
            connection.execute(self.delete_all, (store, parent))
            stored = []
        for id_, *old in stored:
            place = (store, parent, id_)
            if id_ not in rows:
                query = f"DELETE FROM {self.name} WHERE {self.is_row}"  # noqa: S608 - constants
                connection.execute(query, place)
            elif rows[id_] != tuple(old):
                changed, values = _changed(self.columns, tuple(old), rows[id_])
                query = f"UPDATE {self.name} SET {changed} WHERE {self.is_row}"  # noqa: S608 - constants
                connection.execute(query, (*values, *place))
        known = {id_ for id_, *_ in stored}
        new = [
            (store, parent, id_, *row) for id_, row in rows.items() if id_ not in known
        ]
        if new:
            connection.executemany(self.upsert, new)


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
    return Table(
        name,
        key,
        names,
        f"INSERT INTO {name} (store, {key}, {columns}) VALUES ({places})"  # noqa: S608 - constants
        f" ON CONFLICT (store, {key}) DO NOTHING",
        f"SELECT {columns} FROM {name} WHERE store = ? AND {key} = ?",  # noqa: S608 - constants
    )


def parts(name: str, parent: str, columns: str) -> Parts:
    """Return a table with these columns besides `store`, its parent's id and `id`."""
    names = tuple(columns.split(", "))
    places = ", ".join("?" * (len(names) + 3))
    replaced = ", ".join(f"{column} = excluded.{column}" for column in names)
    of_parent = f"FROM {name} WHERE store = ? AND {parent} = ?"
    return Parts(
        name,
        names,
        f"store = ? AND {parent} = ? AND id = ?",
        f"INSERT INTO {name} (store, {parent}, id, {columns}) VALUES ({places})"  # noqa: S608 - constants
        f" ON CONFLICT (store, {parent}, id) DO UPDATE SET {replaced}",
        f"SELECT id, {columns} {of_parent}",
        f"DELETE {of_parent}",
    )


NEWEST = """
    NOT EXISTS (
        SELECT 1 FROM variants n WHERE n.store = v.store AND n.id = v.id
        AND (n.updated_at, n.product_id) > (v.updated_at, v.product_id))
"""
"""SQL that is true of the row of variant `v` from the product that changed last."""
