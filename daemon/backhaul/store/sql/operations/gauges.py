"""Gauges of the database, and one sample a minute for the charts."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from backhaul.core.clock import from_text, to_text
from backhaul.errors import ReadFailed
from backhaul.store.sql.family import Family, background, read
from backhaul.store.sql.mirror.sync_progress import consistency
from backhaul.store.sqlite.connections import Readers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.operations import MetricSample
    from backhaul.store.sql.family import Connection


Gauge = tuple[str, float, tuple[str, ...]]
"""Name, value, and the values of its labels."""

# Each query's last column is the value, the others are labels. All are answered by an
# index, whatever the number of orders and of settled commands.
_QUERIES = {
    "events_waiting": """
        SELECT max(0, (SELECT coalesce(max(id), 0) FROM inbox)
            - (SELECT coalesce(max(id), 0) FROM event_outcomes))
    """,
    "oldest_event_waiting_seconds": """
        SELECT coalesce((SELECT (julianday(:now) - julianday(received_at)) * 86400
            FROM inbox
            WHERE id > (SELECT coalesce(max(id), 0) FROM event_outcomes)
            ORDER BY id LIMIT 1), 0)
    """,
    "last_webhook_timestamp_seconds": """
        SELECT (julianday(received_at) - 2440587.5) * 86400 FROM inbox
        ORDER BY id DESC LIMIT 1
    """,
    "commands_open": """
        SELECT store, kind, state, count(*) FROM commands
        WHERE state IN ('planned', 'sending', 'uncertain') GROUP BY 1, 2, 3
        UNION ALL
        SELECT store, kind, state, count(*) FROM commands
        WHERE state = 'parked' GROUP BY 1, 2, 3
    """,
    "oldest_command_planned_seconds": """
        SELECT store, (julianday(:now) - julianday(min(created_at))) * 86400
        FROM commands WHERE state = 'planned' AND held = 0 GROUP BY 1
    """,
    "objects_in_doubt": "SELECT store, count(*) FROM rereads GROUP BY 1",
    "records_waiting": """
        SELECT instance, count(*) FROM records WHERE state = 'waiting' GROUP BY 1
    """,
    "quarantine_rows": """
        SELECT name, count(*) FROM quarantine WHERE state = 'open' GROUP BY 1
    """,
    "first_read_timestamp_seconds": """
        SELECT store, (julianday(began_at) - 2440587.5) * 86400 FROM sweeps
        WHERE id IN (SELECT min(id) FROM sweeps
            WHERE job IN ('backfill', 'full') GROUP BY store)
    """,
    "drift_rows": """
        SELECT store, 'missed', sum(missed) FROM sweeps GROUP BY 1
        UNION ALL SELECT store, 'stale', sum(stale) FROM sweeps GROUP BY 1
        UNION ALL SELECT store, 'deleted', sum(deleted) FROM sweeps GROUP BY 1
        UNION ALL SELECT store, 'foreign', sum("foreign") FROM sweeps GROUP BY 1
    """,
    "unrepaired_rows": """
        SELECT store, sum(unrepaired) FROM sweeps WHERE id IN (SELECT max(id)
            FROM sweeps WHERE job = 'full' AND ended_at IS NOT NULL
            GROUP BY store, kind)
        GROUP BY 1
    """,
}
_OVER_ALL_WALKS = frozenset(
    {"first_read_timestamp_seconds", "drift_rows", "unrepaired_rows"}
)
_LAST_RECORD = """
    SELECT (julianday(received_at) - 2440587.5) * 86400 FROM records
    WHERE instance = ? ORDER BY id DESC LIMIT 1
"""


class SqlGauges:
    """Reads in a thread, on a connection beside the writer's."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._readers = Readers(path)

    def close(self) -> None:
        """Close what is idle."""
        self._readers.close()

    async def read(self, instances: Sequence[str]) -> list[Gauge]:
        """Return what the tables and the files say now; none of a file that cannot."""
        return await asyncio.to_thread(self._read, instances)

    async def waiting(self) -> list[Gauge]:
        """Return what waits, for who asks often: walks are not added up for it."""
        return await asyncio.to_thread(self._waiting)

    def _waiting(self) -> list[Gauge]:
        try:
            with self._readers.lend() as connection:
                now = to_text(self._clock.now())
                return _asked(connection, now, _QUERIES.keys() - _OVER_ALL_WALKS)
        except sqlite3.Error:
            return []

    def _read(self, instances: Sequence[str]) -> list[Gauge]:
        try:
            with self._readers.lend() as connection:
                return [
                    *_asked(connection, to_text(self._clock.now()), _QUERIES),
                    *_equal_since(connection),
                    *(
                        ("last_record_timestamp_seconds", at, (instance,))
                        for instance, at in last_records(connection, instances).items()
                    ),
                    *_sizes(self._path),
                ]
        except sqlite3.Error:
            return _sizes(self._path)


def _asked(
    connection: sqlite3.Connection, now: str, names: Iterable[str]
) -> list[Gauge]:
    return [
        (name, float(value), tuple(labels))
        for name in names
        for *labels, value in connection.execute(_QUERIES[name], {"now": now})
    ]


def _equal_since(connection: sqlite3.Connection) -> list[Gauge]:
    return [
        (
            "consistent_as_of_timestamp_seconds",
            from_text(found["as_of"]).timestamp(),
            (store,),
        )
        for store, found in consistency(connection).items()
        if found["as_of"]
    ]


def unrepaired(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the rows of each store that the last full walks could not repair."""
    return dict(connection.execute(_QUERIES["unrepaired_rows"]).fetchall())


def last_records(
    connection: sqlite3.Connection, instances: Iterable[str]
) -> dict[str, float]:
    """Return when each instance last brought something, in seconds since 1970."""
    return {
        instance: float(at)
        for instance in instances
        for (at,) in connection.execute(_LAST_RECORD, (instance,))
    }


def _sizes(path: Path) -> list[Gauge]:
    files = {"database": path, "log": path.with_name(f"{path.name}-wal")}
    return [
        ("database_bytes", float(file.stat().st_size), (name,))
        for name, file in files.items()
        if file.exists()
    ]


_KEEP = """
    INSERT INTO samples (at, webhooks, folded, applied, platform_seconds,
        heartbeat_seconds, events_waiting, commands_open, parked)
    VALUES (:at, :webhooks, :folded, :applied, :platform_seconds,
        :heartbeat_seconds, :events_waiting, :commands_open, :parked)
    ON CONFLICT (at) DO UPDATE SET webhooks = excluded.webhooks,
        folded = excluded.folded, applied = excluded.applied,
        platform_seconds = excluded.platform_seconds,
        heartbeat_seconds = excluded.heartbeat_seconds,
        events_waiting = excluded.events_waiting,
        commands_open = excluded.commands_open, parked = excluded.parked
"""
_MIRRORED = """
    SELECT 'orders', count(*) FROM orders
    UNION ALL SELECT 'products', count(*) FROM products WHERE deleted_at IS NULL
    UNION ALL SELECT 'customers', count(*) FROM customers
"""


class SqlMetricSamples(Family):
    """Keeps a sample a minute."""

    @background
    def add(self, connection: Connection, sample: MetricSample, since: str) -> None:
        connection.execute(_KEEP, asdict(sample))
        connection.execute("DELETE FROM samples WHERE at < :since", {"since": since})

    async def count_mirrored(self) -> dict[str, int]:
        try:
            return await self._count_mirrored()
        except ReadFailed:
            return {}

    @read
    def _count_mirrored(self, connection: Connection) -> dict[str, int]:
        return dict(connection.execute(_MIRRORED).fetchall())
