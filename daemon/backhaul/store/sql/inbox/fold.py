"""Folds events: the mirror, their outcomes and the cursor change in one commit."""

from __future__ import annotations

from contextlib import closing, suppress
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backhaul.store.inbox import (
    Arrival,
    Decoded,
    Folded,
    FoldReport,
    StoredEvent,
    TracedEvent,
)
from backhaul.store.sql.dialect import batch
from backhaul.store.sql.family import Family, background, write
from backhaul.store.sql.mirror.write import MirrorTransaction
from backhaul.store.sql.operations import kv

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Iterator, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.inbox import FoldOne
    from backhaul.store.sql.family import Connection, Engine

FOLD_BATCH = 256
"""The most events that one slice folds."""
MOST_BYTES = 4_000_000
"""The size of the bodies after which a slice takes no further event."""
DECODING_SHARE = 0.5
"""The share of a slice's time for decoding its events; the rest folds and writes."""
CURSOR = "fold_cursor"
"""The name of the fold cursor in the key-value state."""
FOREIGN = "strangers:"
"""Before a store's name: the last time a foreign event arrived, and its store's id."""
_DAMAGED = (
    "the row of this event is damaged in the database; the next full sync reads the"
    " object from the platform again"
)
_AFTER = """
    SELECT id, store, kind, topic, received_at, body, digest, traceparent FROM inbox
    WHERE id > :after ORDER BY id LIMIT :most
"""
_RECORD = batch("""
    INSERT INTO event_outcomes
        (id, state, topic, event_id, kind, object_id, detail, folded_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
""")
_QUARANTINE = """
    INSERT INTO quarantine (source, name, key, raw, reason, reason_class, locator, at)
    SELECT 'event', store, CAST(id AS TEXT), body, :detail, 'value', 'event ' || id,
           :now
    FROM inbox WHERE id = :id
    ON CONFLICT (source, name, key) DO NOTHING
"""
_FORGET_DIGEST = "DELETE FROM delivery_digests WHERE id = :id"
_FOLDED_TO = f"SELECT {kv.number(':cursor')} AS id"
_PUT_FOREIGN = """
    INSERT INTO kv (name, value)
    SELECT :prefix || store, :value FROM inbox WHERE id = :id
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


class Slice(Struct):
    """The events that one slice folded; `is_cut` if it may have left events."""

    mirror: MirrorTransaction
    outcomes: list[tuple[StoredEvent, Folded]] = field(default_factory=list)
    is_cut: bool = True


class FoldingFamily(Family):
    """A family that folds events into the mirror."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine)
        self._clock = clock

    def _fold_slice(
        self,
        connection: Connection,
        fold_one: FoldOne,
        events: Generator[StoredEvent],
        slice_seconds: float,
    ) -> Slice:
        """Fold events in one savepoint until the time is over, at least one of them."""
        mirror = MirrorTransaction(connection, self._clock)
        done = Slice(mirror)
        until = inf
        taken: list[StoredEvent] = []
        connection.execute("SAVEPOINT slice")
        try:
            decoded, size = [], 0
            with closing(events):
                for event in events:
                    if not taken:  # what a server needs to send them is not decoding
                        seconds = slice_seconds * DECODING_SHARE
                        until = self._clock.monotonic() + seconds
                    taken.append(event)
                    decoded.append(_decoded(fold_one, event))
                    size += len(event.body)
                    if self._clock.monotonic() >= until or size >= MOST_BYTES:
                        break
                else:
                    done.is_cut = False
            mirror.load(one.concerned for one in decoded if one.concerned)
            # A pause while decoding takes no time from this step: an event that is
            # decoded and not folded has to be decoded again.
            until = self._clock.monotonic() + slice_seconds
            # Each is freed once it is folded, so that the next takes its memory.
            decoded.reverse()
            for event in taken:
                done.outcomes.append((event, decoded.pop().fold(mirror)))
                if self._clock.monotonic() >= until:
                    done.is_cut = True
                    break
            mirror.flush()
        except Exception as error:
            if not taken or self._engine.concerns_the_file(error):
                raise
            mirror.discard()
            # Fold the slice again, one by one, to quarantine only the failing event.
            connection.execute("ROLLBACK TO slice")
            done.outcomes = [
                (event, self._fold_alone(connection, fold_one, event, mirror))
                for event in taken
            ]
        connection.execute("RELEASE slice")
        return done

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
            folded = _decoded(fold_one, event).fold(mirror)
            mirror.flush()
        except Exception as error:
            if self._engine.concerns_the_file(error):
                raise
            mirror.discard()
            connection.execute("ROLLBACK TO event")
            # An earlier slice may have read it without reaching it. An event that
            # fails is not the first with its body, or its repeat would count as one.
            connection.execute(_FORGET_DIGEST, {"id": event.id})
            detail = f"cannot be folded: {type(error).__name__}: {error}"
            folded = Folded("quarantined", event.topic, detail=detail)
        connection.execute("RELEASE event")
        return folded


class SqlInbox(FoldingFamily):
    """Appends through the engine; folds in background slices."""

    _most = FOLD_BATCH
    """The most events that the next slice reads."""

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
        events = self._next_events(connection)
        done = self._fold_slice(connection, fold_one, events, slice_seconds)
        mirror = done.mirror
        outcomes = [(event.id, folded) for event, folded in done.outcomes]
        if outcomes:
            _record(connection, outcomes, mirror.now)
            self._move_cursor(connection, [id_ for id_, _ in outcomes])
        more, folded = self._progress(
            connection, more=done.is_cut or len(outcomes) == self._most
        )
        return FoldReport(
            folded=len(outcomes),
            more=more,
            problems=tuple(
                one for one in outcomes if one[1].state in {"quarantined", "unhandled"}
            ),
            refetches=mirror.refetches,
            folded_to=folded,
            behind_seconds=mirror.seconds_since(_last_arrival(done) or mirror.now),
            incomplete=tuple(one for one in outcomes if one[1].notes),
            waits=tuple(_waits(done)),
            traced=tuple(_traced(done)),
        )

    def _next_events(self, connection: Connection) -> Generator[StoredEvent]:
        """Yield the next events, row by row, because bodies may be large."""
        values = {"after": folded_to(connection), "most": self._most}
        with closing(connection.execute(_AFTER, values)) as rows:
            for row in rows:
                yield StoredEvent(*row)

    def _move_cursor(self, connection: Connection, ids: Sequence[int]) -> None:
        """Note that these events are folded; they are in the order of the reads."""
        kv.put(connection, CURSOR, str(ids[-1]))

    def _progress(self, connection: Connection, *, more: bool) -> tuple[bool, int]:
        """Return whether events wait, and the id up to which all are folded.

        Without `more` every event that was read in this slice is folded.
        """
        return more, folded_to(connection)


def folded_to(connection: Connection) -> int:
    """Return the id up to which every event is folded."""
    return int(connection.execute(_FOLDED_TO, {"cursor": CURSOR}).fetchone()[0])


def _last_arrival(done: Slice) -> str | None:
    """Return when the last event of a slice arrived whose time is not damaged."""
    times = [event.received_at for event, _ in done.outcomes]
    return next((at for at in reversed(times) if type(at) is str), None)


def _waits(done: Slice) -> Iterator[float]:
    """Yield how long each webhook of a slice had waited whose time is not damaged."""
    for event, _ in done.outcomes:
        if event.kind == "delivery":
            with suppress(TypeError, ValueError):
                yield done.mirror.seconds_since(event.received_at)


def _traced(done: Slice) -> Iterator[TracedEvent]:
    """Yield the events of a slice that belong to a trace."""
    for event, folded in done.outcomes:
        if event.traceparent is not None:
            yield TracedEvent(event.traceparent, event.id, event.store, folded)


def _decoded(fold_one: FoldOne, event: StoredEvent) -> Decoded:
    """Decode one event, unless its store, kind, topic or time is damaged."""
    texts = {type(event.store), type(event.kind), type(event.topic)}
    if texts != {str} or type(event.received_at) is not str:
        damaged = Folded("quarantined", event.topic, detail=_DAMAGED)
        return Decoded(lambda _: damaged)
    return fold_one(event)


def _record(
    connection: Connection, outcomes: list[tuple[int, Folded]], now: str
) -> None:
    """Write the outcome of each event."""
    rows = [
        (
            id_,
            one.state,
            one.topic,
            one.event_id,
            one.kind,
            one.object_id,
            one.detail,
            now,
        )
        for id_, one in outcomes
    ]
    connection.executemany(_RECORD, rows)
    quarantined = [
        {"id": id_, "detail": one.detail or "", "now": now}
        for id_, one in outcomes
        if one.state == "quarantined"
    ]
    foreign = [
        {"id": id_, "prefix": FOREIGN, "value": f"{now} {one.foreign_store}"}
        for id_, one in outcomes
        if one.foreign_store
    ]
    for statement, values in ((_QUARANTINE, quarantined), (_PUT_FOREIGN, foreign)):
        if values:
            connection.executemany(statement, values)
