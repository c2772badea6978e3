"""Cancels a piece of work at one of its waits, whichever it may be."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

MOST_WAITS = 500


class Interrupted:
    """Awaits something, and cancels it at its wait number `waits` (from 0)."""

    def __init__(self, waits: int, work: Coroutine[Any, Any, Any]) -> None:
        self._waits = waits
        self._work = work
        self.cancelled = False

    def __await__(self) -> Generator[Any, None, None]:
        task = asyncio.current_task()
        steps = self._work.__await__()
        go_on: Callable[[], Any] = partial(next, steps)
        for wait in count():
            try:
                waited_for = go_on()
            except StopIteration:
                return
            if wait == self._waits and task is not None:
                task.cancel()
                self.cancelled = True
            try:
                yield waited_for
                go_on = partial(next, steps)
            except BaseException as error:  # noqa: BLE001 - handed to the work itself
                go_on = partial(steps.throw, error)


async def cancelled_at(waits: int, work: Coroutine[Any, Any, Any]) -> bool:
    """Cancel the work at one of its waits; tell whether it ended before.

    Work that goes on although it was cancelled would hold up the end of the program.
    """
    interrupted = Interrupted(waits, work)
    try:
        await interrupted
    except asyncio.CancelledError:
        _forget_cancellation()
        return False
    if interrupted.cancelled:
        _forget_cancellation()
        pytest.fail(f"it went on although it was cancelled at its wait {waits}")
    return True


def _forget_cancellation() -> None:
    if task := asyncio.current_task():
        task.uncancel()
