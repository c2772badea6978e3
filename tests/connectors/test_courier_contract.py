"""courier fulfills the connector contract, with vendors' webhooks and by polling."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.testing import Bench, ConnectorContract, MemoryHost, PullContract
from connectors.couriers import (
    API_KEY,
    API_SECRET,
    MESSAGES,
    SECRET,
    Depot,
    Desk,
    signed,
)
from connectors.examples import documented

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_connectors.courier import Courier
    from backhaul_sdk import Connector


class ToldBench(Bench):
    """A courier that sends each message until it is answered with 200."""

    secrets = (SECRET,)

    def __init__(self, vendor: str) -> None:
        self._desk = Desk(vendor)
        self._unanswered: list[dict[str, Any]] = []

    def connector(self) -> Courier:
        return self._desk.courier()

    def offer(self, first: int, number: int) -> None:
        for each in range(first, first + number):
            self._unanswered.append(MESSAGES[self._desk.vendor](each))

    def offer_a_bad_one_among(self, good: int) -> None:
        self.offer(0, good // 2)
        self._unanswered.append(MESSAGES[self._desk.vendor](1_000, "teleported"))
        self.offer(good // 2, good - good // 2)

    def offer_with_unknown_field(self, number: int) -> None:
        message = MESSAGES[self._desk.vendor](number, weather={"rain": True})
        self._unanswered.append({**message, "version": 9})

    def state(self) -> object:
        return list(self._unanswered)

    def example(self) -> Mapping[str, object]:
        return documented("courier")

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    async def take_in(self, connector: Connector[Any], host: MemoryHost) -> None:
        self._desk.host = host
        while self._unanswered:
            answer = await self._desk.send(self._unanswered[0])
            assert answer.status == 200
            self._unanswered.pop(0)

    async def provoke(self) -> Sequence[str]:
        body = json.dumps(MESSAGES[self._desk.vendor](1)).encode()
        wrong = signed(self._desk.vendor, body, SECRET + "x")
        answers = [await self._desk.post(body, wrong), await self._desk.post(body, {})]
        return [*map(repr, answers), *(answer.body["what"] for answer in answers)]  # type: ignore[list-item]  # it is text


class AskedBench(Bench):
    """A courier that tells nothing by itself, and is asked."""

    secrets = (SECRET, API_KEY, API_SECRET)

    def __init__(self, depot: Depot) -> None:
        self._depot = depot

    def connector(self) -> Connector[Any]:
        options = {**self._depot.options, "silent_seconds": 0}
        return self._depot.made(Desk("sendcloud", options).courier())

    def offer(self, first: int, number: int) -> None:
        known = {each for each, _ in self._depot.parcels[-40:]}
        self._depot.parcels += [
            (each, "Delivered")
            for each in range(first, first + number)
            if each not in known
        ]

    def offer_a_bad_one_among(self, good: int) -> None:
        self.offer(0, good // 2)
        self._depot.parcels.append((1_000, "Teleported"))
        self.offer(good // 2, good - good // 2)

    def offer_with_unknown_field(self, number: int) -> None:
        self.offer(number, 1)

    def state(self) -> object:
        return list(self._depot.parcels)

    def example(self) -> Mapping[str, object]:
        return documented("courier")

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    async def unplug(self) -> None:
        await self._depot.unplug()

    async def plug_in(self) -> None:
        await self._depot.plug_in()


class TestTold(ConnectorContract):
    """Run for every vendor."""

    @pytest.fixture(params=MESSAGES)
    def bench(self, request: pytest.FixtureRequest) -> Bench:
        return ToldBench(request.param)

    def test_secret_settings_are_named(self, bench: Any) -> None:
        spec = bench.connector().spec
        assert spec.secret_fields == {"secrets", "api_key", "api_secret"}


class TestAsked(PullContract):
    """Run against a courier's interface on loopback."""

    @pytest.fixture
    async def bench(self) -> AsyncIterator[Bench]:
        depot = Depot()
        await depot.plug_in()
        yield AskedBench(depot)
        await depot.close()
