"""Runs file work in threads that end before `close`; escapes spreadsheet cells."""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator


P = ParamSpec("P")
T = TypeVar("T")
LONGEST_SECONDS = 20.0
"""For how long a cancellation waits for work with a server."""
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?", re.ASCII)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`; a cancellation first waits until `work` has ended.

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


async def in_breakable_thread(work: Callable[[], T], end: Callable[[], None]) -> T:
    """Return the result of `work`, which waits for a network.

    A cancellation calls `end`, with which the network call fails at once, and waits
    until the thread has ended.
    """
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        end()
        await asyncio.wait([running])
        raise


async def run_in_steps(work: Generator[None]) -> None:
    """Do the work in a thread, up to each `yield` in one call of `in_thread`."""
    with closing(work):
        while await in_thread(next, work, True) is None:
            pass


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; a cancellation first waits until it has ended.

    Work that does not end, because a server hangs, is cancelled after LONGEST_SECONDS.
    """
    running = asyncio.gather(work)
    try:
        (result,) = await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running], timeout=LONGEST_SECONDS)
        running.cancel()
        raise
    return result


def formula_safe(cell: str) -> str:
    """Return the cell in a form that no spreadsheet runs; numbers stay numbers."""
    is_formula = cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if is_formula and not _NUMBER.fullmatch(cell) else cell
