"""What the conformance tests share: a clock, a running store and events to fold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pytest

from backhaul.core.clock import Clock, to_text
from backhaul.store import Store
from backhaul.store.inbox import Arrival, Decoded, Folded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store.inbox import FoldOne, MirrorWriter, StoredEvent

MakeStore: TypeAlias = Callable[[Clock], Store]
"""Returns a store that is not started. Every call opens the same database of a test."""

SLICE_SECONDS = 1.0


class TestClock:
    """Implements `backhaul.core.clock.Clock`; time passes in `advance` only."""

    __test__ = False

    def __init__(self) -> None:
        self._start = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
        self._seconds = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        self._seconds += max(seconds, 0.0)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self._seconds += seconds

    def after(self, seconds: float) -> str:
        """Return the time in so many seconds, as the store writes times."""
        return to_text(self.now() + timedelta(seconds=seconds))


@asynccontextmanager
async def running(make_store: MakeStore, clock: Clock) -> AsyncIterator[Store]:
    """Open the database of the test and start its store; stop the store at the end.

    Enter it again to see what a restart leaves.
    """
    store = make_store(clock)
    store.start()
    try:
        yield store
    finally:
        await store.stop()


class StoreConformance:
    """The fixtures of every class of conformance tests; needs `make_store`."""

    @pytest.fixture
    def clock(self) -> TestClock:
        return TestClock()

    @pytest.fixture
    async def store(
        self, make_store: MakeStore, clock: TestClock
    ) -> AsyncIterator[Store]:
        async with running(make_store, clock) as started:
            yield started


def webhook(
    body: str, store: str = "main", topic: str = "orders/create", second: int = 0
) -> Arrival:
    """Return a webhook that arrived so many seconds after noon."""
    at = f"2026-03-01T12:00:{second:02}.000Z"
    return Arrival(store, "delivery", topic, at, b"{}", body.encode())


def without_decoding(fold: Callable[[StoredEvent, MirrorWriter], Folded]) -> FoldOne:
    """Return a fold of events that need not be decoded before."""
    return lambda event: Decoded(partial(fold, event))


def fold_to_body(event: StoredEvent, mirror: MirrorWriter) -> Folded:
    """Fold an event to the state that its body names."""
    return Folded(event.body.decode(), event.topic)


async def folded_bodies(store: Store, most_slices: int = 100) -> list[str]:
    """Fold what waits; return the bodies in the order in which they were folded."""
    bodies: list[str] = []

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        bodies.append(event.body.decode())
        return fold_to_body(event, mirror)

    for _ in range(most_slices):
        report = await store.inbox.fold(without_decoding(fold), SLICE_SECONDS)
        if not report.more:
            return bodies
    pytest.fail(f"{most_slices} slices did not fold everything")
