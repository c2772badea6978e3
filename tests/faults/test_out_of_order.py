"""Events in any order end in the platform's own state, whatever it leaves out.

A run of a real shop is delivered shuffled and repeated, then comes one sweep, then all
objects in doubt are read again. What is left must be what a fresh mirror reads.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul.ingest.folding import fold_one
from backhaul.reconcile.rereading import Rereader
from backhaul.shop.client import ShopClient
from backhaul.shop.transport import Limits, Transport
from backhaul.store.contract import Arrival
from backhaul.store.sqlite.differences import MIRROR, dump
from support.busy_shop import BusyShop
from support.clock import RunningClock
from support.databases import rows, started_store
from support.reference_shop import Shop, open_receiver, open_shop, subscribe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from backhaul.store.contract import Folded, MirrorWriter, StoredEvent
    from backhaul.store.sqlite.database import SqliteStore

LONG = os.environ.get("FAULTS") == "long"
EVENTS, OBJECTS, SEEDS = (10_000, 500, 100) if LONG else (600, 40, 3)
LISTS = {
    "/orders": "orders/read",
    "/products": "products/read",
    "/customers": "customers/read",
    "/inventory": "inventory/read",
}
COMPARED = {table: MIRROR[table] for table in MIRROR if table != "stock_ledger"}
TOLD_BY_EVENTS_ONLY = b'"deleted"'
"""A tombstone stands in no list of the platform."""
LIMITS = Limits(connect_seconds=5.0, read_seconds=10.0, max_response_bytes=5_000_000)
QUIRKS = {
    "as specified": [],
    "coarse-time": ["coarse-time"],
    "no-sequence": ["no-sequence"],
    "bare-webhooks": ["bare-webhooks"],
    "all of these": ["coarse-time", "no-sequence", "bare-webhooks"],
}


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook as it was sent: the topic outside of it, and its bytes."""

    topic: str
    body: bytes


def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
    return fold_one(event, mirror, store_id=None, currency="INR")


async def fold_all(store: SqliteStore) -> None:
    while (await store.inbox.fold(fold, 0.05)).more:
        pass


async def captured(shop: Shop, events: int, objects: int) -> list[Delivery]:
    async with open_receiver() as receiver:
        await subscribe(shop, receiver)
        busy = BusyShop(shop, random.Random(events))  # noqa: S311 - repeatable
        last = await busy.trade(events, objects)
        received = await receiver.until(last)
    told = {(r.headers["X-Service-Topic"], r.body) for r in received}
    return [Delivery(topic, body) for topic, body in sorted(told)]


async def listed(shop: Shop) -> AsyncIterator[tuple[str, bytes]]:
    """Yield every row of every list, with the topic that it is read as."""
    for path, topic in LISTS.items():
        for page in count(1):
            found = (await shop.v1("GET", f"{path}?limit=100&page={page}")).data
            for row in found:
                yield topic, json.dumps(row).encode()
            if not found:
                break


async def sweep(shop: Shop, store: SqliteStore, clock: RunningClock) -> None:
    began = to_text(clock.now())
    waiting = [
        store.inbox.append(Arrival("main", "read", topic, began, b"{}", body))
        async for topic, body in listed(shop)
    ]
    await asyncio.gather(*waiting)
    await fold_all(store)


async def settle(shop: Shop, store: SqliteStore, clock: RunningClock) -> int:
    """Read what is in doubt until nothing is; return how many reads that took."""
    access = shop.running.access
    transport = Transport(access.public_url, access.api_key, LIMITS, clock)
    client = ShopClient(transport)
    rereader = Rereader(
        "main", client, store.inbox, store.rereads, clock, lambda: 0.5, lambda: None
    )
    reads = 0
    try:
        await store.rereads.ask_for_parents("main")
        while await store.rereads.next_due("main"):
            await clock.sleep(1)
            reads += await rereader.work_off()
            await fold_all(store)
    finally:
        await transport.close()
    return reads


def state(path: Path) -> list[bytes]:
    """Return what a mirror and a fresh reading of the platform have in common."""
    found = dump(path, COMPARED, without=("updated_at", "deleted_at"))
    return [line for line in found if TOLD_BY_EVENTS_ONLY not in line]


async def deliver(
    store: SqliteStore, deliveries: Sequence[Delivery], clock: RunningClock
) -> None:
    """Let them arrive in this order, folded as they come, in parts."""
    for first in range(0, len(deliveries), 100):
        arrived = to_text(clock.now())
        await asyncio.gather(
            *(
                store.inbox.append(
                    Arrival("main", "delivery", one.topic, arrived, b"{}", one.body)
                )
                for one in deliveries[first : first + 100]
            )
        )
        await fold_all(store)
        await clock.sleep(1)


async def run(
    shop: Shop, deliveries: list[Delivery], seed: int, path: Path
) -> tuple[list[bytes], int]:
    """Return the state after one shuffled run, and how many re-reads it took."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    shuffled = deliveries + chance.choices(deliveries, k=len(deliveries) // 5)
    chance.shuffle(shuffled)
    clock = RunningClock()
    async with started_store(path, clock) as store:
        await deliver(store, shuffled, clock)
        await sweep(shop, store, clock)
        reads = await settle(shop, store, clock)
    assert rows(path, "SELECT count(*) FROM quarantine") == [(0,)]
    return state(path), reads


async def compare(
    folder: Path, quirks: list[str], events: int, objects: int, seeds: int
) -> tuple[list[int], str]:
    """Return the seeds whose mirror is not as a fresh one, and what to tell of it."""
    async with open_shop(folder / "shop") as shop:
        quirky = {"quirks": quirks}
        assert (await shop.control("PUT", "/stores/demo/quirks", quirky)).status == 200
        deliveries = await captured(shop, events, objects)
        clock = RunningClock()
        async with started_store(folder / "fresh.db", clock) as fresh:
            await sweep(shop, fresh, clock)
        expected = state(folder / "fresh.db")
        assert len(expected) > objects
        wrong, most = [], 0
        for seed in range(1, seeds + 1):
            path = folder / f"{seed}.db"
            found, reads = await run(shop, deliveries, seed, path)
            most = max(most, reads)
            if found != expected:
                wrong.append(seed)
            path.unlink()
    return wrong, f"{seeds} orders of {len(deliveries)} events, <= {most} reads each"


@pytest.mark.faults
@pytest.mark.timeout(14_400 if LONG else 300)
@pytest.mark.parametrize("name", QUIRKS)
async def test_any_order_ends_in_the_platforms_state(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    wrong, told = await compare(tmp_path, QUIRKS[name], EVENTS, OBJECTS, SEEDS)
    with capsys.disabled():
        seconds = time.monotonic() - began
        sys.stdout.write(f" {name}: {told}, {seconds:.0f} s ")
    assert wrong == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["as specified", "all of these"])
async def test_some_orders_of_a_short_run_do(name: str, tmp_path: Path) -> None:
    wrong, _ = await compare(tmp_path, QUIRKS[name], events=150, objects=24, seeds=3)
    assert wrong == []
