"""A device on a belt: MQTT scans, each sent again until its answer is there."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import aiomqtt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scenes.mosquitto import Mosquitto

OPEN_SCANS = 20
"""The number of scans in flight, so that each kill interrupts some."""
AGAIN_SECONDS = 0.3


class Belt:
    """Scans received goods as fast as responses arrive, until it is stopped."""

    def __init__(self, broker: Mosquitto) -> None:
        self._broker = broker
        self._open: set[int] = set()
        self._told = asyncio.Event()
        self._ending = False
        self._expected = 0
        self.sent = 0

    def expect(self, answers: int) -> None:
        """Count responses from now on."""
        self._expected = answers

    def has_enough(self) -> bool:
        return self._expected <= 0

    def end(self) -> None:
        """Stop new scans."""
        self._ending = True

    @property
    def is_done(self) -> bool:
        return self._ending and not self._open

    async def work(self) -> None:
        """Send endlessly, with a new connection whenever one breaks."""
        while True:
            try:
                async with aiomqtt.Client("127.0.0.1", self._broker.port) as client:
                    await client.subscribe("scanners/belt/reply", qos=1)
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._listen(client))
                        group.create_task(self._insist(client))
            except* aiomqtt.MqttError:
                await asyncio.sleep(0.02)

    async def _insist(self, client: aiomqtt.Client) -> None:
        """Send all open scans, then new ones, then all open ones again."""
        while True:
            for number in sorted(self._open):
                await self._send(client, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_SECONDS):
                    await self._scan_more(client)

    async def _scan_more(self, client: aiomqtt.Client) -> None:
        while True:
            while not self._ending and len(self._open) < OPEN_SCANS:
                self._open.add(number := self.sent)
                self.sent += 1
                await self._send(client, number)
            self._told.clear()
            await self._told.wait()

    async def _listen(self, client: aiomqtt.Client) -> None:
        """Read responses only: only a read detects the end of the broker."""
        async for message in client.messages:
            answer = json.loads(bytes(message.payload or b""))
            if not answer["accepted"]:
                raise AssertionError(f"refused: {answer['what']}")
            if answer["sequence"] in self._open:
                self._open.discard(answer["sequence"])
                self._expected -= 1
                self._told.set()

    async def _send(self, client: aiomqtt.Client, number: int) -> None:
        scan = {"mode": "receive", "code": "LS-S", "sequence": number}
        await client.publish("scanners/belt/scan", json.dumps(scan), qos=1)


@asynccontextmanager
async def belt_at(broker: Mosquitto) -> AsyncIterator[Belt]:
    """Run a belt, and stop it at the end."""
    belt = Belt(broker)
    working = asyncio.ensure_future(belt.work())
    try:
        yield belt
    finally:
        working.cancel()
        await asyncio.wait([working])
        if not working.cancelled():
            working.result()
