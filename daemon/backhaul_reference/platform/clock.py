"""The server's clock, real or virtual, and the background tasks that wait for it.

Only this module creates tasks.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Wall time for records, monotonic time for limits, and sleep."""

    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """Another clock plus an offset; a move wakes every sleeper to check its time."""

    def __init__(self, inner: Clock) -> None:
        self._inner = inner
        self._ahead_seconds = 0.0
        self._held: tuple[int, float] | None = None
        self._moved = asyncio.Event()

    @property
    def frozen(self) -> bool:
        return self._held is not None

    @property
    def ahead_seconds(self) -> float:
        return self._ahead_seconds

    def now_ms(self) -> int:
        held = self._held
        base_ms = self._inner.now_ms() if held is None else held[0]
        return base_ms + round(self._ahead_seconds * 1000)

    def monotonic(self) -> float:
        held = self._held
        base = self._inner.monotonic() if held is None else held[1]
        return base + self._ahead_seconds

    async def sleep(self, seconds: float) -> None:
        """Sleep by this clock: an advance shortens the sleep, a freeze stops it."""
        due = self.monotonic() + seconds
        await asyncio.sleep(0)
        while (left := due - self.monotonic()) > 0:
            moved = self._moved
            if self.frozen:
                await moved.wait()
            else:
                await either(moved.wait(), self._inner.sleep(left))

    def advance(self, seconds: float) -> None:
        self._ahead_seconds += seconds
        self._notify()

    def freeze(self) -> None:
        if self._held is None:
            self._held = (self._inner.now_ms(), self._inner.monotonic())
            self._notify()

    def unfreeze(self) -> None:
        """Continue from the time shown; the frozen time is not caught up."""
        if self._held is None:
            return
        self._ahead_seconds -= self._inner.monotonic() - self._held[1]
        self._held = None
        self._notify()

    def _notify(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


def start_task(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start `work` as a task; the caller must keep a reference to it."""
    return asyncio.create_task(work)


async def either(*works: Coroutine[Any, Any, Any]) -> None:
    """Run all until the first ends, then cancel the others."""
    running = [start_task(work) for work in works]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in running:
            task.cancel()
