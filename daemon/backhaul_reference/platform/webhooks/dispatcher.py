"""Claims due deliveries, sends them concurrently, records results."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial

from backhaul_reference.platform.clock import Clock, either, start_task
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import subscriptions, webhook_outbox
from backhaul_reference.platform.state.database import Reader, Row
from backhaul_reference.platform.state.writer import Writer
from backhaul_reference.platform.webhooks.sender import Sender

PER_SUBSCRIPTION = 64
IDLE_SECONDS = 60.0
PAUSE_SECONDS = 1.0
PRUNE_EVERY_MS = 3600 * 1000
log = logging.getLogger(__name__)


class Dispatcher:
    """Sends due deliveries until stopped; `wake` makes it check at once."""

    def __init__(
        self, writer: Writer, reader: Reader, clock: Clock, sender: Sender
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._sender = sender
        self._wake = asyncio.Event()
        self._busy: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: list[webhook_outbox.Attempt] = []
        self._recorder: asyncio.Task[None] | None = None
        self._prune_ms = 0

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        cleared = False
        while True:
            self._wake.clear()
            try:
                if not cleared:
                    await self._writer.run(webhook_outbox.clear_leases)
                    cleared = True
                await self._prune()
                wait = await self._dispatch_due()
            except Problem as problem:
                log.warning("dispatch paused code=%s", problem.code)
                wait = PAUSE_SECONDS
            except Exception:
                log.exception("dispatch failed")
                wait = PAUSE_SECONDS
            await self._rest(wait)

    async def stop(self) -> None:
        """Cancel the attempts in flight; after the next start they are sent again.

        Finished attempts are recorded if that succeeds at once, else they count as
        in flight.
        """
        recorders = [] if self._recorder is None else [self._recorder]
        given_up = [*self._tasks, *recorders]
        for task in given_up:
            task.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        if self._ended and not await self._record(tuple(self._ended)):
            log.warning("attempts given up count=%d", len(self._ended))

    async def _prune(self) -> None:
        if self._clock.now_ms() >= self._prune_ms:
            self._prune_ms = self._clock.now_ms() + PRUNE_EVERY_MS
            await self._writer.run(subscriptions.prune)

    async def _dispatch_due(self) -> float:
        """Start the due deliveries; return the seconds until the next one."""
        wait = IDLE_SECONDS
        for subscription_id, next_ms in self._reader.read(webhook_outbox.due):
            delay = (next_ms - self._clock.now_ms()) / 1000
            free = PER_SUBSCRIPTION - self._busy[subscription_id]
            if delay > 0:
                wait = min(wait, delay)
            elif free > 0:
                await self._start(subscription_id, free)
        return wait

    async def _start(self, subscription_id: str, free: int) -> None:
        claimed = await self._writer.run(
            lambda tx: webhook_outbox.claim(tx, subscription_id, free)
        )
        for row in claimed:
            self._busy[subscription_id] += 1
            task = start_task(self._deliver(row))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if len(claimed) == free:
            self._wake.set()

    async def _deliver(self, row: Row) -> None:
        try:
            attempt = await self._sender.attempt(row)
        finally:
            self._busy[row["subscription_id"]] -= 1
        self._ended.append(attempt)
        if self._recorder is None or self._recorder.done():
            self._recorder = start_task(self._record_ended())
        self._wake.set()

    async def _record_ended(self) -> None:
        """Record all finished attempts in one transaction."""
        while self._ended:
            ended = tuple(self._ended)
            if await self._record(ended):
                del self._ended[: len(ended)]
            else:
                await self._clock.sleep(PAUSE_SECONDS)
        self._wake.set()

    async def _record(self, ended: Sequence[webhook_outbox.Attempt]) -> bool:
        """Record attempts, return whether it succeeded; repeating is safe."""
        try:
            await self._writer.run(partial(webhook_outbox.record, attempts=ended))
        except Problem as problem:
            log.warning("attempts kept code=%s", problem.code)
            return False
        except Exception:
            log.exception("attempts kept")
            return False
        return True

    async def _rest(self, seconds: float) -> None:
        await either(self._wake.wait(), self._clock.sleep(seconds))
