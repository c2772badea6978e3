"""Alerts: a row from the first look that finds a cause until its end was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.store.alerting import Alert, News

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from backhaul.core.clock import Clock
    from backhaul.store.sqlite.writer import Writer

_BEGIN = """
    INSERT INTO alerts (key, says, mend, began_at) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET says = excluded.says, mend = excluded.mend
"""
_KNOWN = "SELECT key, says, mend, told_at IS NOT NULL FROM alerts ORDER BY began_at"


class SqliteAlerts:
    """Every verb is one transaction."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def compare(self, now: Mapping[str, Alert]) -> News:
        """Keep what is wrong now; return what is news. May raise Busy.

        What was over before anybody was told of it is forgotten.
        """
        at = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> News:
            rows = [(one.key, one.says, one.mend, at) for one in now.values()]
            connection.executemany(_BEGIN, rows)
            known = connection.execute(_KNOWN).fetchall()
            gone = [(key,) for key, _, _, told in known if key not in now and not told]
            connection.executemany("DELETE FROM alerts WHERE key = ?", gone)
            begun = [Alert(*row) for *row, told in known if row[0] in now and not told]
            over = [Alert(*row) for *row, told in known if row[0] not in now and told]
            return News(begun, over)

        return await self._writer.urgent(unit)

    async def told(self, news: News) -> None:
        """Keep that a person was told. May raise Busy."""
        at = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE alerts SET told_at = ? WHERE key = ?",
                [(at, one.key) for one in news.begun],
            )
            connection.executemany(
                "DELETE FROM alerts WHERE key = ?", [(one.key,) for one in news.over]
            )

        await self._writer.urgent(unit)
