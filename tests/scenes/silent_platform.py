"""A platform that never answers, and an office that already knows its store."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from backhaul.app.daemon import Daemon, Environment
from backhaul.cli import context
from backhaul.core.clock import SystemClock
from backhaul.store import open_store
from scenes.daemon import UNUSED_ADDRESS, Office
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.app.systemd import ServiceManager

STORE_ID = "sto_1"


class Hanging(httpx.AsyncBaseTransport):
    """A transport that never answers a request."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing ends the wait")


@asynccontextmanager
async def office_with_known_store() -> AsyncIterator[Office]:
    """Return an office whose database already contains the store identity."""
    made = Office(UNUSED_ADDRESS.removesuffix("/hook"), "svc_live_" + "0" * 40)
    store = open_store(made.place, SystemClock())
    store.start()
    facts = f'{{"store_id":"{STORE_ID}","currency":"INR"}}'
    await store.kv.put("facts:main", facts)
    await store.stop()
    try:
        yield made
    finally:
        made.remove()


@asynccontextmanager
async def supervised(office: Office, by: ServiceManager) -> AsyncIterator[Daemon]:
    """Run the daemon under a service manager."""
    daemon = Daemon(
        context.settings(office.config),
        Environment(transport=Hanging()),
        read=lambda: context.settings(office.config),
        supervisor=by,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(daemon.run())
        await until(lambda: daemon.ready.is_set() or running.done(), "it is ready")
        try:
            yield daemon
        finally:
            daemon.stop()
