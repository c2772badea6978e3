"""Fingerprints of the webhook secrets: since when each is known, used and revoked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backhaul.store.sql.dialect import elements
from backhaul.store.sql.family import Family, background, write
from backhaul.store.sql.operations.operators import add_entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.operations import AuditEntry
    from backhaul.store.sql.family import Connection

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
        return _revoked(connection, store)


def _revoked(connection: Connection, store: str) -> set[str]:
    return {name for (name,) in connection.execute(_REVOKED, {"store": store})}
