"""Parts of objects (lines, parcels, variants) as a slice of events leaves them.

A part's id is unique only within its parent. A part that moves to another parent
belongs to both for a while, and a platform may number the parts of each parent from
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.store.sql.dialect import is_damaged
from backhaul.store.sql.mirror.rows import (
    KEYS,
    Changes,
    Table,
    key_is,
    read_by_keys,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.store.sql.family import Connection
    from backhaul.store.sql.mirror.rows import Key, Values


class Parts(Struct, frozen=True):
    """A table of parts, with the statements that concern all parts of a parent."""

    table: Table
    select: str
    delete_all: str


def parts(name: str, parent: str, columns: str) -> Parts:
    """Return a table with these columns besides `store`, its parent's id and `id`."""
    of_part = table(name, columns, f"store, {parent}, id")
    shown = ", ".join(f"t.{column}" for column in (*of_part.key, *of_part.columns))
    of_parent = key_is("t", ("store", parent))
    return Parts(
        of_part,
        f"SELECT {shown} FROM {KEYS} {name} t ON {of_parent}",  # noqa: S608 - constants
        f"DELETE FROM {name} WHERE store = ? AND {parent} = ?",  # noqa: S608 - constants
    )


class SliceParts:
    """The parts of the objects that a slice changes."""

    def __init__(self, connection: Connection, parts_: Parts) -> None:
        self._connection = connection
        self._parts = parts_
        self._stored: dict[Key, Mapping[str, Values]] = {}
        self._changed: dict[Key, Mapping[str, Values]] = {}

    def put_all(
        self, parent: Key, rows: Mapping[str, Values], *, is_new: bool = False
    ) -> None:
        """Replace all parts of an object, from their ids to their columns.

        The table has no parts of an object that `is_new`.
        """
        if is_new:
            self._stored.setdefault(parent, {})
        if rows or self.known(parent) != {}:
            self._changed[parent] = rows

    def known(self, parent: Key) -> Mapping[str, Values] | None:
        """Return the parts of an object, None if the slice has not read them."""
        changed = self._changed.get(parent)
        return self._stored.get(parent) if changed is None else changed

    def flush(self) -> None:
        """Write the parts that differ from the stored ones."""
        if not self._changed:
            return
        self._load(self._changed)
        changes = Changes(self._parts.table)
        for parent, rows in self._changed.items():
            stored = self._stored[parent]
            self._stored[parent] = rows
            if any(map(is_damaged, stored)):
                # No statement finds such a part by its id, and it would stay beside
                # the new ones.
                self._connection.execute(self._parts.delete_all, parent)
                stored = {}
            if not stored:
                changes.new += [(*parent, id_, *row) for id_, row in rows.items()]
                continue
            for id_ in stored.keys() - rows.keys():
                changes.add((*parent, id_), stored[id_], None)
            for id_, row in rows.items():
                changes.add((*parent, id_), stored.get(id_), row)
        changes.write(self._connection)
        self._changed = {}

    def _load(self, parents: Iterable[Key]) -> None:
        missing = [parent for parent in parents if parent not in self._stored]
        if not missing:
            return
        stored: dict[Key, dict[str, Values]] = {parent: {} for parent in missing}
        found = read_by_keys(self._connection, self._parts.select, missing)
        for store, parent, id_, *row in found:
            stored[store, parent][id_] = tuple(row)
        self._stored |= stored
