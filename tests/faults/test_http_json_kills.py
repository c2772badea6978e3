"""F32 for lists over HTTP: the server is killed in a page; each item counts once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul_connectors.courier.polling import SeenStatuses
from backhaul_connectors.http_json.client import positions_of
from backhaul_sdk import CheckFailed
from backhaul_sdk.testing import MemoryHost
from faults.office import DAWDLES_SECONDS, ITEMS, PAGE_ITEMS
from faults.offices import Parcels, Shipments
from faults.trials import LONG, chances, tell
from scenes.loop_guard import on_purpose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from faults.offices import WebOffice

CLOCK = SystemClock()
KILLS = 50 if LONG else 2
PAGES = ITEMS // PAGE_ITEMS


@pytest.fixture(params=[Shipments, Parcels])
def office(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[WebOffice]:
    with on_purpose():
        made: WebOffice = request.param(tmp_path)
    yield made
    made.close()


@pytest.mark.faults
async def test_a_killed_server_loses_and_doubles_no_item(
    office: WebOffice, capsys: pytest.CaptureFixture[str]
) -> None:
    moments, noticed = chances(), 0
    for _ in range(KILLS):
        host, page = MemoryHost(), moments.randrange(PAGES)
        late = moments.uniform(0, 2 * DAWDLES_SECONDS)
        noticed += not await pull_and_kill(office, host, page, late)
        assert_not_ahead(host)
        await asyncio.to_thread(office.start)
        connector = office.connector()
        await host.pull(connector)
        await connector.close()
        assert_not_ahead(host)
        assert len(host.records) == ITEMS
    tell(capsys, 0, KILLS, f"noticed {noticed} times")
    assert noticed > KILLS // 2, "the kills came too late to matter"


async def pull_and_kill(
    office: WebOffice, host: MemoryHost, page: int, late: float
) -> bool:
    """Pull, and kill the server `late` seconds after a page; tell if all came."""
    connector, killing = office.connector(), asyncio.ensure_future(asyncio.sleep(0))
    try:
        async for batch in connector.pull(None):
            host.commit(batch)
            if page == 0:
                killing = asyncio.ensure_future(kill_late(office, late))
            page -= 1
            await batch.ack()
    except CheckFailed:
        return False
    finally:
        await killing
        await connector.close()
    return True


async def kill_late(office: WebOffice, late: float) -> None:
    await CLOCK.sleep(late)
    await asyncio.to_thread(office.kill)


def assert_not_ahead(host: MemoryHost) -> None:
    """Hold what the cursor says was read against what is kept."""
    seen = SeenStatuses.from_text(host.cursor).words
    assert len(seen) <= len(host.records)
    for place in positions_of(host.cursor).values():
        assert int(place.next or 0) <= len(host.records)
