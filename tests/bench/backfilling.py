"""The measured process of row `backfill`: fetches pages, and reads a store in."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Annotated

import msgspec
import typer
import uvloop

from backhaul.core.clock import SystemClock
from backhaul.core.rate_limit import Priority
from backhaul.ingest.fold_worker import FoldWorker
from backhaul.platform.client import PlatformClient, StoreFacts
from backhaul.platform.transport import Limits, Transport
from backhaul.store.sqlite.opening import open_store
from backhaul.sync.deletion_check import DeletionCheck
from backhaul.sync.diff_repair import MirrorRepair
from backhaul.sync.full_sync import FullSync
from backhaul.sync.resource_types import BACKFILL, ORDERS
from bench import machine

CLOCK = SystemClock()
STORE = "main"


class Read(msgspec.Struct):
    """What one round found."""

    fetch_seconds: float
    read_seconds: float
    fold_seconds: float
    fetched: int
    kept: int
    mirrored: int


async def fetch_only(client: PlatformClient) -> int:
    """Read every page of the orders, and keep nothing."""
    number = rows = 0
    while True:
        number += 1
        page = await client.page(ORDERS.path, number, Priority.SWEEP)
        rows += len(page.rows)
        if not page.has_more:
            return rows


async def backfill(client: PlatformClient, path: Path) -> tuple[float, float, int, int]:
    """Read the orders in as the daemon does, folding beside it."""
    store = open_store(path, CLOCK)
    store.start()
    facts = {STORE: StoreFacts(currency="INR")}
    drain = FoldWorker(store.inbox, CLOCK, facts)
    repair = MirrorRepair(
        STORE, store.mirror, store.inbox, lambda: "INR", drain.wake, drain.caught_up
    )
    absence = DeletionCheck(
        client,
        repair,
        store.passes,
        store.refetch_queue,
        lambda: None,
        CLOCK,
        Priority.SWEEP,
    )
    work = FullSync(
        BACKFILL,
        ORDERS,
        client,
        repair,
        store.passes,
        absence,
        CLOCK,
        Priority.SWEEP,
    )
    async with asyncio.TaskGroup() as group:
        folding = group.create_task(drain.run())
        began = perf_counter()
        ended = await work.run()
        read = perf_counter() - began
        await drain.caught_up()
        folded = perf_counter() - began
        mirrored = await store.mirror.count("order", STORE)
        folding.cancel()
    await store.stop()
    return read, folded, ended.read, mirrored


async def measure(url: str, key: str, directory: str) -> Read:
    limits = Limits(5.0, 60.0, 50_000_000)
    transport = Transport(url, key, limits, CLOCK)
    client = PlatformClient(transport)
    await client.page(ORDERS.path, 1, Priority.SWEEP)
    began = perf_counter()
    fetched = await fetch_only(client)
    fetch = perf_counter() - began
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        read, folded, kept, mirrored = await backfill(client, Path(folder) / "b.db")
    await transport.close()
    return Read(fetch, read, folded, fetched, kept, mirrored)


def main(
    url: str,
    key: str,
    directory: str,
    core: Annotated[int | None, typer.Option()] = None,
) -> None:
    """Fetch, then read in; print JSON."""
    machine.pin(core)
    found = uvloop.run(measure(url, key, directory))
    typer.echo(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    typer.run(main)
