"""The end of sending: nothing new leaves, and what is under way has a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.push.dispatcher import Dispatcher

STOP_SECONDS = 20.0
"""Longest wait for sends under way once told to stop; then they are uncertain."""


async def end_sending(
    told: asyncio.Event,
    dispatchers: Iterable[Dispatcher],
    senders: Sequence[asyncio.Task[None]],
    looks: Iterable[asyncio.Task[None]],
) -> None:
    """Once told to stop, let only what is under way go on, for so long.

    It begins while the listeners still answer requests. Looks end too: one may send
    what is in doubt again, and it stands in the database.
    """
    await told.wait()
    for dispatcher in dispatchers:
        dispatcher.stop()
    for look in looks:
        look.cancel()
    await asyncio.wait(senders, timeout=STOP_SECONDS)
