"""Documents that connectors keep, in a table by connection and key."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from backhaul.store.sql.family import Family
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul_sdk.database import MOST_LISTED, end_of_prefix, require_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from backhaul.store.sql.family import Connection
    from backhaul_sdk import Documents, NameInStore

T = TypeVar("T")
_GET = """
    SELECT value FROM connector_documents WHERE instance = :instance AND key = :key
"""
_PUT = """
    INSERT INTO connector_documents (instance, key, value)
    VALUES (:instance, :key, :value)
    ON CONFLICT (instance, key) DO UPDATE SET value = excluded.value
"""
_DELETE = """
    DELETE FROM connector_documents WHERE instance = :instance AND key = :key
"""
_LIST = """
    SELECT key, value FROM connector_documents
    WHERE instance = :instance AND key >= :prefix AND key > :after AND key < :end
    ORDER BY key LIMIT :limit
"""


class SqlDocuments:
    """The documents of one connection, and the mirror of its store, in a unit."""

    def __init__(
        self, connection: Connection, instance: str, store: str | None
    ) -> None:
        self._connection = connection
        self._instance = instance
        self._store = store

    def get(self, key: str) -> bytes | None:
        values = {"instance": self._instance, "key": key}
        row = self._connection.execute(_GET, values).fetchone()
        return None if row is None else bytes(row[0])

    def put(self, key: str, value: bytes) -> None:
        require_key(key)
        values = {"instance": self._instance, "key": key, "value": value}
        self._connection.execute(_PUT, values)

    def delete(self, key: str) -> None:
        values = {"instance": self._instance, "key": key}
        self._connection.execute(_DELETE, values)

    def list(
        self, prefix: str, *, after: str = "", limit: int = MOST_LISTED
    ) -> Sequence[tuple[str, bytes]]:
        values = {
            "instance": self._instance,
            "prefix": prefix,
            "after": after,
            "end": end_of_prefix(prefix),
            "limit": limit,
        }
        rows = self._connection.execute(_LIST, values).fetchall()
        return [(key, bytes(value)) for key, value in rows]

    def find_in_store(self, names: Sequence[str]) -> Mapping[str, NameInStore] | None:
        if self._store is None:
            return None
        reader = MirrorReader(self._connection)
        return {name: reader.named(self._store, name) for name in names}


class SqlConnectorDocuments(Family):
    """Documents of all connections."""

    def transact(
        self, instance: str, store: str | None, work: Callable[[Documents], T]
    ) -> Awaitable[T]:
        return self._engine.write(lambda c: work(SqlDocuments(c, instance, store)))
