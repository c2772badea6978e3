"""The indexer: keeps the search index current, behind the fold's back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.errors import Busy
from backhaul.shop.members import describe

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store.upkeep import Followed, SearchIndex

SLICE_SECONDS = 0.005
YIELD_SECONDS = 0.25
"""Rest between two slices while events wait to be folded: a fiftieth of the time."""
PAUSE_SECONDS = 0.5
"""Rest after the database refused to write."""


class Indexer:
    """Indexes what changed, then waits to be woken."""

    def __init__(self, index: SearchIndex, clock: Clock) -> None:
        self._index = index
        self._clock = clock
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Tell that the mirror has changed."""
        self._wake.set()

    async def run(self) -> None:
        """Index for ever. Cancel to stop: a slice is whole or not at all."""
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while (step := await self._slice()) is None or step.more:
                if step is not None and step.folding:
                    await self._clock.sleep(YIELD_SECONDS)

    async def _slice(self) -> Followed | None:
        try:
            return await self._index.follow(describe, SLICE_SECONDS)
        except Busy as error:
            logger.bind(action="search.busy").warning("{}", error)
            await self._clock.sleep(PAUSE_SECONDS)
            return None
