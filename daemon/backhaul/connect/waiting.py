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
SOON_SECONDS = 0.1
"""The next look where something was looked for in vain."""


class WaitingRoom:
    """Matches waiting records whenever something was folded, and once a second."""

    def __init__(
        self, records: Records, matcher: Matcher, planned: Callable[[], None]
    ) -> None:
        self._records = records
        self._matcher = matcher
        self._planned = planned
        self._folded = asyncio.Event()

    def wake(self) -> None:
        """Tell that the mirror has changed."""
        self._folded.set()

    async def run(self) -> None:
        """Match for ever. Cancel to stop."""
        while True:
            self._folded.clear()
            try:
                in_vain = await self._look()
            except Busy as error:
                logger.bind(action="record.busy").warning("{}", error)
                in_vain = False
            try:
                async with asyncio.timeout(SOON_SECONDS if in_vain else LOOK_SECONDS):
                    await self._folded.wait()
            except TimeoutError:
                continue

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
