"""Before a lookup decides, http_json waits for requests that may be in progress."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from backhaul_connectors.http_json import HttpJson
from backhaul_connectors.http_json.settings import Settings
from backhaul_sdk import Absent, Applied, Found, Uncertain
from backhaul_sdk.testing import Failure, sample_change
from connectors.backoffice import ORDERS
from connectors.serving import Site
from scenes import payloads
from scenes.clock import RunningClock
from scenes.databases import append_and_fold, started_store
from scenes.notifications import deliveries_of, delivery_worker
from scenes.payloads import envelope
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from backhaul_sdk import Connector

TOPIC = "order.placed"


class SlowOffice(Site):
    """Writes an order down only once it was looked for, each as often as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[str] = []
        self.came = asyncio.Event()
        self.looked_for = asyncio.Event()
        self.app.router.add_post("/orders", self._take)
        self.app.router.add_get("/orders/{id}", self._look)

    def connector(
        self, clock: Callable[[], float] = time.monotonic, **options: Any
    ) -> Connector[Any]:
        """Return a new connector, as after a restart."""
        push = {**ORDERS, "body": "@", "lookup_path": "/orders/{object_id}"}
        told = {"base_url": self.url, "network": self.network, "pushes": {TOPIC: push}}
        settings = Settings.model_validate({**told, **options})
        return self.made(HttpJson("office", settings, clock=clock))

    async def _take(self, request: web.Request) -> web.Response:
        order = (await request.json())["object_id"]
        self.came.set()
        await self.looked_for.wait()
        self.orders.append(order)
        return web.json_response({"number": len(self.orders)}, status=201)

    async def _look(self, request: web.Request) -> web.Response:
        order = request.match_info["id"]
        if order in self.orders:
            return web.json_response({"number": 1 + self.orders.index(order)})
        self.looked_for.set()
        return web.json_response({"error": "no such order"}, status=404)


@pytest.fixture
async def office() -> AsyncIterator[SlowOffice]:
    office = SlowOffice()
    await office.plug_in()
    yield office
    await office.close()


async def test_an_order_is_written_once_however_late_the_answer_is(
    office: SlowOffice, tmp_path: Path
) -> None:
    clock, connector = (
        RunningClock(),
        office.connector(answer_seconds=1, in_flight_seconds=1),
    )
    async with started_store(tmp_path / "backhaul.db", clock) as store:
        sink = delivery_worker(
            connector, store, clock, topics=frozenset({TOPIC}), begin="all"
        )
        await append_and_fold(store, envelope("orders/create", payloads.order()))
        await sink.subscribe()
        async with asyncio.timeout(HANG_SECONDS):
            while [state for *_, state in deliveries_of(store)] != ["applied"]:
                if not await sink.step():
                    await asyncio.sleep(0.05)
    assert len(office.orders) == 1


async def test_a_request_of_an_ended_program_is_waited_for(
    office: SlowOffice,
) -> None:
    change, before = sample_change(1), office.connector()
    sending = asyncio.create_task(before.push(change))
    await office.came.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await before.close()
    after = office.connector(answer_seconds=1, in_flight_seconds=1)
    await after.open()
    assert await after.lookup(change) == Found("1")


async def test_an_order_without_an_answer_is_waited_for(office: SlowOffice) -> None:
    connector = office.connector(answer_seconds=1, in_flight_seconds=1)
    assert isinstance(await connector.push(sample_change(1)), Uncertain)
    assert await connector.lookup(sample_change(1)) == Found("1")


async def test_a_push_that_is_cancelled_is_waited_for(office: SlowOffice) -> None:
    change, connector = (
        sample_change(1),
        office.connector(answer_seconds=1, in_flight_seconds=1),
    )
    sending = asyncio.create_task(connector.push(change))
    await office.came.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert await connector.lookup(change) == Found("1")


async def test_only_an_absent_change_is_waited_for(office: SlowOffice) -> None:
    office.looked_for.set()
    connector = office.connector(lambda: 0.0, answer_seconds=100)
    await connector.open()
    office.failure = Failure.LOSES_ANSWER
    lost = await connector.push(sample_change(1))
    assert isinstance(lost, Uncertain)
    office.failure = None
    async with asyncio.timeout(HANG_SECONDS):
        assert await connector.push(sample_change(2)) == Applied("2")
        assert await connector.lookup(sample_change(1)) == Found("1")


async def test_a_change_that_is_absent_much_later_is_absent_at_once(
    office: SlowOffice,
) -> None:
    seconds = [0.0]
    connector = office.connector(lambda: seconds[0], answer_seconds=100)
    await connector.open()
    seconds[0] = 200.0
    async with asyncio.timeout(HANG_SECONDS):
        assert await connector.lookup(sample_change(1)) == Absent()


def test_a_lookup_decides_no_sooner_than_an_answer_may_come() -> None:
    told: dict[str, Any] = {"base_url": "https://example.com", "answer_seconds": 40}
    told |= {"pushes": {TOPIC: ORDERS}}
    assert Settings.model_validate(told).late_request_seconds == 80
    longer = Settings.model_validate({**told, "in_flight_seconds": 300})
    assert longer.late_request_seconds == 300
    with pytest.raises(ValidationError, match="in_flight_seconds must be 40 or more"):
        Settings.model_validate({**told, "in_flight_seconds": 39})
