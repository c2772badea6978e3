"""What the tables say that may need a person, read beside the writer."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

from backhaul.errors import Busy
from backhaul.store.operations import AlertConditions, BackupState
from backhaul.store.sql.commands import incidents
from backhaul.store.sql.inbox import unreadable_orders
from backhaul.store.sql.inbox.append import FOREIGN
from backhaul.store.sql.operations import orphaned_work
from backhaul.store.sql.operations.gauges import last_records, unrepaired
from backhaul.store.sql.operations.job_runs import FAILED
from backhaul.store.sql.stock_targets.adjustments import STOPPED
from backhaul.store.sqlite.connections import Readers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PARKED = """
    SELECT id, store, kind, target, reason FROM commands WHERE state = 'parked'
    ORDER BY seq
"""
# Sent so often, and found nowhere each time: that looks like a fault of this object.
SENT_IN_VAIN = 5
_IN_VAIN = f"""
    SELECT id, store, kind, target, reason, (
        SELECT count(*) FROM attempts a WHERE a.command_id = c.id
        AND (a.outcome IS NULL OR a.outcome = 'uncertain')) AS times
    FROM commands c INDEXED BY commands_lane
    WHERE state IN ('planned', 'sending', 'uncertain') AND attempts >= {SENT_IN_VAIN}
    AND times >= {SENT_IN_VAIN}
    ORDER BY seq
"""  # noqa: S608 - constants
# What is no JSON is damaged, and parked for that. What is proved to be another's own is
# doubled no more: after a restore the record that asks for it may come in later.
_DOUBLED = """
    SELECT id, store, kind, target, (
        SELECT group_concat(value, ', ') FROM json_each(
            iif(json_valid(evidence), evidence, '{}'), '$.doubled')
        WHERE NOT EXISTS (SELECT 1 FROM commands o
            WHERE o.store = c.store AND o.effect_id = value AND o.id != c.id)) AS others
    FROM commands c WHERE instr(evidence, '"doubled"') > 0 AND others IS NOT NULL
    ORDER BY seq
"""
# Of a database that was restored: its commands are known by their tags only.
_ADOPTED = """
    SELECT command_id AS id, store, 'adjust' AS kind, 'unknown goods' AS target,
        group_concat(adjustment_id, ', ') AS others
    FROM adopted WHERE command_id NOT IN (SELECT id FROM commands)
    GROUP BY command_id, store HAVING count(*) > 1
"""
_TWICE = (_DOUBLED, _ADOPTED)
# By the index of those that are not settled.
_NEWS_PARKED = """
    SELECT seq, instance, store, topic, object_id, reason FROM deliveries
    WHERE state IN ('planned', 'sending', 'uncertain', 'parked') AND state = 'parked'
    ORDER BY seq
"""
_NEWS_SINCE = """
    SELECT s.instance, min(
        coalesce((SELECT created_at FROM deliveries d
            WHERE d.instance = s.instance AND d.state = 'planned' AND NOT EXISTS (
                SELECT 1 FROM deliveries p WHERE p.instance = d.instance
                AND p.object_id = d.object_id AND p.seq < d.seq AND p.state = 'parked'
                AND p.state IN ('planned', 'sending', 'uncertain', 'parked'))
            ORDER BY d.seq LIMIT 1), :never),
        coalesce((SELECT min(created_at) FROM deliveries d
            WHERE d.instance = s.instance AND d.state IN ('sending', 'uncertain')),
            :never)) AS since
    FROM subscribers s
"""
_NEVER = "9999"
_MARKED = "SELECT substr(name, ?), value FROM marks WHERE name GLOB ?"
# By their id: a clock may have been ahead. The + keeps SQLite from all other jobs.
_BACKUP = """
    SELECT outcome, detail FROM job_runs
    WHERE job = 'backup' AND outcome IN ('done', 'failed')
    ORDER BY +id DESC LIMIT 1
"""
_BACKED_UP = """
    SELECT max(since, coalesce((SELECT started_at FROM job_runs
            WHERE job = 'backup' AND outcome = 'done'
            ORDER BY +id DESC LIMIT 1), '')) AS last,
        iif(outcome = 'running', started_at, NULL) AS running_since
    FROM job_state WHERE job = 'backup'
"""


class SqlAlertConditions:
    """Reads in a thread."""

    def __init__(self, path: Path) -> None:
        self._readers = Readers(path)

    def close(self) -> None:
        """Close what is idle."""
        self._readers.close()

    async def read(self, instances: Iterable[str]) -> AlertConditions:
        """Return all of it. Raises Busy: what cannot be read is not over."""
        return await asyncio.to_thread(self._read, tuple(instances))

    def _read(self, instances: tuple[str, ...]) -> AlertConditions:
        try:
            with self._readers.lend() as connection:
                return _found(connection, instances)
        except sqlite3.Error as error:
            raise Busy(f"what needs a person cannot be read: {error}") from None


def _found(
    connection: sqlite3.Connection, instances: tuple[str, ...]
) -> AlertConditions:
    return AlertConditions(
        [dict(row) for row in connection.execute(_PARKED)],
        unrepaired(connection),
        last_records(connection, instances),
        [dict(row) for query in _TWICE for row in connection.execute(query)],
        _marked(connection, STOPPED),
        _backup(connection),
        orphaned_work.names(connection),
        [dict(row) for row in connection.execute(_NEWS_PARKED)],
        _news_since(connection),
        [dict(row) for row in connection.execute(_IN_VAIN)],
        _marked(connection, FOREIGN),
        unreadable_orders.listed(connection),
        [dict(row) for row in connection.execute(incidents.OPEN)],
    )


def _marked(connection: sqlite3.Connection, prefix: str) -> dict[str, str]:
    """Return what is marked of each store."""
    found = connection.execute(_MARKED, (len(prefix) + 1, f"{prefix}*"))
    return dict(found.fetchall())


def _news_since(connection: sqlite3.Connection) -> dict[str, str]:
    found = connection.execute(_NEWS_SINCE, {"never": _NEVER}).fetchall()
    return {instance: since for instance, since in found if since != _NEVER}


def _backup(connection: sqlite3.Connection) -> BackupState | None:
    """Return None before the job is known."""
    stands = connection.execute(_BACKED_UP).fetchone()
    if stands is None:
        return None
    ended = connection.execute(_BACKUP).fetchone()
    failed = ended["detail"] if ended and ended["outcome"] == FAILED else None
    return BackupState(failed, stands["last"], stands["running_since"])
