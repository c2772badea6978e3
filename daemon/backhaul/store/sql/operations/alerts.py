"""Alerts: what the tables contain that may raise one, and a row for each."""

from __future__ import annotations

import json
from datetime import timedelta
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import earlier
from backhaul.errors import Busy, ReadFailed
from backhaul.store.operations import (
    Alert,
    AlertChanges,
    AlertConditions,
    BackupState,
    CommandProblem,
    OpenIncident,
    OrphanedWork,
    ParkedDelivery,
)
from backhaul.store.sql.commands.queries import ABOUT, IS_PARKED
from backhaul.store.sql.dialect import contains, elements, greatest, least
from backhaul.store.sql.family import Family, read, write
from backhaul.store.sql.inbox import unreadable_orders
from backhaul.store.sql.inbox.fold import FOREIGN
from backhaul.store.sql.mirror import payment_states
from backhaul.store.sql.operations import kv
from backhaul.store.sql.operations.gauges import last_records, unrepaired
from backhaul.store.sql.operations.job_runs import FAILED, RUNNING
from backhaul.store.sql.stock_targets import held_targets
from backhaul.store.sql.stock_targets.adjustments import STOPPED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from backhaul.store.sql.family import Connection


_OPEN = "state IN ('planned', 'sending', 'uncertain')"
_OPEN_TARGET = "state IN ('waiting', 'adjusting', 'held')"
# From each name to the next one in the index, past all open commands of one store.
_STORES = f"""
    WITH RECURSIVE named(store) AS (
      SELECT min(store) FROM commands WHERE {_OPEN}
      UNION ALL
      SELECT (SELECT min(c.store) FROM commands c
              WHERE c.{_OPEN} AND c.store > named.store)
      FROM named WHERE store IS NOT NULL),
    counted(store) AS (
      SELECT min(store) FROM stock_targets WHERE {_OPEN_TARGET}
      UNION ALL
      SELECT (SELECT min(t.store) FROM stock_targets t
              WHERE t.{_OPEN_TARGET} AND t.store > counted.store)
      FROM counted WHERE store IS NOT NULL)
    SELECT store FROM named WHERE store IS NOT NULL
    UNION SELECT store FROM counted WHERE store IS NOT NULL
"""  # noqa: S608 - constants
_OTHERS = f"store NOT IN (SELECT value FROM {elements(':stores', '$')})"  # noqa: S608 - a fragment
_COUNTS = f"""
    SELECT store, sum(commands) AS commands, sum(counts) AS counts,
           sum(events) AS events
    FROM (
      SELECT store, count(*) AS commands, 0 AS counts, 0 AS events
      FROM commands WHERE {_OPEN} AND {_OTHERS}
      GROUP BY store
      UNION ALL
      SELECT store, 0, count(*), 0
      FROM stock_targets WHERE {_OPEN_TARGET} AND {_OTHERS}
      GROUP BY store
      UNION ALL
      SELECT store, 0, 0, count(*) FROM inbox
      WHERE id > (SELECT coalesce(max(id), 0) FROM event_outcomes) AND {_OTHERS}
      GROUP BY store) AS parts
    GROUP BY store ORDER BY store
"""  # noqa: S608 - constants


def open_stores(connection: Connection) -> frozenset[str]:
    """Return the stores with an open command or an open count."""
    return frozenset(row[0] for row in connection.execute(_STORES))


def of_other_stores(
    connection: Connection, stores: Iterable[str]
) -> tuple[OrphanedWork, ...]:
    """Return the open work of each store that is not one of these."""
    values = {"stores": json.dumps(list(stores))}
    return tuple(
        OrphanedWork(store, int(commands), int(counts), int(events))
        for store, commands, counts, events in connection.execute(_COUNTS, values)
    )


_PARKED = f"""
    SELECT id, store, kind, target, reason, {ABOUT}
    FROM commands_and_targets c WHERE {IS_PARKED} ORDER BY seq
"""  # noqa: S608 - a fragment
REPEATED = 5
"""After so many inconclusive attempts the cause may be this command, not an outage."""
_REPEATED = f"""
    SELECT c.seq, c.id, c.store, c.kind, c.target, c.reason
    FROM commands c
    WHERE c.state IN ('planned', 'sending', 'uncertain') AND c.attempts >= {REPEATED}
      AND (SELECT count(*) FROM attempts a WHERE a.command_id = c.id
           AND (a.outcome IS NULL OR a.outcome = 'uncertain')) >= {REPEATED}
"""  # noqa: S608 - constants
# A command with a damaged document is parked for that. A surplus effect that is proved
# to be another command's own is none: after a restore its record may come in later.
_DOUBLED_KEY = """'"doubled"'"""
_DOUBLED = f"""
    SELECT c.seq, c.id, c.store, c.kind, c.target, e.value
    FROM commands c CROSS JOIN {elements("c.evidence", "$.doubled")} e
    WHERE {contains("c.evidence", _DOUBLED_KEY)}
      AND NOT EXISTS (SELECT 1 FROM commands o
        WHERE o.store = c.store AND o.effect_id = e.value AND o.id != c.id)
"""  # noqa: S608 - fragments
# After a restore only their reference tags show these commands.
_DOUBLED_BEFORE_RESTORE = """
    SELECT a.command_id, a.store, a.adjustment_id
    FROM adopted_effects a JOIN (
        SELECT command_id, store FROM adopted_effects
        WHERE command_id NOT IN (SELECT id FROM commands)
        GROUP BY command_id, store HAVING count(*) > 1) d
      ON d.command_id = a.command_id AND d.store = a.store
    ORDER BY a.command_id, a.store, a.adjustment_id
"""
# The first condition is that of an index.
_PARKED_DELIVERIES = """
    SELECT seq, instance, store, topic, object_id, reason FROM deliveries
    WHERE state IN ('planned', 'sending', 'uncertain', 'parked') AND state = 'parked'
"""
_OLDEST_PLANNED = """
    coalesce((SELECT created_at FROM deliveries d
        WHERE d.instance = s.instance AND d.state = 'planned' AND NOT EXISTS (
            SELECT 1 FROM deliveries p WHERE p.instance = d.instance
            AND p.object_id = d.object_id AND p.seq < d.seq AND p.state = 'parked'
            AND p.state IN ('planned', 'sending', 'uncertain', 'parked'))
        ORDER BY d.seq LIMIT 1), :never)
"""
_OLDEST_SENT = """
    coalesce((SELECT min(created_at) FROM deliveries d
        WHERE d.instance = s.instance AND d.state IN ('sending', 'uncertain')), :never)
"""
_DELIVERIES_SINCE = f"""
    SELECT s.instance, {least(_OLDEST_PLANNED, _OLDEST_SENT)} AS since
    FROM change_subscribers s
"""  # noqa: S608 - fragments
_NEVER = "9999"
_INCIDENTS = """
    SELECT id, store, says FROM incidents WHERE resolved_at IS NULL ORDER BY id
"""
# The newest by id: the clock may have been ahead. `+ 0` keeps SQLite from reading all
# other jobs' runs in the order of their ids.
_LAST_BACKUP = """
    SELECT outcome, detail FROM job_runs
    WHERE job = 'backup' AND outcome IN ('done', 'failed')
    ORDER BY id + 0 DESC LIMIT 1
"""
_LAST_DONE = """
    coalesce((SELECT started_at FROM job_runs WHERE job = 'backup' AND outcome = 'done'
              ORDER BY id + 0 DESC LIMIT 1), '')
"""
_BACKUP_STATE = f"""
    SELECT {greatest("since", _LAST_DONE)}, outcome, started_at
    FROM job_state WHERE job = 'backup'
"""  # noqa: S608 - constants


HOUR = timedelta(hours=1)
_QUARANTINED = "SELECT count(*) FROM quarantine WHERE state = 'open'"
_PAUSED = """
    SELECT job, store FROM job_state WHERE paused_at IS NOT NULL ORDER BY job, store
"""
RECENT_EVENTS = 20_000
"""How many of the newest events are searched for unknown topics."""
_UNKNOWN_TOPICS = f"""
    SELECT topic, count(*) AS n FROM event_outcomes
    WHERE state = 'unhandled' AND detail NOT LIKE 'belongs to%'
      AND folded_at >= :since
      AND id > (SELECT coalesce(max(id), 0) FROM event_outcomes) - {RECENT_EVENTS}
    GROUP BY topic ORDER BY n DESC, topic
"""  # noqa: S608 - constants


class SqlAlertConditions(Family):
    """What may raise an alert, in one read."""

    async def current(self, instances: Iterable[str]) -> AlertConditions:
        try:
            return await self._read(tuple(instances))
        except ReadFailed as error:
            raise Busy(
                "Backhaul cannot read from the database whether there are problems"
                f" to report: {error}"
            ) from None

    @read
    def _read(
        self, connection: Connection, instances: tuple[str, ...]
    ) -> AlertConditions:
        return conditions(connection, instances, earlier(self._now(), HOUR))


def conditions(
    connection: Connection, instances: Iterable[str], since: str
) -> AlertConditions:
    """Return what may be a problem; unknown topics are counted since a time."""
    return AlertConditions(
        parked=[CommandProblem(*row) for row in connection.execute(_PARKED)],
        unrepaired=unrepaired(connection),
        last_records=last_records(connection, instances),
        doubled=_doubled(connection),
        counts_stopped=kv.with_prefix(connection, STOPPED),
        held_targets=held_targets.summary(connection),
        backup=_backup(connection),
        open_stores=open_stores(connection),
        parked_deliveries=[
            ParkedDelivery(*row) for row in _sorted(connection, _PARKED_DELIVERIES)
        ],
        deliveries_since=_deliveries_since(connection),
        repeated=_repeated(connection),
        foreign_webhooks=kv.with_prefix(connection, FOREIGN),
        unreadable=unreadable_orders.list_all(connection),
        incidents=[OpenIncident(*row) for row in connection.execute(_INCIDENTS)],
        quarantined=int(connection.execute(_QUARANTINED).fetchone()[0]),
        unknown_statuses=payment_states.unknown_statuses(connection),
        unknown_topics=unknown_topics(connection, since),
        paused_jobs=[(job, store) for job, store in connection.execute(_PAUSED)],
    )


def unknown_topics(connection: Connection, since: str) -> dict[str, int]:
    """Count recent events by their unknown topic, the most frequent first."""
    return dict(connection.execute(_UNKNOWN_TOPICS, {"since": since}).fetchall())


def _repeated(connection: Connection) -> list[CommandProblem]:
    rows = _sorted(connection, _REPEATED)
    return [CommandProblem(*row) for _, *row in rows]


def _doubled(connection: Connection) -> list[CommandProblem]:
    """Return the commands with surplus effects, each with the ids of all of them."""
    found = []
    for _, effects in groupby(_sorted(connection, _DOUBLED), _first):
        (_, id_, store, kind, target, effect), *more = effects
        others = ", ".join([effect, *(row[-1] for row in more)])
        found.append(CommandProblem(id_, store, kind, target, others))
    for (id_, store), effects in groupby(
        connection.execute(_DOUBLED_BEFORE_RESTORE), lambda row: (row[0], row[1])
    ):
        others = ", ".join(row[-1] for row in effects)
        found.append(CommandProblem(id_, store, "adjust", "unknown goods", others))
    return found


def _sorted(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    """Return rows by their first column: with ORDER BY, SQLite reads whole tables."""
    return sorted(connection.execute(query), key=_first)


def _first(row: tuple[Any, ...]) -> Any:
    return row[0]


def _deliveries_since(connection: Connection) -> dict[str, str]:
    rows = connection.execute(_DELIVERIES_SINCE, {"never": _NEVER})
    return {instance: since for instance, since in rows if since != _NEVER}


def _backup(connection: Connection) -> BackupState | None:
    """Return None until the job is known."""
    row = connection.execute(_BACKUP_STATE).fetchone()
    if row is None:
        return None
    last, outcome, started_at = row
    ended = connection.execute(_LAST_BACKUP).fetchone()
    failed = ended[1] if ended and ended[0] == FAILED else None
    return BackupState(failed, last, started_at if outcome == RUNNING else None)


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
