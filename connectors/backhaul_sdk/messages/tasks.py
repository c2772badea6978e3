"""Awaits a broker's library, which may swallow a cancellation or wait for ever."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")
CLOSE_SECONDS = 5.0
REASON_SECONDS = 0.2


class ConnectionLostError(Exception):
    """The connection ended before the work that used it."""


async def unless_lost(work: Coroutine[Any, Any, T], lost: asyncio.Future[None]) -> T:
    """Return the result of work that uses a connection.

    The work runs in a task of its own: so a cancellation ends this wait, even if the
    library swallows it. Raises ConnectionLostError when `lost` resolves first.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        either: set[asyncio.Future[Any]] = {task, lost}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            # The work may learn why the connection ended, a moment later than we do.
            await asyncio.wait([task], timeout=REASON_SECONDS)
        if task.done() and not task.cancelled():
            return task.result()
    finally:
        task.cancel()
        task.add_done_callback(_consume)
    raise ConnectionLostError


def _consume(task: asyncio.Task[Any]) -> None:
    """Read a late result, or asyncio logs an exception that was never retrieved."""
    if not task.cancelled():
        task.exception()


async def close_soon(close: Callable[[], Awaitable[None]]) -> None:
    """Close a connection, which may be broken: wait shortly, and pass no error on."""
    with suppress(Exception):
        async with asyncio.timeout(CLOSE_SECONDS):
            await close()
