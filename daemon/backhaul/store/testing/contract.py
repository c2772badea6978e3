"""The fixtures of classes whose tests set the clock, or open the database again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

import pytest

from backhaul.store import Store
from backhaul.store.testing.scenes import (
    MakeStore,
    StoreConformance,
    TestClock,
    running,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OpenStore: TypeAlias = Callable[[], Awaitable[Store]]
"""Opens and starts one more store on the database of the test."""


class MovableClock(TestClock):
    """A clock that can be set, while no time passes."""

    def set_by(self, seconds: float) -> None:
        self._start += timedelta(seconds=seconds)


class FamilyTests(StoreConformance):
    """The fixtures `clock`, `store` and `open_store`."""

    @pytest.fixture
    def clock(self) -> MovableClock:
        return MovableClock()

    @pytest.fixture
    async def open_store(
        self, make_store: MakeStore, clock: MovableClock
    ) -> AsyncIterator[OpenStore]:
        async with AsyncExitStack() as stack:

            async def opened() -> Store:
                return await stack.enter_async_context(running(make_store, clock))

            yield opened


AFTER_NOON_SECONDS = 3600


class MirrorTests(FamilyTests):
    """The clock is one hour ahead of the events of `mirror_scenes`."""

    @pytest.fixture
    def clock(self) -> MovableClock:
        clock = MovableClock()
        clock.advance(AFTER_NOON_SECONDS)
        return clock
