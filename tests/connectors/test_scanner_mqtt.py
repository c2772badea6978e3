"""Scans over a real MQTT broker: acknowledgements and allowed devices."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiomqtt
import pytest

from connectors.scanning import Dock
from scenes.mosquitto import mosquitto

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul_connectors.scanner import Scanner
    from backhaul_sdk import Bad, Receipt, Record

pytestmark = pytest.mark.programs


@dataclass(frozen=True, slots=True)
class Hall:
    """A dock behind a broker, and a device that is connected to it."""

    dock: Dock
    device: aiomqtt.Client

    async def open(self) -> Scanner:
        scanner = await self.dock.open()
        assert scanner.broker is not None
        await scanner.broker.connected.wait()
        return scanner

    async def publish(
        self, sequence: int, device: str = "dock", *, retain: bool = False
    ) -> None:
        scan = {"mode": "receive", "code": "LS-S", "sequence": sequence}
        topic = f"scanners/{device}/scan"
        await self.device.publish(topic, json.dumps(scan), qos=1, retain=retain)

    async def answer(self) -> dict[str, Any]:
        message = await anext(self.device.messages)
        answer: dict[str, Any] = json.loads(bytes(message.payload or b""))
        return answer

    def sequences(self) -> list[str]:
        return [record.key.split(":")[2] for record in self.dock.records()]


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with (
        mosquitto(tmp_path) as broker,
        aiomqtt.Client("127.0.0.1", broker.port) as device,
    ):
        await device.subscribe("scanners/+/reply", qos=1)
        options = {"mqtt_host": "127.0.0.1", "mqtt_port": broker.port}
        options |= {"mqtt_tls": False, "mqtt_devices": ["dock"]}
        dock = Dock(options)
        yield Hall(dock, device)
        await dock.close()


async def test_a_scan_that_was_not_committed_comes_again(hall: Hall) -> None:
    asked = asyncio.Event()

    async def never(record: Record | Bad) -> Receipt:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError(record)

    hall.dock.emit = never
    await hall.open()
    await hall.publish(1)
    await asked.wait()
    # The program ends amid the commit; nothing but the broker has the scan now.
    await hall.dock.close()
    hall.dock.emit = None
    await hall.open()
    assert (await hall.answer())["accepted"]
    assert hall.sequences() == ["1"]


async def test_a_committed_message_does_not_come_again(hall: Hall) -> None:
    await hall.open()
    await hall.publish(1)
    assert (await hall.answer())["sequence"] == 1
    await hall.dock.restart()
    await hall.publish(2)
    assert (await hall.answer())["sequence"] == 2


async def test_the_broker_keeps_messages_while_no_reader_is_connected(
    hall: Hall,
) -> None:
    await hall.open()
    await hall.dock.close()
    await asyncio.gather(*map(hall.publish, range(5)))
    await hall.open()
    answers = [await hall.answer() for _ in range(5)]
    assert {answer["accepted"] for answer in answers} == {True}
    assert sorted(hall.sequences()) == ["0", "1", "2", "3", "4"]


async def test_a_message_that_the_host_cannot_store_is_tried_again(hall: Hall) -> None:
    emit, failures = hall.dock.host.emit, [OSError("no space left on device")]

    async def full_once(record: Record | Bad) -> Receipt:
        if failures:
            raise failures.pop()
        return await emit(record)

    hall.dock.emit = full_once
    await hall.open()
    await hall.publish(1)
    assert (await hall.answer())["accepted"]
    assert hall.sequences() == ["1"]


async def test_an_unknown_device_and_a_retained_scan_are_refused(hall: Hall) -> None:
    await hall.publish(1, retain=True)
    await hall.open()
    retained = await hall.answer()
    await hall.publish(2, device="stranger")
    stranger = await hall.answer()
    assert (retained["status"], stranger["status"]) == (422, 401)
    assert "must not be a retained message" in retained["what"]
    assert "add it to mqtt_devices" in stranger["what"]
    assert hall.dock.records() == []
