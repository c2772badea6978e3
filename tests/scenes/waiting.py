"""Waits for conditions: the only place where tests poll."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
HANG_SECONDS = 300.0
"""A guard against a hang, not a measurement: a busy machine may take its time."""
PAUSE_SECONDS = 0.01


async def until(
    condition: Callable[[], T], what: str, seconds: float = HANG_SECONDS
) -> T:
    """Call `condition` until its result is true; return the result."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(PAUSE_SECONDS)
    return found


def await_true(
    condition: Callable[[], T], what: str, seconds: float = HANG_SECONDS
) -> T:
    """Call `condition` until its result is true, in tests without an event loop."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(PAUSE_SECONDS)
    return found
