"""F1: the program dies while it makes a count true: one step, and the right stock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from backhaul.connect.matching import Matcher, encode
from backhaul.core.clock import to_text
from backhaul.ingest.drain import Drain
from backhaul.parts import build_client, build_repair, build_targeter
from backhaul.store.contract import NewRecord
from backhaul_sdk import StockLevel
from faults.sweeping import STORE, program, stage
from faults.trials import LONG
from support import payloads
from support.databases import rows, take
from support.mortality import COUNTING, Mortality, MortalWire, points_around
from support.reference_shop import open_shop

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from faults.sweeping import Stage

pytestmark = pytest.mark.faults

SIZES = [
    {"title": size, "sku": f"SHIRT-{size}", "price": "100.00", "stock": 10}
    for size in ("S", "M")
]
QUIRKS = ("no-idempotency", "no-note")
PUSH = {"looks": ["0s", "20s", "60s"]}
STOPPING = "targets.stop:"
"""Only a platform that moves what it was not asked to comes to this step."""


FAILING_READS = 10
"""More than the transport tries again by itself."""


class Stuttering(httpx.AsyncBaseTransport):
    """A way on which the first reads fail."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner, self._failed = inner, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._failed < FAILING_READS and request.method == "GET":
            self._failed += 1
            raise httpx.ConnectError("the cable is out")
        return await self._inner.handle_async_request(request)


async def live(on: Stage, mortality: Mortality, record: StockLevel) -> None:
    """Hand the count in, and work until it is made true, or until death."""
    async with program(on, mortality) as alive:
        way = Stuttering(MortalWire(on.wire, mortality))
        transport, client = build_client(on.settings, STORE, on.clock, way)
        drain = Drain(alive.store.inbox, on.clock, {STORE: on.facts}, lambda: None)

        async def no_orders() -> None:
            return None

        targeter = build_targeter(
            on.settings,
            STORE,
            alive.mortal_store,
            client,
            build_repair(STORE, alive.store, drain, lambda: on.facts),
            on.clock,
            lambda: 0.5,
            lambda: on.facts,
            no_orders,
            alive.sender.dispatcher,
        )
        alive.beside += [drain.run, targeter.run]
        new = NewRecord(record.key, encode(record), "", "", record.key)
        matcher = Matcher(on.clock, 600.0)
        await alive.store.records.accept("erp", STORE, [new], None, matcher)
        await alive.run_out()
        query = (
            "SELECT 1 FROM stock_targets WHERE unread = 1 AND NOT EXISTS"
            " (SELECT 1 FROM marks WHERE name = 'targets:stopped:main')"
        )
        while rows(on.path, query) and not mortality.dead.is_set():
            await on.clock.advance(1.0)
            await alive._calm()
        await transport.close()


READS = {"due", "next_due", "readings", "surroundings", "stopped"}
"""What these leave behind at a death is the same before and after."""
POINTS = [
    point
    for point in points_around(COUNTING)
    if LONG or point.endswith(":before") or point.split(".")[1][:-6] not in READS
]


@pytest.mark.parametrize("point", POINTS)
async def test_death_while_counting_neither_loses_nor_doubles(
    point: str, tmp_path: Path
) -> None:
    strays = point.startswith(STOPPING)
    quirks = (*QUIRKS, "ignore-variant") if strays else QUIRKS
    async with (
        open_shop(tmp_path / "shop") as shop,
        stage(tmp_path / "backhaul.db", shop, quirks, PUSH) as on,
    ):
        shirt = await on.shop.product(variants=SIZES)
        async with program(on) as first:
            news = payloads.envelope("products/create", shirt)
            assert await take(first.store, news) == []
        as_of = to_text(on.clock.now())
        sku = shirt["variants"][0]["sku"]
        record = StockLevel(key="count", sku=sku, quantity=7, as_of=as_of)
        mortality = Mortality(point)
        await live(on, mortality, record)
        assert mortality.dead.is_set(), f"it does not come to {point}"
        await live(on, Mortality(), record)
        query = "SELECT kind, state FROM commands ORDER BY seq"
        assert rows(on.path, query) == [("target", "applied"), ("adjust", "applied")]
        assert await stock(on, shirt) == 7
        stopped = "SELECT count(*) FROM marks WHERE name = 'targets:stopped:main'"
        assert rows(on.path, stopped) == [(int(strays),)]


async def named(on: Stage, shirt: Any) -> Any:
    return (await on.shop.v1("GET", f"/products/{shirt['id']}")).data


async def stock(on: Stage, shirt: Any) -> int:
    return int((await named(on, shirt))["variants"][0]["stock"])
