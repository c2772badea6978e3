"""Alerts: a row each, from the first check that finds a problem to its end."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from backhaul.store.operations import Alert, AlertChanges
from backhaul.store.sql.family import Family, write

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from backhaul.store.sql.family import Connection

# A problem that returns begins again, even if some channel did not report its end.
_BEGIN = """
    INSERT INTO alerts (key, says, "mend", began_at)
    VALUES (:key, :text, :remedy, :now)
    ON CONFLICT (key) DO UPDATE SET says = excluded.says, "mend" = excluded."mend",
        began_at = CASE WHEN alerts.gone_at IS NULL THEN alerts.began_at
            ELSE excluded.began_at END,
        gone_at = NULL
    WHERE alerts.gone_at IS NOT NULL OR alerts.says != excluded.says
        OR alerts."mend" != excluded."mend"
"""
_DELETE_REPORTED = """
    DELETE FROM alerts
    WHERE gone_at IS NOT NULL AND key NOT IN (SELECT key FROM alert_notifications)
"""
_KNOWN = """
    SELECT key, says, "mend", began_at, gone_at FROM alerts ORDER BY began_at, key
"""
_REPORTED = "SELECT way, key FROM alert_notifications"
_RECORD_BEGUN = """
    INSERT INTO alert_notifications (way, key, at) VALUES (:channel, :key, :now)
    ON CONFLICT (way, key) DO UPDATE SET at = excluded.at
"""


class SqlAlerts(Family):
    """Alerts, and what each channel has reported of them."""

    @write
    def compare(
        self,
        connection: Connection,
        now: Mapping[str, Alert],
        channels: Collection[str],
    ) -> Mapping[str, AlertChanges]:
        _store(connection, now, self._now())
        _delete(connection, channels)
        known = connection.execute(_KNOWN).fetchall()
        reported = {(way, key) for way, key in connection.execute(_REPORTED)}
        return {
            channel: _changes(known, {key for way, key in reported if way == channel})
            for channel in channels
        }

    @write
    def record_sent(
        self, connection: Connection, channel: str, changes: AlertChanges
    ) -> None:
        now = self._now()
        connection.executemany(
            _RECORD_BEGUN,
            [
                {"channel": channel, "key": alert.key, "now": now}
                for alert in changes.begun
            ],
        )
        connection.executemany(
            "DELETE FROM alert_notifications WHERE way = :channel AND key = :key",
            [{"channel": channel, "key": alert.key} for alert in changes.over],
        )


def _store(connection: Connection, problems: Mapping[str, Alert], now: str) -> None:
    """Store the present problems, and mark the others as ended."""
    connection.executemany(
        _BEGIN,
        [
            {"key": key, "text": alert.text, "remedy": alert.remedy, "now": now}
            for key, alert in problems.items()
        ],
    )
    present = connection.execute("SELECT key FROM alerts WHERE gone_at IS NULL")
    connection.executemany(
        "UPDATE alerts SET gone_at = :now WHERE key = :key",
        [{"now": now, "key": key} for (key,) in present if key not in problems],
    )


def _delete(connection: Connection, channels: Collection[str]) -> None:
    """Delete what removed channels reported, and alerts whose end all have reported."""
    known = connection.execute(
        "SELECT DISTINCT way FROM alert_notifications"
    ).fetchall()
    connection.executemany(
        "DELETE FROM alert_notifications WHERE way = :channel",
        [{"channel": channel} for (channel,) in known if channel not in channels],
    )
    connection.execute(_DELETE_REPORTED)


def _changes(known: Sequence[tuple[Any, ...]], reported: set[str]) -> AlertChanges:
    begun = [row for row in known if row[4] is None and row[0] not in reported]
    over = [row for row in known if row[4] is not None and row[0] in reported]
    parts = [
        f"{key} {began_at} {int(gone_at is not None)}"
        for key, _, _, began_at, gone_at in begun + over
    ]
    return AlertChanges(
        [Alert(*row[:3]) for row in begun],
        [Alert(*row[:3]) for row in over],
        f"alert-{sha256(chr(10).join(parts).encode()).hexdigest()[:32]}",
    )
