"""Sends commands to the platform once, and resolves uncertain outcomes.

All workers retry the write of a result until the database stores it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from loguru import logger

from backhaul.runtime.loop import retry_while_busy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.core.clock import Clock

T = TypeVar("T")


async def retry_until_stored(
    write: Callable[[], Awaitable[T]], store: str, clock: Clock
) -> T:
    """Retry a write until it is stored; a lost result needs another check."""
    return await retry_while_busy(write, clock, partial(log_busy, store))


def log_busy(store: str, error: Exception) -> None:
    """Log that the database refuses writes."""
    logger.bind(action="push.busy", store=store).warning("{}", error)
