"""Writing down what was met at the platform, for as long as the database refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from loguru import logger

from backhaul.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.core.clock import Clock

T = TypeVar("T")

REST_SECONDS = 0.5
"""Rest after the database refused to write."""


async def insist(write: Callable[[], Awaitable[T]], store: str, clock: Clock) -> T:
    """Write until it is taken: who gave up would have to ask the platform again."""
    while True:
        try:
            return await write()
        except Busy as error:
            tell_busy(store, error)
        await clock.sleep(REST_SECONDS)


def tell_busy(store: str, error: Busy) -> None:
    """Say that the database refuses to write."""
    logger.bind(action="push.busy", store=store).warning("{}", error)
