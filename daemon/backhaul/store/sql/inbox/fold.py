"""Folds events: the mirror, their outcomes and the cursor change in one commit."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from backhaul.store.inbox import Arrival, Folded, FoldReport, StoredEvent
from backhaul.store.sql.family import Family, background, write
from backhaul.store.sql.mirror.write import MirrorTransaction
from backhaul.store.sql.operations import kv

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator

    from backhaul.core.clock import Clock
    from backhaul.store.inbox import FoldOne
    from backhaul.store.sql.family import Connection, Engine

FOLD_BATCH = 256
"""The most events that one slice folds."""
CURSOR = "fold_cursor"
"""The name of the fold cursor in the key-value state."""
FOREIGN = "strangers:"
"""Before a store's name: the last time a foreign event arrived, and its store's id."""
_DAMAGED = (
    "the row of this event is damaged in the database; the next full sync reads the"
    " object from the platform again"
)
_AFTER = """
    SELECT id, store, kind, topic, received_at, body, digest FROM inbox
    WHERE id > :after ORDER BY id LIMIT :most
"""
_RECORD = """
    INSERT INTO event_outcomes
        (id, state, topic, event_id, kind, object_id, detail, folded_at)
    VALUES (:id, :state, :topic, :event_id, :kind, :object_id, :detail, :now)
"""
_QUARANTINE = """
    INSERT INTO quarantine (source, name, key, raw, reason, locator, at)
    SELECT 'event', store, CAST(id AS TEXT), body, :detail, 'event ' || id, :now
    FROM inbox WHERE id = :id
    ON CONFLICT (source, name, key) DO NOTHING
"""
_FOLDED_TO = f"SELECT {kv.number(':cursor')} AS id"
_PUT_FOREIGN = """
    INSERT INTO kv (name, value)
    SELECT :prefix || store, :value FROM inbox WHERE id = :id
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


class FoldingFamily(Family):
    """A family that folds events into the mirror."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine)
        self._clock = clock

    def _fold_alone(
        self,
        connection: Connection,
        fold_one: FoldOne,
        event: StoredEvent,
        mirror: MirrorTransaction,
    ) -> Folded:
        """Fold one event. A failure undoes this event only, and quarantines it."""
        connection.execute("SAVEPOINT event")
        try:
            folded = _fold(fold_one, event, mirror)
            mirror.flush()
        except Exception as error:
            if self._engine.concerns_the_file(error):
                raise
            mirror.discard()
            connection.execute("ROLLBACK TO event")
            detail = f"cannot be folded: {type(error).__name__}: {error}"
            folded = Folded("quarantined", event.topic, detail=detail)
        connection.execute("RELEASE event")
        return folded


class SqlInbox(FoldingFamily):
    """Appends through the engine; folds in background slices."""

    def append(self, arrival: Arrival) -> Awaitable[int]:
        return self._engine.append(arrival)

    @write
    def newest(self, connection: Connection) -> int:
        query = "SELECT coalesce(max(id), 0) AS newest FROM inbox"
        return int(connection.execute(query).fetchone()[0])

    @background
    def fold(
        self, connection: Connection, fold_one: FoldOne, slice_seconds: float
    ) -> FoldReport:
        mirror = MirrorTransaction(connection, self._clock)
        until = self._clock.monotonic() + slice_seconds
        after = folded_to(connection)
        outcomes: list[tuple[int, Folded]] = []
        in_time, last_at = True, mirror.now
        connection.execute("SAVEPOINT slice")
        try:
            with closing(_events_after(connection, after)) as events:
                for event in events:
                    outcomes.append((event.id, _fold(fold_one, event, mirror)))
                    if type(event.received_at) is str:  # otherwise it is damaged
                        last_at = event.received_at
                    in_time = self._clock.monotonic() < until
                    if not in_time:
                        break
            mirror.flush()
        except Exception as error:
            if self._engine.concerns_the_file(error):
                raise
            mirror.discard()
            # Fold the slice again, one by one, to quarantine only the failing event.
            connection.execute("ROLLBACK TO slice")
            outcomes = [
                (event.id, self._fold_alone(connection, fold_one, event, mirror))
                for event in _events_after(connection, after)
            ]
        connection.execute("RELEASE slice")
        if outcomes:
            _record(connection, outcomes, mirror.now)
        return FoldReport(
            folded=len(outcomes),
            more=not in_time or len(outcomes) == FOLD_BATCH,
            problems=tuple(
                one for one in outcomes if one[1].state in {"quarantined", "unhandled"}
            ),
            refetches=mirror.refetches,
            folded_to=outcomes[-1][0] if outcomes else after,
            behind_seconds=mirror.seconds_since(last_at),
            incomplete=tuple(one for one in outcomes if one[1].notes),
        )


def folded_to(connection: Connection) -> int:
    """Return the id up to which every event is folded."""
    return int(connection.execute(_FOLDED_TO, {"cursor": CURSOR}).fetchone()[0])


def outcome_values(id_: int, outcome: Folded, now: str) -> dict[str, object]:
    """Return the columns of `event_outcomes` for an event."""
    return {
        "id": id_,
        "state": outcome.state,
        "topic": outcome.topic,
        "event_id": outcome.event_id,
        "kind": outcome.kind,
        "object_id": outcome.object_id,
        "detail": outcome.detail,
        "now": now,
    }


def _fold(fold_one: FoldOne, event: StoredEvent, mirror: MirrorTransaction) -> Folded:
    """Fold one event, unless its store, kind, topic or time is damaged."""
    texts = {type(event.store), type(event.kind), type(event.topic)}
    if texts != {str} or type(event.received_at) is not str:
        return Folded("quarantined", event.topic, detail=_DAMAGED)
    return fold_one(event, mirror)


def _events_after(connection: Connection, after: int) -> Generator[StoredEvent]:
    """Yield the next events, row by row, because bodies may be large."""
    values = {"after": after, "most": FOLD_BATCH}
    with closing(connection.execute(_AFTER, values)) as rows:
        for row in rows:
            yield StoredEvent(*row)


def _record(
    connection: Connection, outcomes: list[tuple[int, Folded]], now: str
) -> None:
    """Write the outcome of each event, and move the fold cursor."""
    rows = [outcome_values(id_, one, now) for id_, one in outcomes]
    connection.executemany(_RECORD, rows)
    for id_, one in outcomes:
        if one.state == "quarantined":
            values = {"id": id_, "detail": one.detail or "", "now": now}
            connection.execute(_QUARANTINE, values)
        if one.foreign_store:
            value = f"{now} {one.foreign_store}"
            values = {"id": id_, "prefix": FOREIGN, "value": value}
            connection.execute(_PUT_FOREIGN, values)
    kv.put(connection, CURSOR, str(outcomes[-1][0]))
