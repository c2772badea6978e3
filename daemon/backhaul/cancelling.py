"""Whether the present task was told to end."""

from __future__ import annotations

import asyncio


def is_told_to_end() -> bool:
    """Tell it where a failure came at the very moment of a cancellation.

    Before Python 3.13 a TaskGroup one of whose tasks fails just then raises that
    failure alone; who tries again after failures would do so for ever.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
