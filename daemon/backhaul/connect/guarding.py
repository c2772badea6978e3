"""Somebody else's code: whatever it raises is a failure of its own, and no more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from backhaul.cancelling import is_told_to_end
from backhaul.core.printable import storable
from backhaul.errors import Busy
from backhaul_sdk import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


class ConnectorFailed(Exception):
    """A connector raised something; the text is what a person is told."""


async def guarded(work: Awaitable[T]) -> T:
    """Await a connector's work. Raises ConnectorFailed, and Busy for our database.

    A cancellation that nobody asked for, and an attempt to end the program, are
    failures like others.
    """
    try:
        return await work
    except Busy:
        raise
    except asyncio.CancelledError:
        if is_told_to_end():
            raise
        raise ConnectorFailed("it cancelled itself") from None
    except (Exception, SystemExit, GeneratorExit, BaseExceptionGroup) as error:
        if is_told_to_end():
            raise asyncio.CancelledError from error
        raise ConnectorFailed(words(error)) from error


async def bounded(seconds: float, task: asyncio.Task[T], what: str) -> T:
    """Return what a guarded task returns; cancel it when nobody waits any more.

    Raises ConnectorFailed where it takes longer; that it ends is not waited for.
    """
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise ConnectorFailed(f"it takes longer than {seconds:g} s {what}")
        return task.result()
    finally:
        task.add_done_callback(_hear)
        task.cancel()


def _hear(task: asyncio.Task[T]) -> None:
    """Take note of what came too late, else asyncio complains that nobody did."""
    if not task.cancelled():
        task.exception()


def words(error: BaseException) -> str:
    """Return what to tell and keep: a sentence of its own needs no name of a class."""
    try:
        said = str(error)
    except Exception as unsaid:  # noqa: BLE001 - what a connector raises is its own
        said = f"(it cannot be shown: {type(unsaid).__name__})"
    if isinstance(error, CheckFailed | ConnectorFailed):
        return storable(said)
    return storable(f"{type(error).__name__}: {said}")
