"""Retention: bodies and headers go with age, what became of them stays.

So do counts that changed nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.store.operations import Pruned
from backhaul.store.sql.stock_targets import retention

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store.sqlite.writer import Writer

CURSOR = "prune_cursor"
"""Up to here every event is erased, or in quarantine."""
RETENTION = "retention"
"""Stands in `erased_by`."""
BATCH = 64
_LAST = 2**63 - 1
_SETTLED = frozenset({"folded", "duplicate", "stale", "unhandled", "quarantined"})
_NEXT = """
    SELECT i.id, i.received_at, o.state, i.erased_by,
           (SELECT q.state FROM quarantine q WHERE q.source = 'event'
            AND q.name = i.store AND q.key = CAST(i.id AS TEXT)) AS quarantine
    FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
    WHERE i.id > coalesce((SELECT value FROM marks WHERE name = ?), 0) + 0
    ORDER BY i.id LIMIT ?
"""
_RELEASED = """
    SELECT i.id FROM quarantine q JOIN inbox i ON i.id = CAST(q.key AS INTEGER)
    WHERE q.source = 'event' AND q.state != 'open' AND q.raw != x''
      AND i.received_at < ? LIMIT ?
"""
_DROP_RUNS = """
    DELETE FROM job_runs WHERE id IN
        (SELECT id FROM job_runs WHERE started_at < ? ORDER BY started_at LIMIT ?)
"""
_ERASE = "UPDATE inbox SET body = x'', headers = x'', erased_at = ?, erased_by = ?"
_ERASE_COPY = """
    UPDATE quarantine SET raw = x''
    WHERE source = 'event' AND key = CAST(? AS TEXT) AND state != 'open'
      AND name = (SELECT store FROM inbox WHERE id = ?)
"""


class SqlRetention:
    """Prunes in the writer's background slices."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def prune(self, before: str, slice_seconds: float) -> Pruned:
        """Erase bodies and headers received before that time, for about that long.

        Then drop counts received before it that are done and changed nothing.
        """

        def unit(connection: sqlite3.Connection) -> Pruned:
            return _prune(connection, self._clock, before, slice_seconds)

        return await self._writer.background(unit)


def _prune(
    connection: sqlite3.Connection, clock: Clock, before: str, slice_seconds: float
) -> Pruned:
    now, until = to_text(clock.now()), clock.monotonic() + slice_seconds
    changes, erased = connection.total_changes, 0
    connection.execute(_DROP_RUNS, (before, BATCH))
    for event in _due(connection, before, now):
        connection.execute(f"{_ERASE} WHERE id = ?", (now, RETENTION, event))
        connection.execute(_ERASE_COPY, (event, event))
        erased += 1
        if clock.monotonic() >= until:
            break
    counts = (
        0 if erased else retention.delete_old_counts(connection, before, clock, until)
    )
    return Pruned(erased, connection.total_changes > changes, counts)


def _due(connection: sqlite3.Connection, before: str, now: str) -> Iterator[int]:
    """Yield events to erase; the cursor is moved on as they are taken.

    What seems to come from the future came while the clock was ahead, and before what
    came next: it is as old as that.
    """
    released = connection.execute(_RELEASED, (before, BATCH)).fetchall()
    yield from (row[0] for row in released)
    rows = connection.execute(_NEXT, (CURSOR, BATCH)).fetchall()
    next_, next_at = 0, now
    for event, received_at, state, erased_by, quarantine in rows:
        if received_at > now:
            if next_ <= event:
                next_, next_at = _next_after(connection, event, now)
            received_at = next_at
        if received_at >= before or state not in _SETTLED:
            return
        connection.execute(
            "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
            (CURSOR, str(event)),
        )
        if quarantine != "open" and erased_by != RETENTION:
            yield event


def _next_after(
    connection: sqlite3.Connection, event: int, now: str
) -> tuple[int, str]:
    """Return the next event that did not come later than now, and when it came."""
    row = connection.execute(
        "SELECT id, received_at FROM inbox WHERE id > ? AND received_at <= ?"
        " ORDER BY id LIMIT 1",
        (event, now),
    ).fetchone()
    return row or (_LAST, now)
