"""Folding stored events again; what is told of them is brought up to date."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

from backhaul.store.inbox import CONFIRMING, ReprocessReport, StoredEvent
from backhaul.store.sql.inbox.append import folded_to, isolated
from backhaul.store.sql.inbox.quarantine_rows import set_aside
from backhaul.store.sql.mirror.write import MirrorTransaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Generator

    from backhaul.core.clock import Clock
    from backhaul.store.inbox import Folded, FoldOne, Selection
    from backhaul.store.sqlite.writer import Writer

WINDOW = 2_000
"""Ids that one slice looks through at most, however few of them are wanted."""
_IS_CONFIRMING = " OR ".join(f"i.topic LIKE '%{end}'" for end in CONFIRMING)
_WANTED = f"""
    SELECT i.id, i.store, i.kind, i.topic, i.received_at, i.body,
           i.digest
    FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
    WHERE i.id > :after AND i.id <= :end AND i.body != x''
      AND (:ids = '[]' OR i.id IN (SELECT value FROM json_each(:ids)))
      AND (:state IS NULL OR o.state = :state)
      AND (:since IS NULL OR i.received_at >= :since)
      AND (i.kind = 'read' AND ({_IS_CONFIRMING})) = :confirming
    ORDER BY i.id
"""  # noqa: S608 - constants
_CHANGED_NOTHING = frozenset({"duplicate", "stale"})


class SqlReprocessing:
    """Folds again in the writer's background slices."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def reprocess(
        self,
        fold_one: FoldOne,
        selection: Selection,
        after: int,
        slice_seconds: float,
        *,
        confirming: bool,
    ) -> ReprocessReport:
        """Fold stored events with higher ids again. What is not folded yet waits."""

        def unit(connection: sqlite3.Connection) -> ReprocessReport:
            return _reprocess_slice(
                connection,
                self._clock,
                fold_one,
                selection,
                after,
                slice_seconds,
                confirming,
            )

        return await self._writer.background(unit)


def _reprocess_slice(
    connection: sqlite3.Connection,
    clock: Clock,
    fold_one: FoldOne,
    selection: Selection,
    after: int,
    slice_seconds: float,
    confirming: bool,
) -> ReprocessReport:
    """Fold the next wanted events again, each for itself, for about so long."""
    newest = folded_to(connection)
    end = min(after + WINDOW, newest)
    mirror = MirrorTransaction(connection, clock)
    until = clock.monotonic() + slice_seconds
    outcomes: list[tuple[int, Folded]] = []
    last = end
    wanted = _wanted(connection, selection, after, end, confirming)
    with closing(wanted) as events:
        for event in events:
            outcome = isolated(connection, fold_one, event, mirror)
            _update(connection, event, outcome, mirror.now)
            outcomes.append((event.id, outcome))
            if clock.monotonic() >= until:
                last = event.id
                break
    return ReprocessReport(
        last=last if last < newest else None,
        states=tuple(outcome.state for _, outcome in outcomes),
        problems=tuple(o for o in outcomes if o[1].state == "quarantined"),
        refetches=mirror.refetches,
    )


def _wanted(
    connection: sqlite3.Connection,
    selection: Selection,
    after: int,
    end: int,
    confirming: bool,
) -> Generator[StoredEvent]:
    """Yield what is to be folded again, row by row: bodies may be large."""
    with closing(
        connection.execute(
            _WANTED,
            {
                "after": after,
                "end": end,
                "ids": json.dumps(selection.ids),
                "state": selection.state,
                "since": selection.since,
                "confirming": confirming,
            },
        )
    ) as rows:
        for row in rows:
            yield StoredEvent(*row)


def _update(
    connection: sqlite3.Connection, event: StoredEvent, outcome: Folded, now: str
) -> None:
    if outcome.state == "quarantined":
        _set_aside(connection, event, outcome.detail or "", now)
    else:
        connection.execute(
            "UPDATE quarantine SET state = 'retried'"
            " WHERE source = 'event' AND name = ? AND key = ?",
            (event.store, str(event.id)),
        )
    connection.execute(
        """
        UPDATE event_outcomes SET state = ?, topic = ?, event_id = ?, kind = ?,
               object_id = ?, detail = ?, folded_at = ?
        WHERE id = ? AND NOT (state IN ('folded', 'duplicate', 'stale') AND ?)
        """,
        (
            outcome.state,
            outcome.topic,
            outcome.event_id,
            outcome.kind,
            outcome.object_id,
            outcome.detail,
            now,
            event.id,
            # What it did when it came is what is told of it.
            outcome.state in _CHANGED_NOTHING,
        ),
    )


def _set_aside(
    connection: sqlite3.Connection, event: StoredEvent, reason: str, now: str
) -> None:
    locator = f"event {event.id}"
    key, raw = str(event.id), event.body
    set_aside(connection, "event", event.store, key, raw, reason, locator, now)
