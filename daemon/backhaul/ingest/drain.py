"""The drain: folds what the inbox holds, in order of arrival, in short slices."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.errors import Busy
from backhaul.ingest.known_stores import fold_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.shop.client import StoreFacts
    from backhaul.store.contract import Folded, Inbox

SLICE_SECONDS = 0.005
"""The writer folds no longer than this in one go: accepts come first."""
PAUSE_SECONDS = 0.5
"""Rest after the database refused to write."""


class Drain:
    """Folds until nothing is left, then waits to be woken."""

    def __init__(
        self,
        inbox: Inbox,
        clock: Clock,
        facts: Mapping[str, StoreFacts],
        folded: Callable[[], None],
        doubted: Callable[[], None] = lambda: None,
    ) -> None:
        self._inbox = inbox
        self._clock = clock
        self._fold_one = fold_for(facts)
        self._folded = folded
        self._doubted = doubted
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._folded_to = 0

    def wake(self) -> None:
        """Tell that the inbox has grown."""
        self._wake.set()

    async def caught_up(self) -> None:
        """Wait until everything that had arrived by now is folded. May raise Busy.

        What arrives meanwhile is not waited for: traffic may last.
        """
        newest = await self._inbox.newest()
        while self._folded_to < newest:
            self._moved.clear()
            self.wake()
            await self._moved.wait()

    async def run(self) -> None:
        """Fold for ever. Cancel to stop: a slice is whole or not at all."""
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while await self._slice():
                pass

    async def _slice(self) -> bool:
        """Fold once; return whether more is waiting."""
        try:
            report = await self._inbox.fold(self._fold_one, SLICE_SECONDS)
        except Busy as error:
            logger.bind(action="fold.busy").warning("{}", error)
            await self._clock.sleep(PAUSE_SECONDS)
            return True
        tell(report.problems)
        if report.folded:
            self._folded()
        if report.doubts:
            self._doubted()
        self._folded_to = report.folded_to
        self._moved.set()
        return report.more


def tell(problems: Iterable[tuple[int, Folded]]) -> None:
    """Log what could not be folded."""
    for event, folded in problems:
        logger.bind(action=f"fold.{folded.state}", event=event).warning(
            "event {} ({}): {}", event, folded.topic, folded.detail
        )
