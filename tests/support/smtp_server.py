"""A small SMTP server that keeps what it is sent and refuses what it is told to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

GREETING = b"220 test ESMTP\r\n"


@dataclass(slots=True)
class SmtpServer:
    """Messages as they came; `refusals` are given in turn to RCPT, then 250."""

    port: int = 0
    raw: list[bytes] = field(default_factory=list)
    refusals: list[bytes] = field(default_factory=list)
    _more: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def messages(self) -> list[EmailMessage]:
        return [message_from_bytes(one, policy=policy.default) for one in self.raw]

    async def until(self, count: int) -> list[EmailMessage]:
        async with asyncio.timeout(15), self._more:
            await self._more.wait_for(lambda: len(self.raw) >= count)
        return self.messages

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(GREETING)
        while line := await reader.readline():
            verb = line.split()[0].upper()
            if verb == b"DATA":
                writer.write(b"354 go on\r\n")
                await self._keep(await reader.readuntil(b"\r\n.\r\n"))
            writer.write(self._answer(verb))
            await writer.drain()
            if verb == b"QUIT":
                break
        writer.close()

    def _answer(self, verb: bytes) -> bytes:
        if verb == b"RCPT" and self.refusals:
            return self.refusals.pop(0) + b"\r\n"
        return b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n"

    async def _keep(self, raw: bytes) -> None:
        async with self._more:
            self.raw.append(raw.replace(b"\r\n..", b"\r\n."))
            self._more.notify_all()


@asynccontextmanager
async def open_smtp_server() -> AsyncIterator[SmtpServer]:
    kept = SmtpServer()
    server = await asyncio.start_server(kept.serve, "127.0.0.1", 0)
    kept.port = server.sockets[0].getsockname()[1]
    try:
        yield kept
    finally:
        server.close()
        await server.wait_closed()
