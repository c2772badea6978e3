"""Deletes data that is older than its retention period."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.core.clock import to_text
from backhaul.errors import Busy
from backhaul.runtime.loop import Loop
from backhaul.runtime.signals import no_report

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store.operations import ReportEnd, Retention

SLICE_SECONDS = 0.005
REST_SECONDS = 0.05
"""Pause between two slices: accepts and folds get nine tenths of the writer's time."""


class Pruner:
    """Deletes old data at the start and whenever it is woken."""

    def __init__(
        self,
        retention: Retention,
        days: int,
        clock: Clock,
        report: ReportEnd = no_report,
    ) -> None:
        self._retention = retention
        self._age = timedelta(days=days)
        self._clock = clock
        self._loop = Loop(clock)
        self._report = report

    def wake(self) -> None:
        """Start a run now."""
        self._loop.wake()

    async def run(self) -> None:
        """Run until cancelled. A slice is one transaction, so none is half done."""
        await self._loop.run(self._run_job)

    async def _run_job(self) -> None:
        began = to_text(self._clock.now())
        erased = await self._prune()
        if erased is not None:
            await self._report(began, f"erased {erased}")

    async def _prune(self) -> int | None:
        """Return how many bodies were erased; None if the database was busy."""
        before = to_text(self._clock.now() - self._age)
        total, counts, more = 0, 0, True
        while more:
            try:
                pruned = await self._retention.prune(before, SLICE_SECONDS)
            except Busy as error:
                logger.bind(action="prune.busy").warning("{}", error)
                return None
            total, counts = total + pruned.erased, counts + pruned.counts
            more = pruned.more
            if more:
                await self._clock.sleep(REST_SECONDS)
        if total or counts:
            logger.bind(action="prune.done").info(
                "erased {} bodies and {} counts received before {}",
                total,
                counts,
                before,
            )
        return total
