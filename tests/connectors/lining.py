"""A device in a test that sends lines, and certificates for it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scenes.requirements import require

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

LINES = {"tcp_port": 0, "tcp_addresses": {"dock": "127.0.0.1"}}


@dataclass(frozen=True, slots=True)
class Wire:
    """A connection of a device."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *lines: bytes) -> None:
        self.writer.write(b"".join(line + b"\n" for line in lines))
        await self.writer.drain()

    async def reply(self) -> str:
        """Return the next answer; empty when the other side has left."""
        return (await self.reader.readline()).decode().rstrip("\n")

    async def say(self, *lines: bytes) -> list[str]:
        await self.send(*lines)
        return [await self.reply() for _ in lines]


@asynccontextmanager
async def wire_to(
    address: tuple[str, int], context: ssl.SSLContext | None = None
) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection(*address, ssl=context)
    try:
        yield Wire(reader, writer)
    finally:
        # At once, without a farewell, as devices leave.
        writer.transport.abort()


def as_lines(scans: Iterable[dict[str, object]]) -> list[bytes]:
    return [json.dumps(scan).encode() for scan in scans]


def certificate(folder: Path) -> Path:
    """Make a certificate for 127.0.0.1 that vouches for itself, with its key."""
    file = folder / "tls.pem"
    command = (
        *(require("openssl"), "req", "-x509", "-newkey", "ec", "-nodes"),
        *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(folder / "tls.key"), "-out", str(file)),
    )
    subprocess.run(command, check=True, capture_output=True)
    return file
