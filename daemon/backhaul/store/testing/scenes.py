"""What every class of conformance tests has: a store, and a clock that a test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

import pytest

from backhaul.core.clock import Clock, to_text
from backhaul.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MakeStore: TypeAlias = Callable[[Clock], Store]
"""Returns a store that is not started. Every call opens the same database of a test."""
OpenStore: TypeAlias = Callable[[], Awaitable[Store]]
"""Opens and starts one more store on the database of the test."""
AFTER_NOON_SECONDS = 3600


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

    def set_by(self, seconds: float) -> None:
        """Set the clock, while no time passes."""
        self._start += timedelta(seconds=seconds)

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

    @pytest.fixture
    async def open_store(
        self, make_store: MakeStore, clock: TestClock
    ) -> AsyncIterator[OpenStore]:
        async with AsyncExitStack() as stack:

            async def opened() -> Store:
                return await stack.enter_async_context(running(make_store, clock))

            yield opened


class MirrorTests(StoreConformance):
    """The clock is one hour ahead of the events of `mirror_scenes`."""

    @pytest.fixture
    def clock(self) -> TestClock:
        clock = TestClock()
        clock.advance(AFTER_NOON_SECONDS)
        return clock
