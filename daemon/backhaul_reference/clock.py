"""Time as the server sees it: one protocol, so that a virtual clock can replace it."""

import asyncio
import time
from typing import Protocol


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
