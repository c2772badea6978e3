"""A device that sends scans as lines: sends again what has no answer, and dies."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connectors.lining import Wire
from scenes.tcp_relay import reset

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

HALVED = 90_000
"""The number of the first scan that is only half sent."""
OPEN_SCANS = 20
"""The number of scans in flight, so that each kill interrupts some."""


def code_of(number: int) -> str:
    return f"LS-{number:05}"


def receipt_of(number: int) -> bytes:
    """Return a scan of an article of its own, or, each second one, the code alone."""
    if number % 2:
        return code_of(number).encode()
    scan = {"mode": "receive", "code": code_of(number), "sequence": number}
    return json.dumps(scan).encode()


PICKED = ("A", "B", "A", "C")
"""The articles of each order."""


def pick_of(number: int) -> bytes:
    """Return a scan of an article of an order, or of the order that is complete."""
    order, step = divmod(number, len(PICKED) + 1)
    name = f"{1_001 + order}"
    code = PICKED[step] if step < len(PICKED) else name
    scan = {"mode": "pick", "order": name, "code": code, "sequence": number}
    return json.dumps(scan).encode()


@dataclass(slots=True)
class Gun:
    """Scans what `line_of` has for each number, one after another.

    `halved` counts the scans that it began to send and died over; it forgets those.
    """

    port: int
    moments: random.Random
    line_of: Callable[[int], bytes] = receipt_of
    sent: int = 0
    answered: int = 0
    halved: int = 0
    _open: dict[int, bytes] = field(default_factory=dict)

    async def scan(self, answers: int, on_the_way: int = OPEN_SCANS) -> Wire:
        """Scan over a new connection until so many are answered, with others open.

        ConnectionError where the other side has left.
        """
        wire = Wire(*await asyncio.open_connection("127.0.0.1", self.port))
        try:
            await self._send(wire, answers, on_the_way)
        except BaseException:
            reset(wire.writer)
            raise
        return wire

    async def finish(self, more: int = 0) -> None:
        """Wait for responses to all open scans and to this many more."""
        reset((await self.scan(len(self._open) + more, min(more, 1))).writer)

    async def die(self, wire: Wire) -> None:
        """Send a part of a line; then break the line, or hang up as a process does."""
        line = receipt_of(HALVED + self.halved)
        self.halved += 1
        wire.writer.write(line[: self.moments.randint(1, len(line))])
        await wire.writer.drain()
        if self.moments.random() < 0.5:
            wire.writer.write_eof()
            # the client is gone; after all responses came, the half scan was read
            with suppress(ConnectionError):
                await wire.reader.read()
        reset(wire.writer)

    async def _send(self, wire: Wire, answers: int, on_the_way: int) -> None:
        waiting = deque(self._open)
        await wire.send(*self._open.values())
        for _ in range(answers):
            while len(waiting) < on_the_way:
                waiting.append(self.sent)
                await wire.send(self._new())
            self._take(waiting.popleft(), await wire.reply())

    def _new(self) -> bytes:
        line = self.line_of(self.sent)
        self._open[self.sent] = line
        self.sent += 1
        return line

    def _take(self, number: int, reply: str) -> None:
        if not reply:
            raise ConnectionResetError("the other side has left")
        if not reply.startswith("OK"):
            assert json.loads(reply)["accepted"], reply
            assert json.loads(reply)["sequence"] == number
        del self._open[number]
        self.answered += 1
