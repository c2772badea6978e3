"""Fingerprints of the webhook secrets: since when each is known, used and dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.store.sql.operations.audit_log import add_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.operations import AuditEntry
    from backhaul.store.sqlite.writer import Writer


class SqlWebhookSecrets:
    """Never holds a secret: its fingerprint names it."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def set_known(
        self, store: str, names: Sequence[str], source: str
    ) -> set[str]:
        """Make these all of what is known from `source`; return the store's dropped.

        What a person dropped stays known, so that it cannot come back by accident.
        """
        now = to_text(self._clock.now())
        places = ", ".join("?" * len(names))

        def unit(connection: sqlite3.Connection) -> set[str]:
            connection.execute(
                "DELETE FROM webhook_secrets WHERE store = ? AND source = ?"  # noqa: S608 - question marks
                f" AND dropped_at IS NULL AND fingerprint NOT IN ({places})",
                (store, source, *names),
            )
            connection.executemany(
                "INSERT OR IGNORE INTO webhook_secrets"
                " (store, fingerprint, source, known_since) VALUES (?, ?, ?, ?)",
                [(store, name, source, now) for name in names],
            )
            return _dropped(connection, store)

        return await self._writer.urgent(unit)

    async def record_uses(self, uses: Mapping[tuple[str, str], str]) -> None:
        """Write down when each (store, fingerprint) was last used."""

        def unit(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE webhook_secrets SET last_used_at = ?"
                " WHERE store = ? AND fingerprint = ?",
                [(at, store, name) for (store, name), at in uses.items()],
            )

        await self._writer.background(unit)

    async def last_used(self, store: str, name: str) -> str | None:
        """Return when the secret last signed a delivery."""

        def unit(connection: sqlite3.Connection) -> str | None:
            row = connection.execute(
                "SELECT last_used_at FROM webhook_secrets"
                " WHERE store = ? AND fingerprint = ?",
                (store, name),
            ).fetchone()
            return row[0] if row else None

        return await self._writer.urgent(unit)

    async def set_dropped(
        self, store: str, name: str, dropped: bool, deed: AuditEntry
    ) -> set[str]:
        """Remember that a person dropped the secret, or took it back; return all."""
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> set[str]:
            connection.execute(
                "UPDATE webhook_secrets SET dropped_at = ?"
                " WHERE store = ? AND fingerprint = ?",
                (now if dropped else None, store, name),
            )
            add_entry(connection, now, deed)
            return _dropped(connection, store)

        return await self._writer.urgent(unit)


def _dropped(connection: sqlite3.Connection, store: str) -> set[str]:
    rows = connection.execute(
        "SELECT fingerprint FROM webhook_secrets"
        " WHERE store = ? AND dropped_at IS NOT NULL",
        (store,),
    )
    return {name for (name,) in rows}
