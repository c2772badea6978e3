"""What a connection submitted last: its records, and how each file or poll ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backhaul.store.read_records import ListedRecord
from backhaul.store.records import SourceRun

if TYPE_CHECKING:
    from backhaul.store.sql.family import Connection

MOST_RECORDS = 2_000
"""The newest records of which runs are made: some hundredths of a second."""
_LAST = """
    SELECT received_at, key, state, reason, command_id, locator, payload FROM records
    WHERE instance = :instance ORDER BY id DESC LIMIT :limit
"""
_RECENT = """
    SELECT r.received_at, r.locator, r.state, coalesce(c.state, t.state) AS outcome
    FROM (SELECT id, received_at, locator, state, command_id FROM records
          WHERE instance = :instance ORDER BY id DESC LIMIT :most) r
    LEFT JOIN commands c ON c.id = r.command_id
    LEFT JOIN stock_targets t ON t.id = r.command_id
    ORDER BY r.id DESC
"""
_ROW_OF_FILE = re.compile(r"(.+):\d+")
_FAILED = frozenset({"quarantined", "dropped", "rejected", "parked", "discarded"})
_DONE = frozenset({"applied", "superseded", "replaced"})


def last_records(
    connection: Connection, instance: str, limit: int
) -> list[ListedRecord]:
    """Return the last records of a connection, the newest first."""
    rows = connection.execute(_LAST, {"instance": instance, "limit": limit})
    return [ListedRecord(*row) for row in rows]


def source_runs(connection: Connection, instance: str) -> list[SourceRun]:
    """Return the last files or polls of a connection, the newest first."""
    values = {"instance": instance, "most": MOST_RECORDS}
    found: dict[str, SourceRun] = {}
    rows = connection.execute(_RECENT, values).fetchall()
    for received_at, locator, state, outcome in rows:
        file = _ROW_OF_FILE.fullmatch(locator)
        source = file[1] if file else f"{received_at[:16].replace('T', ' ')} UTC"
        run = found.get(source) or SourceRun(source, received_at, received_at)
        found[source] = _with(run, received_at, state, outcome)
    return list(found.values())


def _with(run: SourceRun, at: str, state: str, outcome: str | None) -> SourceRun:
    """Return a run with one earlier record more."""
    is_failed = state in _FAILED or outcome in _FAILED
    # A record without a command asked for what the store has already.
    is_done = not is_failed and (
        state in _DONE or outcome in _DONE or (state == "accepted" and outcome is None)
    )
    return SourceRun(
        run.source,
        at,
        run.last_at,
        run.submitted + 1,
        run.applied + is_done,
        run.failed + is_failed,
    )
