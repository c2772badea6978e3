"""Records whose order or product is not mirrored yet: tried again as it grows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.connect.host import tell
from backhaul.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.connect.matching import Matcher
    from backhaul.store.contract import Records

BATCH = 100
LOOK_SECONDS = 1.0
"""Even if nothing is folded, a waiting record runs out of time."""
IDLE_SECONDS = 30.0
"""Where none waits: a lost wake costs no more than this."""
SOON_SECONDS = 0.1
"""The next look where something was looked for in vain."""


class WaitingRoom:
    """Matches waiting records whenever something was folded, and once a second.

    Who keeps a record that waits wakes it.
    """

    def __init__(
        self, records: Records, matcher: Matcher, planned: Callable[[], None]
    ) -> None:
        self._records = records
        self._matcher = matcher
        self._planned = planned
        self._folded = asyncio.Event()

    def wake(self) -> None:
        """Tell that the mirror has changed, or that a record waits."""
        self._folded.set()

    async def run(self) -> None:
        """Match for ever. Cancel to stop."""
        while True:
            self._folded.clear()
            try:
                seconds = await self._work_off()
            except Busy as error:
                logger.bind(action="record.busy").warning("{}", error)
                seconds = LOOK_SECONDS
            try:
                async with asyncio.timeout(seconds):
                    await self._folded.wait()
            except TimeoutError:
                continue

    async def _work_off(self) -> float:
        """Match what waits; return how long to rest then."""
        if not await self._records.any_waiting():
            return IDLE_SECONDS
        return SOON_SECONDS if await self._look() else LOOK_SECONDS

    async def _look(self) -> bool:
        """Match once; tell whether to look again soon."""
        outcomes = await self._records.match(self._matcher, BATCH)
        if any(outcome.state == "accepted" for outcome in outcomes):
            self._planned()
        for outcome in outcomes:
            if outcome.state != "waiting":
                tell(outcome)
        in_vain = any(outcome.state == "waiting" for outcome in outcomes)
        return in_vain or len(outcomes) == BATCH
