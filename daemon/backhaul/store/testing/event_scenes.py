"""Events of conformance tests: received, folded, folded again, and read back."""

# ruff: noqa: S101 - these are helpers of tests, which assert

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pytest

from backhaul.store.inbox import Arrival, Decoded, Folded, Selection

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import (
        FoldOne,
        FoldReport,
        MirrorWriter,
        ReprocessReport,
        StoredEvent,
    )
    from backhaul.store.read_records import EventDetail, QuarantineDetail

T = TypeVar("T")
Fold: TypeAlias = Callable[["StoredEvent", "MirrorWriter"], Folded]
"""Folds one event."""
NOON = "2026-03-01T12:00:00.000Z"
HEADERS = b'{"a":1}'
UNREADABLE = "no status"
SLICE_SECONDS = 1.0
MOST_SLICES = 100


def webhook(
    body: str, store: str = "main", topic: str = "orders/create", second: int = 0
) -> Arrival:
    """Return a webhook that arrived so many seconds after noon."""
    at = f"2026-03-01T12:00:{second:02}.000Z"
    return Arrival(store, "delivery", topic, at, b"{}", body.encode())


async def append(
    store: Store,
    *bodies: str,
    name: str = "main",
    topic: str = "orders/create",
    kind: str = "delivery",
) -> list[int]:
    """Append events with these bodies without waiting for each; return their ids."""
    arrivals = (webhook(body, name, topic)._replace(kind=kind) for body in bodies)
    waiting = [store.inbox.append(arrival) for arrival in arrivals]
    return [await id_ for id_ in waiting]


async def arrive(
    store: Store,
    body: bytes = b"body",
    name: str = "main",
    *,
    folded: Folded | None = None,
    topic: str = "orders/updated",
    kind: str = "delivery",
    at: str = NOON,
) -> int:
    """Append an event, and fold it to this outcome if there is one; return its id."""
    event = await store.inbox.append(Arrival(name, kind, topic, at, HEADERS, body))
    if folded is not None:
        outcome = folded
        await fold_with(store, lambda *_: outcome)
    return event


def without_decoding(fold: Fold) -> FoldOne:
    """Return a fold of events that need not be decoded before."""
    return lambda event: Decoded(partial(fold, event))


async def fold_with(
    store: Store, fold: Fold, slice_seconds: float = SLICE_SECONDS
) -> FoldReport:
    """Fold one slice of the events that wait."""
    return await store.inbox.fold(without_decoding(fold), slice_seconds)


async def fold_all_with(
    store: Store, fold: Fold, slice_seconds: float = SLICE_SECONDS
) -> list[FoldReport]:
    """Fold all events that wait; return the report of each slice."""
    reports: list[FoldReport] = []
    for _ in range(MOST_SLICES):
        reports.append(await fold_with(store, fold, slice_seconds))
        if not reports[-1].more:
            return reports
    pytest.fail(f"{MOST_SLICES} slices did not fold everything")


async def reprocess_with(
    store: Store,
    fold: Fold,
    selection: Selection | None = None,
    *,
    after: int = 0,
    slice_seconds: float = SLICE_SECONDS,
    confirming: bool = False,
) -> ReprocessReport:
    """Fold one slice of selected events again."""
    return await store.reprocessing.reprocess(
        without_decoding(fold),
        selection or Selection(),
        after,
        slice_seconds,
        confirming=confirming,
    )


def fold_to_body(event: StoredEvent, mirror: MirrorWriter) -> Folded:
    """Fold an event to the state that its body names."""
    return Folded(event.body.decode(), event.topic)


async def folded_bodies(store: Store) -> list[str]:
    """Fold what waits; return the bodies in the order in which they were folded."""
    bodies: list[str] = []

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        bodies.append(event.body.decode())
        return fold_to_body(event, mirror)

    await fold_all_with(store, fold)
    return bodies


async def in_fold(
    store: Store, use: Callable[[MirrorWriter, int], T], name: str = "main"
) -> T:
    """Call a function in the fold of a new event of a store; return its result."""
    found: list[T] = []
    event = await arrive(store, b"{}", name, topic="used/in_fold")

    def fold(stored: StoredEvent, mirror: MirrorWriter) -> Folded:
        if stored.id == event:
            found.append(use(mirror, event))
        return Folded("folded", stored.topic)

    report = await fold_with(store, fold)
    assert report.problems == ()
    return found[-1]


async def hold_order(
    store: Store,
    id_: str = "ord_1",
    name: str = "main",
    *,
    at: str = NOON,
    reason: str = UNREADABLE,
    state: str = "quarantined",
) -> int:
    """Let an event that cannot be read name an order; return the event's id."""

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        mirror.hold_order(name, id_, event.id, reason, at)
        return Folded(state, event.topic, None, "order", id_, reason)

    event = await arrive(store, b"{", name)
    await fold_with(store, fold)
    return event


async def release_order(
    store: Store, id_: str = "ord_1", name: str = "main", *, began: str = ""
) -> None:
    """Let another event show an order, of a confirming read if it `began`."""

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        mirror.release_order(name, id_, event.id, began)
        return Folded("folded", event.topic, None, "order", id_)

    await arrive(store, b"{}", name)
    await fold_with(store, fold)


async def event_detail(store: Store, id_: int) -> EventDetail:
    """Return one event as operators see it."""
    found = await store.read(lambda reader: reader.event(id_))
    assert found is not None
    return found


async def quarantined(store: Store, id_: int) -> QuarantineDetail:
    """Return one row of the quarantine as operators see it."""
    found = await store.read(lambda reader: reader.quarantined(id_))
    assert found is not None
    return found
