"""A platform that accepts connections and never answers blocks nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.app.daemon import Daemon, Environment
from backhaul.cli import context
from backhaul.core.clock import SystemClock
from backhaul.store.sqlite.opening import open_store
from scenes.daemon import UNUSED_ADDRESS, Office
from scenes.silent_platform import Hanging
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office(UNUSED_ADDRESS.removesuffix("/hook"), "svc_live_" + "0" * 40)
    yield made
    made.remove()


async def test_a_store_met_before_is_not_waited_for(office: Office) -> None:
    store = open_store(office.database, SystemClock())
    store.start()
    await store.kv.put("facts:main", '{"store_id":"sto_1","currency":"INR"}')
    await store.stop()
    daemon = Daemon(context.settings(office.config), Environment(transport=Hanging()))
    running = asyncio.create_task(daemon.run())
    async with asyncio.timeout(HANG_SECONDS):
        await daemon.ready.wait()
        daemon.stop()
        await running


async def test_the_first_contact_can_be_stopped(office: Office) -> None:
    hanging = Hanging()
    daemon = Daemon(context.settings(office.config), Environment(transport=hanging))
    running = asyncio.create_task(daemon.run())
    async with asyncio.timeout(HANG_SECONDS):
        await hanging.asked.wait()
        daemon.stop()
        await running
    assert not daemon.ready.is_set()
