"""Waits for conditions: the one place where tests look again."""

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


async def until(look: Callable[[], T], what: str, seconds: float = HANG_SECONDS) -> T:
    """Return what `look` finds, as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(PAUSE_SECONDS)
    return found


def await_true(look: Callable[[], T], what: str, seconds: float = HANG_SECONDS) -> T:
    """Return what `look` finds, as soon as it is true; for tests without a loop."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(PAUSE_SECONDS)
    return found
