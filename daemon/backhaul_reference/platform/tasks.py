"""Starts background tasks; the only module that may create them."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start `work` as a task; the caller must keep a reference to it."""
    return asyncio.create_task(work)


async def either(*works: Coroutine[Any, Any, Any]) -> None:
    """Run all until the first ends, then cancel the others."""
    running = [start(work) for work in works]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in running:
            task.cancel()
