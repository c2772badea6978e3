"""Retention: bodies and headers go with age; the outcomes of events stay.

So do old job runs and attempts of deliveries, and stock counts that changed nothing.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.store.operations import Pruned
from backhaul.store.sql.family import Family, background
from backhaul.store.sql.operations import kv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store.sql.family import Connection, Engine


COUNT_CURSOR = "old_counts_cursor"
"""Key of the id of the last record that was checked; none is checked twice."""
COUNT_BATCH = 16
NEWEST = 20
"""One of so many counts of the variant, the newest ones, must have been applied."""
# The ids of deleted rows must not be used again, so the newest row of a table stays.
# The newest record of a connection shows when the connection last submitted anything.
# Of two counts made at one time the later row counts, so both stay.
_MAY_GO = f"""
    r.id < (SELECT max(o.id) FROM records o WHERE o.instance = r.instance)
    AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.source = 'record'
      AND q.name = r.instance AND q.key = r.key)
    AND (r.state = 'replaced' OR r.state = 'accepted'
      AND t.state IN ('applied', 'superseded')
      AND t.seq < (SELECT max(seq) FROM stock_targets)
      AND t.correction IS NULL
      AND t.as_of < (SELECT max(as_of) FROM (
        SELECT n.as_of, n.state FROM stock_targets n
        WHERE n.variant_id = t.variant_id AND n.store = t.store
        ORDER BY n.as_of DESC LIMIT {NEWEST}) s WHERE s.state = 'applied')
      AND NOT EXISTS (SELECT 1 FROM audit a WHERE a.command_id = t.id)
      AND NOT EXISTS (
        SELECT 1 FROM adopted_effects a JOIN stock_ledger l
          ON l.store = a.store AND l.adjustment_id = a.adjustment_id
        WHERE a.store = t.store AND l.variant_id = t.variant_id))
"""  # noqa: S608 - constants
# A record dated in the future was submitted while the clock was ahead.
_NEXT_COUNTS = f"""
    SELECT r.id, r.command_id,
           coalesce(r.caused_at, r.received_at) NOT BETWEEN :before AND :now, {_MAY_GO}
    FROM records r LEFT JOIN stock_targets t ON t.id = r.command_id
    WHERE r.id > {kv.number(":cursor")}
    ORDER BY r.id LIMIT :limit
"""  # noqa: S608 - constants


def delete_old_counts(
    connection: Connection, before: str, clock: Clock, until: float
) -> tuple[int, int]:
    """Delete counts submitted before a time, until that second of the clock.

    Returns the numbers of deleted counts and of checked records. A record is checked
    once, and what cannot be deleted then stays: at most one count of a variant.
    """
    values: dict[str, object] = {"before": before, "now": to_text(clock.now())}
    values |= {"cursor": COUNT_CURSOR, "limit": COUNT_BATCH}
    deleted, checked, more = 0, 0, True
    while more:
        rows = connection.execute(_NEXT_COUNTS, values).fetchall()
        old = list(takewhile(lambda row: row[2], rows))
        if old:
            deleted += _delete(connection, [row[:2] for row in old if row[3]])
            kv.put(connection, COUNT_CURSOR, str(old[-1][0]))
        checked += len(old)
        more = len(old) == COUNT_BATCH and clock.monotonic() < until
    return deleted, checked


def _delete(connection: Connection, rows: list[tuple[int, str | None]]) -> int:
    records = [{"id": record} for record, _ in rows]
    targets = [{"id": command} for _, command in rows if command is not None]
    connection.executemany("DELETE FROM records WHERE id = :id", records)
    connection.executemany("DELETE FROM stock_targets WHERE id = :id", targets)
    return len(rows)


CURSOR = "prune_cursor"
"""Up to this event every one is erased, or in quarantine."""
RETENTION = "retention"
"""The value of `erased_by` for an event that was erased for its age."""
BATCH = 64
_LAST = 2**63 - 1
_FINAL = frozenset({"folded", "duplicate", "stale", "unhandled", "quarantined"})
_NEXT = f"""
    SELECT i.id, i.received_at, o.state, i.erased_by,
           (SELECT q.state FROM quarantine q WHERE q.source = 'event'
            AND q.name = i.store AND q.key = CAST(i.id AS TEXT)) AS quarantine
    FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
    WHERE i.id > {kv.number(":cursor")}
    ORDER BY i.id LIMIT :most
"""  # noqa: S608 - constants
# Only the keys of events are numbers.
_RELEASED = """
    SELECT i.id FROM quarantine q
    JOIN inbox i ON i.id = CASE WHEN q.source = 'event' THEN CAST(q.key AS BIGINT) END
    WHERE q.source = 'event' AND q.state != 'open' AND q.raw != :nothing
      AND i.received_at < :before LIMIT :most
"""
_NEXT_IN_TIME = """
    SELECT id, received_at FROM inbox WHERE id > :event AND received_at <= :now
    ORDER BY id LIMIT 1
"""
_DELETE_RUNS = """
    DELETE FROM job_runs WHERE id IN (SELECT id FROM job_runs
        WHERE started_at < :before ORDER BY started_at LIMIT :most)
"""
_DELETE_ATTEMPTS = """
    DELETE FROM delivery_attempts WHERE id IN (SELECT id FROM delivery_attempts
        WHERE finished_at < :before ORDER BY finished_at LIMIT :most)
"""
_ERASE = """
    UPDATE inbox SET body = :nothing, headers = :nothing, digest = NULL,
        erased_at = :now, erased_by = :reason
    WHERE id = :event
"""
_ERASE_COPY = """
    UPDATE quarantine SET raw = :nothing
    WHERE source = 'event' AND key = :key AND state != 'open'
      AND name = (SELECT store FROM inbox WHERE id = :event)
"""


class SqlRetention(Family):
    """Deletes in background slices."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine)
        self._clock = clock

    @background
    def prune(
        self, connection: Connection, before: str, slice_seconds: float
    ) -> Pruned:
        clock = self._clock
        now, until = to_text(clock.now()), clock.monotonic() + slice_seconds
        values = {"before": before, "most": BATCH}
        more = connection.execute(_DELETE_RUNS, values).rowcount > 0
        more |= connection.execute(_DELETE_ATTEMPTS, values).rowcount > 0
        erased = 0
        for event in _passed(connection, before, now):
            more = True
            if event is not None:
                _erase(connection, event, now)
                erased += 1
            if clock.monotonic() >= until:
                break
        if erased:
            return Pruned(erased, more)
        deleted, passed = delete_old_counts(connection, before, clock, until)
        return Pruned(0, more or passed > 0, deleted)


def _erase(connection: Connection, event: int, now: str) -> None:
    """Erase an event's body and headers, and their copy in the quarantine."""
    values = {"event": event, "key": str(event), "nothing": b""}
    connection.execute(_ERASE, {**values, "now": now, "reason": RETENTION})
    connection.execute(_ERASE_COPY, values)


def _passed(connection: Connection, before: str, now: str) -> Iterator[int | None]:
    """Yield the events to erase; the cursor moves as they are taken.

    An event that is passed and keeps its body yields None. An event with a time in the
    future came while the clock was ahead, and before the event after it: it is as old
    as that one.
    """
    values = {"before": before, "most": BATCH, "nothing": b""}
    yield from [row[0] for row in connection.execute(_RELEASED, values).fetchall()]
    rows = connection.execute(_NEXT, {"cursor": CURSOR, "most": BATCH}).fetchall()
    next_, next_at = 0, now
    for event, received_at, state, erased_by, quarantine in rows:
        if received_at > now:
            if next_ <= event:
                next_, next_at = _next_in_time(connection, event, now)
            received_at = next_at
        if received_at >= before or state not in _FINAL:
            return
        kv.put(connection, CURSOR, str(event))
        is_kept = quarantine == "open" or erased_by == RETENTION
        yield None if is_kept else event


def _next_in_time(connection: Connection, event: int, now: str) -> tuple[int, str]:
    """Return the next event that came not later than now, and when it came."""
    values = {"event": event, "now": now}
    row = connection.execute(_NEXT_IN_TIME, values).fetchone()
    return row or (_LAST, now)
