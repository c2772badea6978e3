"""Folds stored events again, and updates their outcomes."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

from backhaul.store.inbox import CONFIRMING, ReprocessReport, StoredEvent
from backhaul.store.records import ReasonClass
from backhaul.store.sql.dialect import elements
from backhaul.store.sql.family import background
from backhaul.store.sql.inbox import quarantine
from backhaul.store.sql.inbox.export import window_end
from backhaul.store.sql.inbox.fold import FoldingFamily

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from backhaul.store.inbox import Folded, FoldOne, Selection
    from backhaul.store.sql.family import Connection

WINDOW = 2_000
"""The most events that one slice scans, however few of them are selected."""
_IS_CONFIRMING = " OR ".join(f"i.topic LIKE '%{end}'" for end in CONFIRMING)
_SELECTED = f"""
    SELECT i.id, i.store, i.kind, i.topic, i.received_at, i.body, i.digest
    FROM inbox i JOIN event_outcomes o ON o.id = i.id
    WHERE i.id > :after AND i.id <= :end AND length(i.body) > 0
      AND (:stores IS NULL OR i.store IN (
        SELECT value FROM {elements(":stores", "$")}))
      AND (:ids = '[]' OR i.id IN (
        SELECT CAST(value AS BIGINT) FROM {elements(":ids", "$")}))
      AND (:state IS NULL OR o.state = :state)
      AND (:since IS NULL OR i.received_at >= :since)
      AND CASE WHEN i.kind = 'read' AND ({_IS_CONFIRMING}) THEN 1 ELSE 0 END
          = :confirming
    ORDER BY i.id
"""  # noqa: S608 - constants
_NEWEST = "SELECT coalesce(max(id), 0) AS newest FROM event_outcomes"
_CLOSE = """
    UPDATE quarantine SET state = 'retried'
    WHERE source = 'event' AND name = :store AND key = :key
"""
# An event that changes nothing now keeps the outcome of the time when it did.
_UPDATE = """
    UPDATE event_outcomes SET state = :state, topic = :topic, event_id = :event_id,
           kind = :kind, object_id = :object_id, detail = :detail, folded_at = :now
    WHERE id = :id AND (:changes_nothing = 0
                        OR state NOT IN ('folded', 'duplicate', 'stale'))
"""


class SqlReprocessing(FoldingFamily):
    """Folds again in background slices."""

    @background
    def reprocess(
        self,
        connection: Connection,
        fold_one: FoldOne,
        selection: Selection,
        after: int,
        slice_seconds: float,
        *,
        confirming: bool,
    ) -> ReprocessReport:
        (newest,) = connection.execute(_NEWEST).fetchone()
        end = min(window_end(connection, after, WINDOW), newest)
        window = {
            "after": after,
            "end": end,
            "confirming": int(confirming),
            "stores": self._owned(),
        }
        events = _selected(connection, selection, window)
        done = self._fold_slice(connection, fold_one, events, slice_seconds)
        for event, outcome in done.outcomes:
            _update(connection, event, outcome, done.mirror.now)
        last = done.outcomes[-1][0].id if done.is_cut else end
        outcomes = [(event.id, folded) for event, folded in done.outcomes]
        return ReprocessReport(
            last=last if last < newest else None,
            states=tuple(outcome.state for _, outcome in outcomes),
            problems=tuple(o for o in outcomes if o[1].state == "quarantined"),
            refetches=done.mirror.refetches,
        )


def _selected(
    connection: Connection, selection: Selection, window: Mapping[str, int | str | None]
) -> Generator[StoredEvent]:
    """Yield the selected events row by row, because bodies may be large."""
    values = {
        "ids": json.dumps(selection.ids),
        "state": selection.state,
        "since": selection.since,
        **window,
    }
    with closing(connection.execute(_SELECTED, values)) as rows:
        for row in rows:
            yield StoredEvent(*row)


def _update(
    connection: Connection, event: StoredEvent, outcome: Folded, now: str
) -> None:
    key = str(event.id)
    if outcome.state == "quarantined":
        row = quarantine.NewRow(
            "event",
            event.store,
            key,
            event.body,
            f"event {key}",
            outcome.detail or "",
            ReasonClass.VALUE,
        )
        quarantine.add(connection, row, now)
    else:
        connection.execute(_CLOSE, {"store": event.store, "key": key})
    changes_nothing = int(outcome.state in {"duplicate", "stale"})
    values = {
        "id": event.id,
        "state": outcome.state,
        "topic": outcome.topic,
        "event_id": outcome.event_id,
        "kind": outcome.kind,
        "object_id": outcome.object_id,
        "detail": outcome.detail,
        "now": now,
        "changes_nothing": changes_nothing,
    }
    connection.execute(_UPDATE, values)
