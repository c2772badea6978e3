"""A packing station: it sends scans as lines over TCP, until each is answered."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from backhaul.demo.home import HOST, STATION
from backhaul.demo.scanners import ANSWER_SECONDS, PATIENCE_SECONDS, scan_of

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.demo.causes import Cause, Placement

FIRST_STATUS_TO_REPEAT = 500


class Station:
    """One device, known by its address. What is not answered is sent again."""

    def __init__(self, port: int, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._sequence = 0
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def close(self) -> None:
        """Hang up."""
        line, self._line = self._line, None
        if line is not None:
            line[1].close()

    async def pack(self, order: Placement) -> Cause:
        """Scan a packed order; return once the daemon has said what it makes of it."""
        self._sequence += 1
        scan, cause = scan_of(order, STATION, self._sequence, "PS")
        while not await self._heard(scan):
            await self.close()
            await self._clock.sleep(PATIENCE_SECONDS)
        return cause

    async def _heard(self, scan: dict[str, object]) -> bool:
        """Send it once. A refusal is an answer: the ledger will miss the command."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await self._connected()
                writer.write(json.dumps(scan).encode() + b"\n")
                answer = json.loads(await reader.readline())
        except (OSError, TimeoutError, ValueError):
            return False
        return bool(answer["status"] < FIRST_STATUS_TO_REPEAT)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._line is None:
            self._line = await asyncio.open_connection(HOST, self._port)
        return self._line
