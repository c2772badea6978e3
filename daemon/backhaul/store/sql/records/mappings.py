"""Stores mappings, and finds the one for a name of the back office."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.errors import BackhaulError
from backhaul.store.mappings import ListedMapping, MappingKind, NameMapping, folded
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.dialect import contains
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.operations.operators import add_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.sql.family import Connection

_COLUMNS = "id, store, kind, alias, name, instance, created_at, created_by"
# A mapping of the record's own connection comes before one of all connections.
FIND = """
    SELECT name FROM mappings
    WHERE store = :store AND kind = :kind AND folded = :folded
      AND instance IN ('', :instance)
    ORDER BY instance DESC LIMIT 1
"""
_KNOWN = """
    SELECT name FROM mappings WHERE store = :store AND kind = :kind
      AND folded = :folded AND instance = :instance
"""
_PUT = """
    INSERT INTO mappings
      (store, kind, alias, folded, name, instance, created_at, created_by)
    VALUES (:store, :kind, :alias, :folded, :name, :instance, :now, :who)
    ON CONFLICT (store, kind, folded, instance) DO UPDATE SET
      alias = excluded.alias, name = excluded.name, created_at = excluded.created_at,
      created_by = excluded.created_by
"""
_BY_ID = f"SELECT {_COLUMNS} FROM mappings WHERE id = :id"  # noqa: S608 - constants
LIST = f"""
    SELECT {_COLUMNS} FROM mappings
    WHERE (:store IS NULL OR store = :store)
      AND (:words IS NULL OR {contains("lower(alias || ' ' || name)", "lower(:words)")})
      AND id < :before
    ORDER BY id DESC LIMIT :limit
"""  # noqa: S608 - constants


class SqlMappings(Family):
    """Every method is one transaction."""

    @write
    def add(
        self,
        connection: Connection,
        store: str,
        mappings: Sequence[NameMapping],
        who: str,
        reason: str,
    ) -> int:
        now = self._now()
        return sum(
            _put(connection, store, each, AuditEntry(who, "", reason), now)
            for each in mappings
        )

    @write
    def remove(
        self, connection: Connection, id_: int, who: str, reason: str
    ) -> ListedMapping:
        found = by_id(connection, id_)
        if found is None:
            raise BackhaulError(
                f"there is no mapping {id_}; see: backhaul mappings list"
            )
        connection.execute("DELETE FROM mappings WHERE id = :id", {"id": id_})
        kind = MappingKind(found.kind)
        said = NameMapping(kind, found.alias, found.name, found.connection).in_words()
        _audit(connection, found.store, "remove", said, who, reason, self._now())
        return found


def _put(
    connection: Connection,
    store: str,
    mapping: NameMapping,
    entry: AuditEntry,
    now: str,
) -> bool:
    """Store one mapping; return False if it was stored before."""
    values = {
        "store": store,
        "kind": mapping.kind.value,
        "folded": mapping.folded,
        "instance": mapping.connection,
    }
    before = connection.execute(_KNOWN, values).fetchone()
    if before is not None and before[0] == mapping.name:
        return False
    more = {"alias": mapping.alias, "name": mapping.name, "now": now, "who": entry.who}
    connection.execute(_PUT, values | more)
    said = mapping.in_words()
    if before is not None:
        said += f", was {before[0]}"
    _audit(connection, store, "add", said, entry.who, entry.detail, now)
    return True


def _audit(
    connection: Connection,
    store: str,
    verb: str,
    said: str,
    who: str,
    reason: str,
    now: str,
) -> None:
    detail = "; ".join(filter(None, (f"{store}: {said}", reason)))
    add_entry(connection, now, AuditEntry(who, f"mappings {verb}", detail))


def by_id(connection: Connection, id_: int) -> ListedMapping | None:
    """Return one mapping, None if there is none with this number."""
    row = connection.execute(_BY_ID, {"id": id_}).fetchone()
    return None if row is None else ListedMapping(*row)


def find(
    connection: Connection, store: str, kind: MappingKind, instance: str, name: str
) -> str | None:
    """Return what a name of the back office means in the store, None if unknown."""
    values = {
        "store": store,
        "kind": kind.value,
        "folded": folded(kind, name),
        "instance": instance,
    }
    row = connection.execute(FIND, values).fetchone()
    return None if row is None else str(row[0])
