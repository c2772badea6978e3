"""Tunes the garbage collector for start-up and load; starts threads in time."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from concurrent.futures import ThreadPoolExecutor

YOUNG_OBJECTS = 10_000
"""New objects that start a collection of the youngest generation.

A few dozen requests exceed Python's default of 700. With hundreds of concurrent
requests, each collection would find all objects alive, promote them and scan them
again later. Reference counting frees nearly everything; only cycles need a collection.
"""


@contextmanager
def paused() -> Iterator[None]:
    """Pause the garbage collector while modules load: they create no garbage."""
    gc.disable()
    try:
        yield
    finally:
        collect_less_often()
        gc.enable()


def collect_less_often() -> None:
    """Exclude the objects of the start-up, and collect the others less often.

    Hardly any object of the start-up is garbage, so scanning them is wasted time.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def start_threads(loop: asyncio.AbstractEventLoop) -> ThreadPoolExecutor:
    """Give a loop its threads, as many as asyncio would start later, one by one.

    If the memory runs out while Python starts a thread, the thread ends before it says
    that it runs, and the event loop waits for that for ever: no webhook is answered any
    more. So all threads start with the daemon.
    """
    # Imported here: this module is loaded before the garbage collector is paused.
    import threading
    from concurrent.futures import ThreadPoolExecutor

    count = min(32, (os.cpu_count() or 1) + 4)
    threads = ThreadPoolExecutor(count, "backhaul-worker")
    meeting = threading.Barrier(count + 1)
    for _ in range(count):  # each holds its thread, so that the next needs a new one
        threads.submit(meeting.wait)
    meeting.wait()
    loop.set_default_executor(threads)
    return threads
