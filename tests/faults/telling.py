"""Tells an office of orders while it is killed again and again."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from faults.trials import chances
from scenes import payloads
from scenes.clock import FastClock
from scenes.databases import append_and_fold, started_store
from scenes.notifications import delivery_worker
from scenes.payloads import envelope
from scenes.stored import values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.sqlite.database import SqliteStore
    from faults.offices import Office

CLOCK = SystemClock()
STEP_SECONDS = 0.005
HASTE = 600.0
"""One real second is ten minutes: longer than uncertain deliveries are checked."""
PATIENCE_SECONDS = 900.0
TOPIC = "order.placed"


@dataclass(frozen=True, slots=True)
class Told:
    """The expected and the received notifications of the office."""

    owed: Sequence[str]
    came: Sequence[str]

    @property
    def again(self) -> int:
        """Return the number of repeated notifications."""
        return len(self.came) - len(set(self.came))


async def tell_amid_kills(office: Office, database: Path, kills: int) -> Told:
    """Kill the office while it receives orders; return when all are delivered."""
    moments, clock = chances(), FastClock(HASTE)
    async with started_store(database, clock) as store, carried(office, store, clock):
        for life in range(kills):
            await append_and_fold(store, *orders(life, office.orders_a_life))
            some = len(office.came()) + moments.randrange(office.orders_a_life)
            await until_some(office, some)
            await CLOCK.sleep(moments.uniform(0, office.busy_seconds))
            await asyncio.to_thread(office.kill)
            await asyncio.to_thread(office.start)
        await until(
            lambda: set(owed(database, "state")) == {"applied"},
            "told",
            PATIENCE_SECONDS,
        )
    return Told(owed(database, office.names), office.came())


def owed(database: Path, column: str) -> list[str]:
    """Return a column of the notifications that the office must receive."""
    return values_of(database, "deliveries", column, topic=TOPIC)


async def until_some(office: Office, number: int) -> None:
    """Wait until this many orders were received."""
    what = f"{number} orders came"
    await until(lambda: len(office.came()) >= number, what, PATIENCE_SECONDS)


@asynccontextmanager
async def carried(
    office: Office, store: SqliteStore, clock: Clock
) -> AsyncIterator[None]:
    """Deliver orders to the office within the block."""
    connector = office.connector()
    sink = delivery_worker(
        connector, store, clock, topics=frozenset({TOPIC}), begin="all"
    )
    await sink.subscribe()

    async def carry() -> None:
        while True:
            if not await sink.step():
                await CLOCK.sleep(STEP_SECONDS)

    carrying = asyncio.ensure_future(carry())
    try:
        yield
    finally:
        carrying.cancel()
        await asyncio.wait([carrying])
        await connector.close()
        if not carrying.cancelled():
            carrying.result()


def orders(life: int, number: int) -> list[bytes]:
    """Return webhooks of this many new orders."""
    return [
        envelope(
            "orders/create",
            payloads.order(f"ord_{n}", n % 3_000, number=n, currency="EUR"),
        )
        for n in range(life * number, (life + 1) * number)
    ]
