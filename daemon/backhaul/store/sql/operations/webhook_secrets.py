"""Webhook secrets: their fingerprints, and sealed secrets that all daemons can open.

A change gets a number, so that a daemon finds with one read whether there is a new one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backhaul.store.sql.dialect import elements
from backhaul.store.sql.family import Family, background, read, write
from backhaul.store.sql.operations import kv
from backhaul.store.sql.operations.operators import add_entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.operations import AuditEntry
    from backhaul.store.sql.family import Connection, Engine

_REMOVE_OTHERS = f"""
    DELETE FROM webhook_secrets
    WHERE store = :store AND source = :source AND dropped_at IS NULL
      AND fingerprint NOT IN (SELECT value FROM {elements(":names", "$")})
"""  # noqa: S608 - a fragment
_ADD = """
    INSERT INTO webhook_secrets (store, fingerprint, source, known_since)
    VALUES (:store, :name, :source, :now) ON CONFLICT (store, fingerprint) DO NOTHING
"""
_SET_USED = """
    UPDATE webhook_secrets SET last_used_at = :at
    WHERE store = :store AND fingerprint = :name
"""
_LAST_USED = """
    SELECT last_used_at FROM webhook_secrets
    WHERE store = :store AND fingerprint = :name
"""
_SET_REVOKED = """
    UPDATE webhook_secrets SET dropped_at = :at
    WHERE store = :store AND fingerprint = :name
"""
_REVOKED = """
    SELECT fingerprint FROM webhook_secrets
    WHERE store = :store AND dropped_at IS NOT NULL
"""

SEALED = "sealed_secrets:"
"""Before a store's name in the key-value state: its sealed secrets."""
CHANGES = "secret_changes"
CHANGED = "secret_changes:"
"""Before a store's name: the number of the last change of its secrets."""
_ADD_CHANGE = """
    INSERT INTO kv (name, value) VALUES (:name, '1')
    ON CONFLICT (name) DO UPDATE
    SET value = CAST(CAST(kv.value AS BIGINT) + 1 AS TEXT)
"""
_ADOPT = """
    INSERT INTO kv (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING
"""


class SqlWebhookSecrets(Family):
    """Fingerprints of webhook secrets, never a secret itself."""

    @write
    def set_known(
        self, connection: Connection, store: str, names: Sequence[str], source: str
    ) -> set[str]:
        place = {"store": store, "source": source}
        connection.execute(_REMOVE_OTHERS, {**place, "names": json.dumps(list(names))})
        now = self._now()
        connection.executemany(
            _ADD, [{**place, "name": name, "now": now} for name in names]
        )
        return _revoked(connection, store)

    @background
    def record_uses(
        self, connection: Connection, uses: Mapping[tuple[str, str], str]
    ) -> None:
        connection.executemany(
            _SET_USED,
            [
                {"store": store, "name": name, "at": at}
                for (store, name), at in uses.items()
            ],
        )

    @write
    def last_used(self, connection: Connection, store: str, name: str) -> str | None:
        row = connection.execute(_LAST_USED, {"store": store, "name": name}).fetchone()
        return row[0] if row else None

    @write
    def set_revoked(
        self,
        connection: Connection,
        store: str,
        name: str,
        revoked: bool,
        entry: AuditEntry,
    ) -> set[str]:
        now = self._now()
        values = {"store": store, "name": name, "at": now if revoked else None}
        connection.execute(_SET_REVOKED, values)
        add_entry(connection, now, entry)
        _note_change(connection, store)
        return _revoked(connection, store)


def _revoked(connection: Connection, store: str) -> set[str]:
    return {name for (name,) in connection.execute(_REVOKED, {"store": store})}


def _note_change(connection: Connection, store: str) -> None:
    connection.execute(_ADD_CHANGE, {"name": CHANGES})
    kv.put(connection, f"{CHANGED}{store}", kv.get(connection, CHANGES) or "")


class SqlSealedSecrets(Family):
    """Sealed secrets in the key-value state. `free` writes without being the owner."""

    def __init__(self, engine: Engine, free: Engine) -> None:
        super().__init__(engine)
        self._free = free

    @read
    def get(self, connection: Connection, store: str) -> str | None:
        return kv.get(connection, f"{SEALED}{store}")

    @write
    def put(self, connection: Connection, store: str, sealed: str) -> None:
        kv.put(connection, f"{SEALED}{store}", sealed)
        _note_change(connection, store)

    async def adopt(self, store: str, sealed: str) -> None:
        def unit(connection: Connection) -> None:
            values = {"name": f"{SEALED}{store}", "value": sealed}
            if connection.execute(_ADOPT, values).rowcount:
                _note_change(connection, store)

        await self._free.write(unit)

    @read
    def changes(self, connection: Connection, since: int) -> tuple[int, list[str]]:
        newest = int(kv.get(connection, CHANGES) or 0)
        if newest == since:
            return newest, []
        numbers = kv.with_prefix(connection, CHANGED)
        return newest, [store for store, n in numbers.items() if int(n) > since]
