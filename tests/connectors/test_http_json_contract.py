"""http_json fulfills the connector contracts in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.testing import (
    Bench,
    Failure,
    MemoryHost,
    PullContract,
    PushBench,
    PushContract,
)
from connectors.backoffice import SHIPMENTS, TOKEN, Office
from connectors.examples import documented

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_sdk import Change, Connector


class OfficeBench(Bench, PushBench):
    """An office that lists its shipments and takes orders."""

    secrets = (TOKEN,)

    def __init__(self, office: Office) -> None:
        self._office = office

    def connector(self) -> Connector[Any]:
        # An overlap would bring up to 300 shipments again, at each of many pulls.
        lists = {"shipments": {**SHIPMENTS, "overlap_seconds": 10}}
        return self._office.connector(lists=lists)

    def offer(self, first: int, number: int) -> None:
        known = {each for each, _ in self._office.books.shipments[-40:]}
        for each in range(first, first + number):
            if each not in known:
                self._office.ship(each)

    def offer_a_bad_one_among(self, good: int) -> None:
        self.offer(0, good // 2)
        self._office.ship(1_000, lines=[{"quantity": 1}])
        self.offer(good // 2, good - good // 2)

    def offer_with_unknown_field(self, number: int) -> None:
        self._office.ship(number, weather="fine")

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    def change(self, number: int, topic: str | None = None) -> Change:
        return super().change(number, topic or "order.placed")

    def state(self) -> object:
        books = self._office.books
        return list(books.shipments), list(books.orders), self._office.tries

    def example(self) -> Mapping[str, object]:
        return documented("http_json")

    async def effects(self) -> Sequence[int]:
        return [int(key.rpartition(":")[2]) for key in self._office.books.orders]

    def tries(self) -> int:
        return self._office.tries

    async def fail(self, failure: Failure) -> None:
        self._office.failure = failure

    async def recover(self) -> None:
        self._office.failure = None

    async def unplug(self) -> None:
        await self._office.unplug()

    async def plug_in(self) -> None:
        await self._office.plug_in()


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    office = Office()
    await office.plug_in()
    yield office
    await office.close()


class TestPull(PullContract):
    """Run against an office on loopback."""

    @pytest.fixture
    def bench(self, office: Office) -> OfficeBench:
        return OfficeBench(office)


class TestPush(PushContract):
    """Run against an office on loopback."""

    @pytest.fixture
    def bench(self, office: Office) -> OfficeBench:
        return OfficeBench(office)
