"""Blocking work in a thread, never left behind."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` returns; when cancelled, wait first until it has ended.

    `asyncio.to_thread` leaves a cancelled thread running, which would move or write
    files after `close`. So `work` must be short.
    """
    running = asyncio.get_running_loop().run_in_executor(
        None, partial(work, *args, **kwargs)
    )
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
