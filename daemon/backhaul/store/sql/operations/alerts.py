"""Alerts: a row from the first look that finds a cause until every way told its end."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.store.operations import Alert, AlertChanges

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.sqlite.writer import Writer

# What comes back after it was gone begins anew, though its end was not told to all.
_BEGIN = """
    INSERT INTO alerts (key, says, mend, began_at) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET says = excluded.says, mend = excluded.mend,
        began_at = iif(gone_at IS NULL, began_at, excluded.began_at), gone_at = NULL
    WHERE gone_at IS NOT NULL OR says != excluded.says OR mend != excluded.mend
"""
_PRESENT = "SELECT key FROM alerts WHERE gone_at IS NULL"
_FORGET = """
    DELETE FROM alerts
    WHERE gone_at IS NOT NULL AND key NOT IN (SELECT key FROM alerts_told)
"""
_KNOWN = """
    SELECT key, says, mend, began_at, gone_at IS NOT NULL FROM alerts
    ORDER BY began_at, key
"""


class SqlAlerts:
    """Every verb is one transaction."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def compare(
        self, now: Mapping[str, Alert], ways: Collection[str]
    ) -> Mapping[str, AlertChanges]:
        """Keep what is wrong now; return what is news for each way. May raise Busy.

        What was over before a way told of it is forgotten there.
        """
        at = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> dict[str, AlertChanges]:
            _keep(connection, now, at)
            _forget(connection, ways)
            known = connection.execute(_KNOWN).fetchall()
            told = {*connection.execute("SELECT way, key FROM alerts_told")}
            return {
                way: _news(known, {key for by, key in told if by == way})
                for way in ways
            }

        return await self._writer.urgent(unit)

    async def record_sent(self, way: str, news: AlertChanges) -> None:
        """Keep that a person was told by a way. May raise Busy."""
        at = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT OR REPLACE INTO alerts_told (way, key, at) VALUES (?, ?, ?)",
                [(way, one.key, at) for one in news.begun],
            )
            connection.executemany(
                "DELETE FROM alerts_told WHERE way = ? AND key = ?",
                [(way, one.key) for one in news.over],
            )

        await self._writer.urgent(unit)


def _keep(connection: sqlite3.Connection, now: Mapping[str, Alert], at: str) -> None:
    rows = [(one.key, one.says, one.mend, at) for one in now.values()]
    connection.executemany(_BEGIN, rows)
    gone = [(at, key) for (key,) in connection.execute(_PRESENT) if key not in now]
    connection.executemany("UPDATE alerts SET gone_at = ? WHERE key = ?", gone)


def _forget(connection: sqlite3.Connection, ways: Collection[str]) -> None:
    kept = connection.execute("SELECT DISTINCT way FROM alerts_told").fetchall()
    left = [(way,) for (way,) in kept if way not in ways]
    connection.executemany("DELETE FROM alerts_told WHERE way = ?", left)
    connection.execute(_FORGET)


def _news(
    known: Sequence[tuple[str, str, str, str, int]], told: set[str]
) -> AlertChanges:
    begun = [row for row in known if not row[4] and row[0] not in told]
    over = [row for row in known if row[4] and row[0] in told]
    lives = [f"{key} {began_at} {gone}" for key, _, _, began_at, gone in begun + over]
    return AlertChanges(
        [Alert(*row[:3]) for row in begun],
        [Alert(*row[:3]) for row in over],
        f"alert-{sha256(chr(10).join(lives).encode()).hexdigest()[:32]}",
    )
