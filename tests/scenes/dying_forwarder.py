"""A program that forwards a spool to a database, and kills itself at one step.

Arguments: the spool's file, the URL of the database, and the point, such as
`remove:before`. It ends with 0 once the spool is empty.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import SystemClock
from backhaul.ingest.spool import SpoolingInbox
from backhaul.store import open_spool, open_store
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

POINTS = ("append:before", "append:after", "remove:before", "remove:after")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def dying(method: Callable[..., Awaitable[Any]], point: str, given: Any) -> Any:
    """Call a method, and die before or after it."""
    if point == "before":
        die()
    found = await method(given)
    if point == "after":
        die()
    return found


async def forward(file: Path, url: str, point: str) -> None:
    store = open_store(url, SystemClock())
    store.start()
    spool: Any = open_spool(file, SystemClock())
    inbox: Any = store.inbox
    name, _, moment = point.partition(":")
    place = {"append": inbox, "remove": spool}.get(name)
    if place is not None:
        setattr(place, name, partial(dying, getattr(place, name), moment))
    spooling = SpoolingInbox(inbox, spool, SystemClock(), accepts=True)
    await spooling.start()
    running = asyncio.ensure_future(spooling.run())
    await until(lambda: not spooling.waiting, "the spool is empty")
    running.cancel()
    await spooling.stop()
    await store.stop()


if __name__ == "__main__":
    asyncio.run(forward(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
