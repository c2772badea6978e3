"""odoo fulfills the connector contracts in both directions, with a test double."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import CheckFailed
from backhaul_sdk.testing import (
    Bench,
    Failure,
    MemoryHost,
    PullContract,
    PushBench,
    PushContract,
    sample_change,
)
from connectors.examples import documented
from connectors.odoo_double import KEY, OdooDouble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_sdk import Change, Connector

pytestmark = [pytest.mark.programs]


class OdooBench(Bench, PushBench):
    """An Odoo that delivers orders and takes orders."""

    secrets = (KEY,)
    many_records = 20_000

    def __init__(self, odoo: OdooDouble) -> None:
        self.odoo = odoo
        self.batch_rows = 10
        self.pickings: dict[int, int] = {}

    def connector(self) -> Connector[Any]:
        return self.odoo.connector(stock_seconds=0, batch_rows=self.batch_rows)

    def offer(self, first: int, number: int) -> None:
        """Deliver orders, four of them in each second, all of them in the past."""
        self.batch_rows = 1_000 if number > 1_000 else 10
        for each in range(first, first + number):
            if each not in self.pickings:
                self._deliver(each, seconds=(each - first) / 4)
        # What was offered is old enough to be read.
        self.odoo.now += timedelta(seconds=1 + number)

    def _deliver(self, number: int, quantity: Any = 2.0, seconds: float = 0.0) -> None:
        at = self.odoo.now + timedelta(seconds=seconds)
        sale = self.odoo.sell(f"ord_{number:08}")
        goods = [(self.odoo.shirt, quantity)]
        self.pickings[number] = self.odoo.deliver(sale, goods, write_date=at)

    def offer_a_bad_one_among(self, good: int) -> None:
        self.offer(0, good // 2)
        self._deliver(5_000, quantity=0.5)
        self.offer(good // 2, good - good // 2)
        self.odoo.now += timedelta(hours=1)

    def offer_with_unknown_field(self, number: int) -> None:
        self.odoo.records.fields["stock.picking"].add("x_weather")
        self.offer(number, 1)
        for row in self.odoo.records.rows["stock.picking"].values():
            row["x_weather"] = "fine"

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    def change(self, number: int, topic: str | None = None) -> Change:
        return sample_change(number, topic or "order.placed")

    def state(self) -> object:
        rows = self.odoo.records.rows
        return {model: {i: dict(r) for i, r in rows[model].items()} for model in rows}

    def example(self) -> Mapping[str, object]:
        return documented("odoo")

    async def effects(self) -> Sequence[int]:
        sales = self.odoo.records.rows["sale.order"].values()
        return [int(s["client_order_ref"].removeprefix("ord_")) for s in sales]

    def tries(self) -> int:
        return self.odoo.tries

    async def fail(self, failure: Failure) -> None:
        self.odoo.failure = failure

    async def recover(self) -> None:
        self.odoo.failure = None

    async def provoke(self) -> Sequence[str]:
        said: list[str] = []
        for options in ({"database": "nope"}, {"user": "nobody"}, {"api_key": "x" * 9}):
            if self.odoo.major >= 19 and "api_key" not in options:
                continue
            with pytest.raises(CheckFailed) as failure:
                await self.odoo.connector(**options).check()
            said += [str(failure.value), repr(failure.value.__cause__)]
        return said

    async def unplug(self) -> None:
        await self.odoo.unplug()

    async def plug_in(self) -> None:
        await self.odoo.plug_in()


@pytest.fixture(params=["16.0", "18.0", "19.0"])
async def odoo(request: pytest.FixtureRequest) -> AsyncIterator[OdooDouble]:
    odoo = OdooDouble(request.param)
    await odoo.plug_in()
    yield odoo
    await odoo.close()


class TestPull(PullContract):
    """Run for JSON-RPC of two versions, and for JSON-2."""

    @pytest.fixture
    def bench(self, odoo: OdooDouble) -> OdooBench:
        return OdooBench(odoo)


class TestPush(PushContract):
    """Run for JSON-RPC of two versions, and for JSON-2."""

    @pytest.fixture
    def bench(self, odoo: OdooDouble) -> OdooBench:
        return OdooBench(odoo)
