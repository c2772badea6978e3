"""The one home of background tasks: whoever starts one keeps and ends it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run `work` beside the caller, who must hold the task: the loop does not."""
    return asyncio.create_task(work)
