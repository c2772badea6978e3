"""Keeps webhooks on the disk of this machine while the database is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from loguru import logger

from backhaul.errors import Busy
from backhaul.runtime.loop import Loop

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store.inbox import Appending, Arrival, Spool

FORWARD_SECONDS = 0.5
"""How soon a spool is forwarded or cleared again, if that failed."""


class SpoolingInbox:
    """Appends events to an inbox, or to a spool while the inbox refuses them.

    As long as the spool is not empty, later events wait behind the earlier ones.
    `run` forwards the spool to the inbox in order. An event is removed from the spool
    after its commit there: if the process ends in between, the next one forwards the
    event again, and the fold finds that its body is a repeat.

    Once the spool is empty, its file keeps nothing of them, because an erasure clears
    the database only. With `accepts=False` the spool only gives up the events that an
    earlier run left.
    """

    def __init__(
        self, inbox: Appending, spool: Spool, clock: Clock, *, accepts: bool
    ) -> None:
        self._inbox = inbox
        self._spool = spool
        self._accepts = accepts
        self._loop = Loop(clock, _ignore)
        self._forwarded = 0
        self._is_reported = False
        self._is_clear = False
        self.waiting = 0
        """How many events are in the spool, or on their way to it."""

    async def start(self) -> None:
        """Find the events that an earlier run left. Raises ReadFailed."""
        self._spool.start()
        self.waiting = await self._spool.size()
        if self.waiting:
            logger.bind(action="spool.found", webhooks=self.waiting).warning(
                "{} webhooks wait on this machine for the database", self.waiting
            )

    async def append(self, arrival: Arrival) -> int:
        """Append an event; resolve with its id once it is durable. May raise Busy."""
        if not (self.waiting and self._accepts):
            try:
                return await self._inbox.append(arrival)
            except Busy:
                if not self._accepts:
                    raise
        return await self._keep(arrival)

    async def _keep(self, arrival: Arrival) -> int:
        self.waiting += 1
        try:
            id_ = await self._spool.append(arrival)
        except Exception:
            self.waiting -= 1
            raise
        self._log_begin()
        self._loop.wake()
        return id_

    async def run(self) -> NoReturn:
        """Forward the spool whenever it is not empty, until cancelled.

        Raises WriterFailed when nothing can be written to the spool any more.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._spool.watch())
            await self._loop.run(self._forward)
        raise AssertionError("a spool is forwarded for ever")

    async def stop(self) -> None:
        """Close the spool; what is in it is forwarded by the next run."""
        await self._spool.stop()

    async def _forward(self) -> float | None:
        """Forward the oldest events; return in how many seconds more are due."""
        events = await self._spool.oldest()
        if not events:
            self._is_clear = self._is_clear or await self._spool.clear()
            return None if self._is_clear else FORWARD_SECONDS
        self._is_clear = False
        appends = [self._inbox.append(arrival) for _, arrival in events]
        results = await asyncio.gather(*appends, return_exceptions=True)
        if errors := [one for one in results if isinstance(one, BaseException)]:
            if not isinstance(errors[0], Busy):
                self._log_refused(errors[0])
            return FORWARD_SECONDS
        await self._spool.remove(events[-1][0])
        self.waiting -= len(events)
        self._forwarded += len(events)
        if not self.waiting:
            self._log_end()
        return 0.0

    def _log_begin(self) -> None:
        if not self._is_reported:
            self._is_reported = True
            logger.bind(action="spool.begun").warning(
                "the database cannot be written; webhooks are kept on this machine"
                " until it can"
            )

    def _log_refused(self, error: BaseException) -> None:
        logger.bind(action="spool.refused").error(
            "the database refused a webhook of the spool, so {} webhooks wait on this"
            " machine: {}: {}",
            self.waiting,
            type(error).__name__,
            error,
        )

    def _log_end(self) -> None:
        done, self._forwarded, self._is_reported = self._forwarded, 0, False
        logger.bind(action="spool.forwarded", webhooks=done).info(
            "{} webhooks that waited on this machine are in the database", done
        )


def _ignore(_: Exception) -> None:
    """Log nothing: the beginning and the end of a spool are logged."""
