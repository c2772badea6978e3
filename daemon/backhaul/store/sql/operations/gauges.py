"""Gauges of the database, and one sample a minute for the charts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from backhaul.core.clock import from_text
from backhaul.errors import ReadFailed
from backhaul.runtime.loop import OpenStores
from backhaul.store.operations import MetricSample
from backhaul.store.sql.dialect import epoch, greatest
from backhaul.store.sql.family import Family, background, read
from backhaul.store.sql.mirror.sync_progress import sync_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.store.operations import Gauge
    from backhaul.store.sql.family import Connection

_NEWEST = "(SELECT coalesce(max(id), 0) FROM inbox)"
_LAST_FOLDED = "(SELECT coalesce(max(id), 0) FROM event_outcomes)"
# The last column of each query is the value, the others are labels. An index answers
# each, whatever the number of orders and of resolved commands.
_QUERIES = {
    "events_waiting": f"SELECT {greatest('0', f'{_NEWEST} - {_LAST_FOLDED}')}",
    "oldest_event_waiting_seconds": f"""
        SELECT coalesce((SELECT {epoch(":now")} - {epoch("received_at")} FROM inbox
            WHERE id > {_LAST_FOLDED} ORDER BY id LIMIT 1), 0)
    """,  # noqa: S608 - constants
    "last_webhook_timestamp_seconds": f"""
        SELECT {epoch("received_at")} FROM inbox ORDER BY id DESC LIMIT 1
    """,  # noqa: S608 - a fragment
    "commands_open": """
        SELECT store, kind, state, count(*) FROM commands
        WHERE state IN ('planned', 'sending', 'uncertain') GROUP BY 1, 2, 3
        UNION ALL
        SELECT store, kind, state, count(*) FROM commands
        WHERE state = 'parked' GROUP BY 1, 2, 3
        UNION ALL
        SELECT store, 'target', 'planned', count(*) FROM stock_targets
        WHERE state IN ('waiting', 'adjusting') GROUP BY 1
        UNION ALL
        SELECT store, 'target', 'held', count(*) FROM stock_targets
        WHERE state = 'held' GROUP BY 1
        UNION ALL
        SELECT store, 'target', 'parked', count(*) FROM stock_targets
        WHERE state = 'parked' GROUP BY 1
    """,
    "oldest_command_planned_seconds": f"""
        SELECT store, {epoch(":now")} - {epoch("min(created_at)")} FROM (
          SELECT store, created_at FROM commands
          WHERE state = 'planned' AND hold_reason IS NULL
          UNION ALL
          SELECT store, created_at FROM stock_targets WHERE state = 'waiting') planned
        GROUP BY 1
    """,  # noqa: S608 - fragments
    "objects_in_doubt": "SELECT store, count(*) FROM refetch_queue GROUP BY 1",
    "records_waiting": """
        SELECT instance, count(*) FROM records WHERE state = 'waiting' GROUP BY 1
    """,
    "deliveries_open": """
        SELECT instance, count(*) FROM deliveries
        WHERE state IN ('planned', 'sending', 'uncertain', 'parked')
        GROUP BY 1
    """,
    "quarantine_rows": """
        SELECT name, count(*) FROM quarantine WHERE state = 'open' GROUP BY 1
    """,
    "first_read_timestamp_seconds": f"""
        SELECT store, {epoch("began_at")} FROM passes
        WHERE id IN (SELECT min(id) FROM passes
            WHERE job IN ('backfill', 'full') GROUP BY store)
    """,  # noqa: S608 - a fragment
    "drift_rows": """
        SELECT store, 'missed', sum(missed) FROM passes GROUP BY 1
        UNION ALL SELECT store, 'stale', sum(stale) FROM passes GROUP BY 1
        UNION ALL SELECT store, 'deleted', sum(deleted) FROM passes GROUP BY 1
        UNION ALL SELECT store, 'foreign', sum("foreign") FROM passes GROUP BY 1
    """,
    "unrepaired_rows": """
        SELECT store, sum(unrepaired) FROM passes WHERE id IN (SELECT max(id)
            FROM passes WHERE job = 'full' AND ended_at IS NOT NULL
            GROUP BY store, kind)
        GROUP BY 1
    """,
}
_OVER_ALL_PASSES = frozenset(
    {"first_read_timestamp_seconds", "drift_rows", "unrepaired_rows"}
)
# Each part has an index of its own, which holds open rows only.
OPEN_STORES = """
    SELECT store FROM commands WHERE state IN ('planned', 'sending', 'uncertain')
    UNION SELECT store FROM stock_targets
      WHERE state IN ('waiting', 'adjusting', 'held')
    UNION SELECT store FROM stock_targets WHERE unread = 1
    UNION SELECT store FROM refetch_queue
"""
"""Returns the stores with work that a worker has to do, to check or to wait for."""
_NEWEST_CHANGE = "SELECT coalesce(max(id), 0) FROM changes"
_LAST_RECORD = f"""
    SELECT {epoch("received_at")} FROM records
    WHERE instance = :instance ORDER BY id DESC LIMIT 1
"""  # noqa: S608 - a fragment


class SqlGauges(Family):
    """What the tables contain now, as numbers, and the bytes of the files."""

    async def current(self, instances: Sequence[str]) -> list[Gauge]:
        # A server is asked for its sizes, which takes a while.
        found = await asyncio.to_thread(self._engine.sizes)
        sizes: list[Gauge] = [
            ("database_bytes", float(size), (name,)) for name, size in found.items()
        ]
        try:
            return [*await self._read(instances), *sizes]
        except ReadFailed:
            return sizes

    async def waiting(self) -> list[Gauge]:
        try:
            return await self._waiting()
        except ReadFailed:
            return []

    @read
    def open_stores(self, connection: Connection) -> OpenStores:
        newest = connection.execute(_NEWEST_CHANGE).fetchone()[0]
        found = connection.execute(OPEN_STORES).fetchall()
        return OpenStores(frozenset(row[0] for row in found), newest)

    @read
    def _waiting(self, connection: Connection) -> list[Gauge]:
        return _values(connection, self._now(), _QUERIES.keys() - _OVER_ALL_PASSES)

    @read
    def _read(self, connection: Connection, instances: Sequence[str]) -> list[Gauge]:
        newest = last_records(connection, instances)
        return [
            *_values(connection, self._now(), _QUERIES),
            *_in_sync_since(connection),
            *(("last_record_timestamp_seconds", newest[i], (i,)) for i in newest),
        ]


def _values(connection: Connection, now: str, names: Iterable[str]) -> list[Gauge]:
    return [
        (name, float(value), tuple(labels))
        for name in names
        for *labels, value in connection.execute(_QUERIES[name], {"now": now})
    ]


def _in_sync_since(connection: Connection) -> list[Gauge]:
    return [
        (
            "consistent_as_of_timestamp_seconds",
            from_text(state.as_of).timestamp(),
            (store,),
        )
        for store, state in sync_states(connection).items()
        if state.as_of
    ]


def unrepaired(connection: Connection) -> dict[str, int]:
    """Return how many rows of each store its last full sync could not repair."""
    rows = connection.execute(_QUERIES["unrepaired_rows"])
    return {store: int(number) for store, number in rows}


def last_records(connection: Connection, instances: Iterable[str]) -> dict[str, float]:
    """Return when each connection last submitted a record, in seconds since 1970."""
    return {
        instance: float(at)
        for instance in instances
        for (at,) in connection.execute(_LAST_RECORD, {"instance": instance})
    }


_COLUMNS = MetricSample.__struct_fields__
_ADD = f"""
    INSERT INTO metric_minutes ({", ".join(_COLUMNS)})
    VALUES ({", ".join(f":{column}" for column in _COLUMNS)})
    ON CONFLICT (at, member) DO UPDATE SET
        {", ".join(f"{column} = excluded.{column}" for column in _COLUMNS[2:])}
"""  # noqa: S608 - constants
_MIRRORED = """
    SELECT 'orders' AS name, count(*) AS number FROM orders
    UNION ALL SELECT 'products', count(*) FROM products WHERE deleted_at IS NULL
    UNION ALL SELECT 'customers', count(*) FROM customers
"""


class SqlMetricSamples(Family):
    """Samples, one row a minute of each daemon."""

    @background
    def add(self, connection: Connection, sample: MetricSample, since: str) -> None:
        connection.execute(_ADD, asdict(sample))
        connection.execute(
            "DELETE FROM metric_minutes WHERE at < :since", {"since": since}
        )

    async def count_mirrored(self) -> dict[str, int]:
        try:
            return await self._count_mirrored()
        except ReadFailed:
            return {}

    @read
    def _count_mirrored(self, connection: Connection) -> dict[str, int]:
        return dict(connection.execute(_MIRRORED).fetchall())
