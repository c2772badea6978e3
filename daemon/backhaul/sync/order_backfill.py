"""Reads the orders since a time that an operator chose, in the background."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.rate_limit import Priority
from backhaul.errors import BackhaulError, Fatal
from backhaul.runtime.loop import Loop
from backhaul.sync.resource_types import ORDERS, SINCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.core.clock import Clock
    from backhaul.platform.client import StoreFacts
    from backhaul.store.operations import KeyValues
    from backhaul.sync.full_sync import FailureLog
    from backhaul.sync.incremental_sync import Poll

FEATURE = "updatedSince"
"""The feature of a platform that lists what changed since a time."""
RETRY_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 60.0


class OrderBackfill:
    """Reads the orders of one store since a time; goes on after a restart."""

    def __init__(
        self,
        poll: Poll,
        marks: KeyValues,
        facts: Callable[[], StoreFacts],
        failures: FailureLog,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        self._poll = poll
        self._store = poll.repair.store
        self._marks = marks
        self._facts = facts
        self._failures = failures
        self._clock = clock
        self._chance = chance
        self._loop = Loop(clock)
        # The mark is read, and then written: without it, the end of a pass would erase
        # a request that arrives in between.
        self._marking = asyncio.Lock()

    async def count(self, since: str) -> int | None:
        """Return how many orders the platform lists since a time, None if unknown.

        Raises BackhaulError.
        """
        self._require_feature()
        only_total: dict[str, str | int] = {"updatedSince": since, "limit": 1}
        client, priority = self._poll.client, Priority.INCREMENTAL
        return (await client.page(ORDERS.path, 1, priority, only_total)).total

    async def request(self, since: str) -> None:
        """Read the orders since a time soon; the earliest of several times counts."""
        self._require_feature()
        async with self._marking:
            asked = await self._asked()
            await self._marks.put(self._mark, min(since, asked or since))
        self._loop.wake()

    async def run(self) -> None:
        """Read on request until cancelled."""
        await self._loop.run(self._work)

    async def _work(self) -> None:
        failures = 0
        while since := await self._asked():
            try:
                await self._poll.orders_since(since)
            except Fatal:
                raise
            except Exception as error:  # noqa: BLE001 - logged, then retried
                self._failures.add((SINCE, ORDERS.name), error)
                failures += 1
                await self._clock.sleep(self._delay(failures))
                continue
            self._failures.resolve((SINCE, ORDERS.name))
            async with self._marking:
                if await self._asked() == since:
                    await self._marks.put(self._mark, "")

    def _delay(self, failures: int) -> float:
        return delay_seconds(
            failures,
            base_seconds=RETRY_BASE_SECONDS,
            cap_seconds=RETRY_CAP_SECONDS,
            chance=self._chance(),
        )

    async def _asked(self) -> str:
        return await self._marks.get(self._mark) or ""

    @property
    def _mark(self) -> str:
        return f"orders_since:{self._store}"

    def _require_feature(self) -> None:
        if FEATURE not in self._facts().features:
            raise BackhaulError(
                f"the platform of store {self._store} cannot list orders by time (it"
                f" does not offer {FEATURE}); start a full sync, which reads all orders"
            )
