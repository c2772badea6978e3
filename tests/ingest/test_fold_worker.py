"""The fold worker: a caller waits for earlier events only, not for later ones."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock, to_text
from backhaul.ingest.fold_worker import LONGEST_SLICE_SECONDS, SLICE_SECONDS, FoldWorker
from backhaul.platform.client import StoreFacts
from scenes.databases import append, count
from scenes.payloads import STORE_ID, arrival, envelope, order
from scenes.pushing import cancel_task
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from backhaul.store import Store
    from backhaul.store.inbox import Arrival, FoldOne, FoldReport, Inbox

FACTS = {"main": StoreFacts(STORE_ID, "INR")}


class LastingTraffic:
    """A real inbox that gets a new event during every slice."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._slices = 0
        self.asked: list[float] = []
        self.drain = FoldWorker(self, SystemClock(), FACTS)

    def append(self, arrival: Arrival) -> Awaitable[int]:
        return self._inbox.append(arrival)

    async def newest(self) -> int:
        return await self._inbox.newest()

    async def fold(self, fold_one: FoldOne, slice_seconds: float) -> FoldReport:
        self.asked.append(slice_seconds)
        report = await self._inbox.fold(fold_one, slice_seconds)
        self._slices += 1
        await self._inbox.append(arrival(body(f"late_{self._slices}")))
        self.drain.wake()
        return report


def body(name: str) -> bytes:
    return envelope("orders/create", order(name))


async def test_earlier_events_are_folded_under_lasting_traffic(
    store: Store,
) -> None:
    traffic = LastingTraffic(store.inbox)
    await append(store, [body(f"early_{number}") for number in range(200)])
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(traffic.drain.run())
        async with asyncio.timeout(HANG_SECONDS):
            await traffic.drain.caught_up()
        assert count(store.place, "orders WHERE id LIKE 'early_%'") == 200
        running.cancel()


@pytest.mark.parametrize(
    ("ago_seconds", "slice_seconds"),
    [(0, SLICE_SECONDS), (1, 0.04), (9, LONGEST_SLICE_SECONDS)],
)
async def test_the_further_behind_the_longer_is_a_slice(
    ago_seconds: float, slice_seconds: float, store: Store
) -> None:
    traffic = LastingTraffic(store.inbox)
    at = to_text(SystemClock().now() - timedelta(seconds=ago_seconds))
    await store.inbox.append(arrival(body("early"))._replace(received_at=at))
    running = asyncio.ensure_future(traffic.drain.run())
    await until(lambda: len(traffic.asked) > 1, "another slice")
    await cancel_task(running)
    assert traffic.asked[0] == SLICE_SECONDS
    assert traffic.asked[1] == pytest.approx(slice_seconds, rel=0.3)


async def test_nothing_to_fold_is_nothing_to_wait_for(store: Store) -> None:
    drain = FoldWorker(store.inbox, SystemClock(), FACTS)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(drain.run())
        await drain.caught_up()
        await append(store, [body("one")])
        await drain.caught_up()
        assert count(store.place, "orders") == 1
        running.cancel()


async def test_events_folded_before_the_start_are_not_waited_for(
    store: Store,
) -> None:
    await append(store, [body("one")])
    for _ in range(2):
        drain = FoldWorker(store.inbox, SystemClock(), FACTS)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(drain.run())
            await drain.caught_up()
            running.cancel()
    assert count(store.place, "orders") == 1
