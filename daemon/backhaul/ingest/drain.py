"""The drain: folds what the inbox holds, in order of arrival, in short slices."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.errors import Busy
from backhaul.ingest.folding import fold_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.shop.client import StoreFacts
    from backhaul.store.contract import (
        Folded,
        FoldOne,
        Inbox,
        MirrorWriter,
        StoredEvent,
    )

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
        self._fold = folding_for(facts)
        self._folded = folded
        self._doubted = doubted
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()

    def wake(self) -> None:
        """Tell that the inbox has grown."""
        self._wake.set()

    async def caught_up(self) -> None:
        """Wait until everything that had arrived by now is folded."""
        self._idle.clear()
        self.wake()
        await self._idle.wait()

    async def run(self) -> None:
        """Fold for ever. Cancel to stop: a slice is whole or not at all."""
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while await self._slice():
                pass
            if not self._wake.is_set():
                self._idle.set()

    async def _slice(self) -> bool:
        """Fold once; return whether more is waiting."""
        try:
            report = await self._inbox.fold(self._fold, SLICE_SECONDS)
        except Busy as error:
            logger.bind(action="fold.busy").warning("{}", error)
            await self._clock.sleep(PAUSE_SECONDS)
            return True
        tell(report.problems)
        if report.folded:
            self._folded()
        if report.doubts:
            self._doubted()
        return report.more


def folding_for(facts: Mapping[str, StoreFacts]) -> FoldOne:
    """Return the fold of an event of any store, by what is known of the store then."""

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        known = facts.get(event.store)
        if known is None:
            return fold_one(event, mirror, store_id=None, currency="")
        store_id = known.store_id or None
        return fold_one(event, mirror, store_id=store_id, currency=known.currency)

    return fold


def tell(problems: Iterable[tuple[int, Folded]]) -> None:
    """Log what could not be folded."""
    for event, folded in problems:
        logger.bind(action=f"fold.{folded.state}", event=event).warning(
            "event {} ({}): {}", event, folded.topic, folded.detail
        )
