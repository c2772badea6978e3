"""erpnext fulfills the connector contracts in both directions, with a test double."""

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
from connectors.erpnext_double import SECRET, ErpNextDouble
from connectors.examples import documented

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_sdk import Change, Connector

pytestmark = [pytest.mark.programs]


class ErpNextBench(Bench, PushBench):
    """An ERPNext that delivers orders and takes orders."""

    secrets = (SECRET,)
    # Each delivery note is a request of its own, and each request leaves some garbage.
    many_records = 20_000

    def __init__(self, site: ErpNextDouble) -> None:
        self.site = site
        self.batch_rows = 10
        self.notes: dict[int, str] = {}

    def connector(self) -> Connector[Any]:
        return self.site.connector(stock_seconds=0, batch_rows=self.batch_rows)

    def offer(self, first: int, number: int) -> None:
        """Deliver orders, four of them in each second, all of them in the past."""
        self.batch_rows = 50 if number > 1_000 else 10
        for each in range(first, first + number):
            if each not in self.notes:
                self._deliver(each, seconds=(each - first) / 4)
        self.site.now += timedelta(seconds=1 + number)

    def _deliver(self, number: int, units: Any = 2.0, seconds: float = 0.0) -> None:
        at = self.site.now + timedelta(seconds=seconds)
        sale = self.site.sell(f"ord_{number:08}")
        self.notes[number] = self.site.deliver(sale, [("LS-S", units)], at=at)

    def offer_a_bad_one_among(self, good: int) -> None:
        self.offer(0, good // 2)
        self._deliver(5_000, units=0.5)
        self.offer(good // 2, good - good // 2)

    def offer_with_unknown_field(self, number: int) -> None:
        self.offer(number, 1)
        for row in self.site.documents["Delivery Note"].values():
            row["weather"] = "fine"

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    def change(self, number: int, topic: str | None = None) -> Change:
        return sample_change(number, topic or "order.placed")

    def state(self) -> object:
        found = self.site.documents
        return {each: {n: dict(r) for n, r in found[each].items()} for each in found}

    def example(self) -> Mapping[str, object]:
        return documented("erpnext")

    async def effects(self) -> Sequence[int]:
        sales = self.site.documents["Sales Order"].values()
        return [int(sale["po_no"].removeprefix("ord_")) for sale in sales]

    def tries(self) -> int:
        return self.site.tries

    async def fail(self, failure: Failure) -> None:
        self.site.failure = failure

    async def recover(self) -> None:
        self.site.failure = None

    async def provoke(self) -> Sequence[str]:
        with pytest.raises(CheckFailed) as failure:
            await self.site.connector(api_key="wrong").check()
        return [str(failure.value), repr(failure.value.__cause__)]

    async def unplug(self) -> None:
        await self.site.unplug()

    async def plug_in(self) -> None:
        await self.site.plug_in()


@pytest.fixture
async def site() -> AsyncIterator[ErpNextDouble]:
    site = ErpNextDouble()
    await site.plug_in()
    yield site
    await site.close()


class TestPull(PullContract):
    """Run against a site on loopback."""

    @pytest.fixture
    def bench(self, site: ErpNextDouble) -> ErpNextBench:
        return ErpNextBench(site)


class TestPush(PushContract):
    """Run against a site on loopback."""

    @pytest.fixture
    def bench(self, site: ErpNextDouble) -> ErpNextBench:
        return ErpNextBench(site)
