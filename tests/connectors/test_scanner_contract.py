"""The scanner keeps the connectors' contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Capability, HttpRequest
from backhaul_sdk.testing import Bench, ConnectorContract, MemoryHost
from connectors.examples import documented
from connectors.scanning import DEVICES, Dock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul_connectors.scanner import Scanner
    from backhaul_sdk import Connector


class DockBench(Bench):
    """A device that sends its scans again until they are answered."""

    secrets = tuple(DEVICES.values())

    def __init__(self) -> None:
        self._dock = Dock()
        self._unanswered: list[dict[str, object]] = []
        self._refusals: list[str] = []

    def connector(self) -> Scanner:
        return self._dock.scanner()

    def offer(self, first: int, number: int) -> None:
        for n in range(first, first + number):
            self._offer(sequence=n, mode="receive", code="LS-S")

    def offer_a_bad_one_among(self, good: int) -> None:
        self.offer(0, good // 2)
        self._offer(mode="unload", code="LS-S")
        self.offer(good // 2, good - good // 2)

    def offer_with_unknown_field(self, number: int) -> None:
        self._offer(sequence=number, mode="pack", code="1001", battery={"percent": 7})

    def state(self) -> object:
        return list(self._unanswered)

    def example(self) -> Mapping[str, object]:
        return documented("scanner")

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return self._refusals

    async def take_in(self, connector: Connector[Any], host: MemoryHost) -> None:
        self._dock.host = host
        while self._unanswered:
            answer = await self._dock.scan(**self._unanswered[0])
            self._unanswered.pop(0)
            if answer.status != 200:
                self._refusals.append(str(answer.body["what"]))

    async def provoke(self) -> Sequence[str]:
        """Post with a wrong token, a broken body, and into a host that fails."""
        token, other = self.secrets
        answers = [
            await self._dock.post(b"{}", token=f"{token}x"),
            await self._dock.post(b"{", token=token),
            await self._dock.post(b'{"device": "belt"}', token=token),
        ]
        request = HttpRequest("POST", "/scan", {"authorization": other}, b"")
        return [*map(repr, answers), repr(request)]

    def _offer(self, **members: object) -> None:
        self._unanswered.append(members)


class TestScanner(ConnectorContract):
    """Run with a device that numbers its scans."""

    def test_it_is_called_only(self, bench: Bench) -> None:
        assert bench.connector().spec.capabilities == {Capability.LISTEN}

    @pytest.fixture
    def bench(self) -> Bench:
        return DockBench()
