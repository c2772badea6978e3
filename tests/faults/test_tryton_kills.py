"""F32 for Tryton: its server is killed; each sale and shipment counts once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul_connectors.tryton import Tryton
from backhaul_connectors.tryton.reader import TrytonCursor
from backhaul_sdk import Applied, CheckFailed
from backhaul_sdk.testing import MemoryHost, sample_change
from connectors.test_tryton import settings_of
from faults.offices import Office
from faults.telling import tell_amid_kills
from faults.trials import chances, tell
from scenes.loop_guard import on_purpose
from scenes.tryton import common_folder, tryton

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backhaul_sdk import Connector
    from scenes.tryton import TrytonServer

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(3_000)]

CLOCK = SystemClock()
KILLS = 50
SHIPMENTS = 10
PAGE_SECONDS = 0.3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrytonServer]:
    folder, common = tmp_path_factory.mktemp("tryton"), common_folder(tmp_path_factory)
    with tryton(folder, common) as running:
        yield running


class Sales(Office):
    """A Tryton server that makes sales of orders, and confirms them."""

    names = "object_id"
    orders_a_life = 3
    busy_seconds = 1.0

    def __init__(self, server: TrytonServer) -> None:
        self._server = server

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def connector(self) -> Connector[Any]:
        return connected(self._server, sale_state="confirmed", in_flight_seconds=0.5)

    def came(self) -> list[str]:
        return [reference for reference, _ in self._server.sales()]


def connected(server: TrytonServer, **options: Any) -> Tryton:
    return Tryton("erp", settings_of(server.port, stock_seconds=0, **options))


async def test_a_killed_tryton_has_a_sale_for_each_order(
    tmp_path: Path, server: TrytonServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with on_purpose():
        server.empty()
    told = await tell_amid_kills(Sales(server), tmp_path / "backhaul.db", KILLS)
    tell(capsys, 0, KILLS, f"{len(told.owed)} orders")
    assert sorted(told.came) == sorted(told.owed)
    assert {state for _, state in server.sales()} <= {"confirmed", "processing"}


async def test_a_killed_tryton_reports_each_shipment_once(
    server: TrytonServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with on_purpose():
        server.empty()
    await ship_some(server)
    moments, noticed = chances(), 0
    for _ in range(KILLS):
        host, page = MemoryHost(), moments.randrange(SHIPMENTS)
        late = moments.uniform(0, PAGE_SECONDS)
        noticed += not await pull_and_kill(server, host, page, late)
        await asyncio.to_thread(server.start)
        assert_not_ahead(server, host)
        connector = connected(server, batch_rows=1)
        await host.pull(connector)
        await connector.close()
        assert_not_ahead(server, host)
        assert len(host.records) == SHIPMENTS
    tell(capsys, 0, KILLS, f"noticed {noticed} times")
    assert noticed > KILLS // 2, "the kills came too late to matter"


async def ship_some(server: TrytonServer) -> None:
    connector = connected(server, sale_state="confirmed")
    changes = [sample_change(number) for number in range(SHIPMENTS)]
    for change in changes:
        assert isinstance(await connector.push(change), Applied)
    await connector.close()

    def ship() -> None:
        with server.log_in() as house:
            for change in changes:
                house.ship(change.object_id, f"BD{change.object_id}")

    await asyncio.to_thread(ship)


async def pull_and_kill(
    server: TrytonServer, host: MemoryHost, page: int, late: float
) -> bool:
    """Pull, and kill the server `late` seconds after a page; tell if all came."""

    async def kill() -> None:
        await CLOCK.sleep(late)
        await asyncio.to_thread(server.kill)

    connector = connected(server, batch_rows=1)
    killing: list[asyncio.Future[None]] = []
    try:
        async for batch in connector.pull(None):
            host.commit(batch)
            if page == 0:
                killing.append(asyncio.ensure_future(kill()))
            page -= 1
            await batch.ack()
    except CheckFailed:
        return False
    finally:
        await asyncio.gather(*killing)
        await connector.close()
    return True


def assert_not_ahead(server: TrytonServer, host: MemoryHost) -> None:
    """Hold the place that was read to against what is kept."""
    place = TrytonCursor.from_text(host.cursor).shipment
    done = server.shipped()
    behind = done[: done.index(place) + 1] if place else []
    kept = {int(key.split(":")[1]) for key in host.records}
    assert {*behind} <= kept
