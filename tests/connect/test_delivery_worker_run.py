"""How a delivery worker runs, wakes and ends, and when its connector counts as up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

from backhaul.errors import Busy
from backhaul_sdk import Applied, CheckFailed, NotSent
from connect.test_delivery_worker import ORDERS, PLACED, order, worker_with_order
from scenes.databases import append_and_fold
from scenes.notifications import (
    Deduplicating,
    WithLookup,
    deliver_all,
    deliveries_of,
    delivery_worker,
)
from scenes.spans import traced
from scenes.waiting import until

if TYPE_CHECKING:
    import pytest

    from backhaul.store import Store
    from scenes.clock import VirtualClock


async def test_a_claimed_delivery_goes_out_if_its_trace_cannot_be_read(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = AsyncMock(side_effect=Busy("no room"))
    monkeypatch.setattr(store.deliveries, "traceparent_of", refuse)
    books = WithLookup()
    with traced() as (tracer, _):
        await deliver_all(await worker_with_order(store, clock, books, tracer))
    assert refuse.called
    assert books.received() == [PLACED]


async def test_fifty_short_outages_are_logged_as_one(
    store: Store, clock: VirtualClock, lines: list[str]
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    for number in range(50):
        books.outcomes += [NotSent("nobody answers", 0.0), Applied()]
        await append_and_fold(store, order(400 + number))
        await deliver_all(sink)
        await clock.advance(1)
        await deliver_all(sink)
    await clock.advance(10)
    sink.health.log_recovery()
    actions = [line.split()[0] for line in lines if line.startswith("connector.")]
    assert actions == ["connector.down", "connector.up"]


async def test_a_connector_that_opens_is_up_without_anything_to_send(
    store: Store, clock: VirtualClock
) -> None:
    class Unmounted(WithLookup):
        there = False

        async def open(self) -> None:
            if not self.there:
                raise CheckFailed("its folder is not there; create it")

    books = Unmounted()
    sink = delivery_worker(books, store, clock, topics=ORDERS)
    await sink.subscribe()
    await deliver_all(sink)
    down = {"up": False, "reason": "its folder is not there; create it"}
    assert sink.state() == down
    books.there = True
    await clock.advance(60)
    await deliver_all(sink)
    assert sink.state() == {"up": True, "reason": None}


async def test_an_open_connector_that_refuses_stays_down(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [NotSent("it is closed", 30.0)]
    await deliver_all(sink)
    await clock.advance(29)
    await deliver_all(sink)
    assert sink.state() == {"up": False, "reason": "it is closed"}


async def test_the_worker_ends_after_the_delivery_under_way_is_recorded(
    store: Store, clock: VirtualClock
) -> None:
    class Slow(WithLookup):
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def push(self, change: Any) -> Any:
            self.reached.set()
            await self.go_on.wait()
            return await super().push(change)

    books = Slow()
    sink = await worker_with_order(store, clock, books)
    task = asyncio.create_task(sink.run())
    await books.reached.wait()
    sink.stop()
    books.go_on.set()
    await task
    assert deliveries_of(store)[-1] == (*PLACED, "applied")


class Unprintable:
    """A reason whose text cannot be created."""

    def __str__(self) -> str:
        raise ZeroDivisionError("unprintable")


async def test_an_unforeseen_answer_does_not_end_the_worker(
    store: Store, clock: VirtualClock, lines: list[str]
) -> None:
    """Otherwise the daemon would end at each start."""
    books = Deduplicating()
    books.outcomes += [NotSent(Unprintable())] * 3  # type: ignore[arg-type]
    sink = await worker_with_order(store, clock, books)
    run = asyncio.create_task(sink.run())
    for tries in range(1, 5):
        await until(lambda n=tries: len(books.received_ids) == n, "it is sent again")  # type: ignore[misc]
        await clock.advance(120)
        sink.wake()
    await until(lambda: books.received() == [PLACED], "it is applied")
    sink.stop()
    await run
    assert len([line for line in lines if line.startswith("delivery.failed")]) == 1


async def test_the_worker_wakes_for_a_new_delivery(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, topics=ORDERS)
    await sink.subscribe()
    task = asyncio.create_task(sink.run())
    await append_and_fold(store, order(300))
    sink.wake()
    await until(lambda: bool(books.changes), "it is sent")
    sink.stop()
    await task
