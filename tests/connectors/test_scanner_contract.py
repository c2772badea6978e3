"""scanner fulfills the connector contract over each protocol of its devices."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiomqtt
import pytest

from backhaul_connectors.scanner import Scanner
from backhaul_sdk import Capability, HttpRequest
from backhaul_sdk.testing import Bench, ConnectorContract, MemoryHost
from connectors.examples import documented
from connectors.lining import LINES, as_lines, wire_to
from connectors.scanning import DEVICES, Dock
from scenes.mosquitto import mosquitto

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from backhaul_sdk import Connector
    from scenes.mosquitto import Mosquitto


SCANS = "scanners/dock/scan"


class DockBench(Bench):
    """A device that sends its scans again until they are answered."""

    secrets: tuple[str, ...] = tuple(DEVICES.values())

    def __init__(self, **options: object) -> None:
        self._dock = Dock(options)
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
            self._settle(dict(answer.body))

    async def provoke(self) -> Sequence[str]:
        """Post with a wrong token, a broken body, and into a host that fails."""
        token, other = self.secrets[:2]
        answers = [
            await self._dock.post(b"{}", token=f"{token}x"),
            await self._dock.post(b"{", token=token),
            await self._dock.post(b'{"device": "belt"}', token=token),
        ]
        request = HttpRequest("POST", "/scan", {"authorization": other}, b"")
        return [*map(repr, answers), repr(request)]

    def _offer(self, **members: object) -> None:
        self._unanswered.append(members)

    def _settle(self, answer: Mapping[str, object]) -> None:
        """Take the answer to the oldest scan."""
        self._unanswered.pop(0)
        if not answer["accepted"]:
            self._refusals.append(str(answer["what"]))


class LineBench(DockBench):
    """A device that sends all it has as lines, and reads the answers."""

    async def take_in(self, connector: Connector[Any], host: MemoryHost) -> None:
        assert isinstance(connector, Scanner)
        await connector.listen(host.emit)
        try:
            async with wire_to(connector.lines.address) as wire:
                await wire.send(*as_lines(self._unanswered))
                while self._unanswered:
                    self._settle(json.loads(await wire.reply()))
        finally:
            await connector.close()


class BrokerBench(DockBench):
    """A device that publishes each scan until its answer is there.

    It stays connected: what is cancelled is ours, not its library's.
    """

    def __init__(self, device: aiomqtt.Client, **options: object) -> None:
        super().__init__(**options)
        self._device = device

    async def take_in(self, connector: Connector[Any], host: MemoryHost) -> None:
        assert isinstance(connector, Scanner)
        await connector.listen(host.emit)
        try:
            # Before its first session the broker keeps nothing for anybody.
            assert connector.broker is not None
            await connector.broker.connected.wait()
            lines = as_lines(self._unanswered)
            sent = [self._device.publish(SCANS, line, qos=1) for line in lines]
            # Each of the two is one wait: a cancellation is tried at every wait.
            await asyncio.gather(*sent)
            await asyncio.gather(self._read())
        finally:
            await connector.close()

    async def _read(self) -> None:
        while self._unanswered:
            message = await anext(self._device.messages)
            answer = json.loads(bytes(message.payload or b""))
            if answer.get("sequence") == self._unanswered[0].get("sequence"):
                self._settle(answer)


class TestScanner(ConnectorContract):
    """Run with a device that numbers its scans."""

    def test_the_host_also_pulls_records_it_could_not_submit(
        self, bench: Bench
    ) -> None:
        capabilities = {Capability.LISTEN, Capability.PULL}
        assert bench.connector().spec.capabilities == capabilities

    @pytest.fixture
    def bench(self) -> Bench:
        return DockBench()


class TestLines(ConnectorContract):
    """Run over plain sockets."""

    @pytest.fixture
    def bench(self) -> Bench:
        return LineBench(**LINES)


@pytest.mark.programs
class TestBroker(ConnectorContract):
    """Run over a real mosquitto."""

    @pytest.fixture
    async def broker(self, tmp_path: Path) -> AsyncIterator[Mosquitto]:
        async with mosquitto(tmp_path) as running:
            yield running

    @pytest.fixture
    async def device(self, broker: Mosquitto) -> AsyncIterator[aiomqtt.Client]:
        async with aiomqtt.Client("127.0.0.1", broker.port) as connected:
            await connected.subscribe("scanners/dock/reply", qos=1)
            yield connected

    @pytest.fixture
    def bench(self, broker: Mosquitto, device: aiomqtt.Client) -> Bench:
        options = {"mqtt_host": "127.0.0.1", "mqtt_port": broker.port}
        options |= {"mqtt_tls": False, "mqtt_devices": ["dock"]}
        return BrokerBench(device, **options)

    async def test_nothing_is_left_running(self, bench: Bench) -> None:
        connector = bench.connector()
        before = asyncio.all_tasks()
        await connector.open()
        await connector.close()
        assert asyncio.all_tasks() == before
