"""A small SMTP server that keeps messages, and can refuse recipients."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

from scenes.waiting import HANG_SECONDS

GREETING = b"220 test ESMTP\r\n"


@dataclass(slots=True)
class SmtpServer:
    """Keeps messages; RCPT is answered with the `refusals` in turn, then with 250.

    With a `login` the client must log in first; with `tls` the server offers STARTTLS,
    and a login only after it. `secure` has True for each message that was encrypted.
    """

    port: int = 0
    tls: ssl.SSLContext | None = None
    login: tuple[str, str] | None = None
    raw: list[bytes] = field(default_factory=list)
    secure: list[bool] = field(default_factory=list)
    verbs: list[bytes] = field(default_factory=list)
    refusals: list[bytes] = field(default_factory=list)
    _more: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def messages(self) -> list[EmailMessage]:
        return [message_from_bytes(one, policy=policy.default) for one in self.raw]

    async def until(self, count: int) -> list[EmailMessage]:
        async with asyncio.timeout(HANG_SECONDS), self._more:
            await self._more.wait_for(lambda: len(self.raw) >= count)
        return self.messages

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(GREETING)
        known = self.login is None
        while line := await reader.readline():
            verb = line.split()[0].upper()
            self.verbs.append(verb)
            if verb == b"DATA" and known:
                writer.write(b"354 go on\r\n")
                await self._keep(await reader.readuntil(b"\r\n.\r\n"), writer)
            if verb == b"AUTH":
                known = self._knows(line)
            writer.write(self._answer(verb, writer, known=known))
            await writer.drain()
            if verb == b"STARTTLS" and self.tls is not None:
                await writer.start_tls(self.tls)
            if verb == b"QUIT":
                break
        writer.close()

    def _knows(self, line: bytes) -> bool:
        _, _, encoded = line.split()
        user, password = self.login or ("", "")
        return base64.b64decode(encoded) == f"\0{user}\0{password}".encode()

    def _answer(
        self, verb: bytes, writer: asyncio.StreamWriter, *, known: bool
    ) -> bytes:
        if verb == b"EHLO":
            return self._offer(secure=is_secure(writer))
        if verb == b"AUTH":
            return b"235 welcome\r\n" if known else b"535 who are you\r\n"
        if verb == b"RCPT" and self.refusals:
            return self.refusals.pop(0) + b"\r\n"
        if verb in {b"MAIL", b"RCPT", b"DATA"} and not known:
            return b"530 log in first\r\n"
        return {b"QUIT": b"221 bye\r\n", b"STARTTLS": b"220 go on\r\n"}.get(
            verb, b"250 ok\r\n"
        )

    def _offer(self, *, secure: bool) -> bytes:
        offered = [b"test"]
        if self.tls is not None and not secure:
            offered.append(b"STARTTLS")
        elif self.login is not None:
            offered.append(b"AUTH PLAIN")
        *others, last = offered
        return b"".join(b"250-%s\r\n" % one for one in others) + b"250 %s\r\n" % last

    async def _keep(self, raw: bytes, writer: asyncio.StreamWriter) -> None:
        async with self._more:
            self.raw.append(raw.replace(b"\r\n..", b"\r\n."))
            self.secure.append(is_secure(writer))
            self._more.notify_all()


def is_secure(writer: asyncio.StreamWriter) -> bool:
    return writer.get_extra_info("sslcontext") is not None


@asynccontextmanager
async def open_smtp_server(
    *,
    tls: ssl.SSLContext | None = None,
    from_the_start: bool = False,
    login: tuple[str, str] | None = None,
) -> AsyncIterator[SmtpServer]:
    kept = SmtpServer(tls=tls, login=login)
    implicit = tls if from_the_start else None
    server = await asyncio.start_server(kept.serve, "127.0.0.1", 0, ssl=implicit)
    kept.port = server.sockets[0].getsockname()[1]
    try:
        yield kept
    finally:
        server.close()
        await server.wait_closed()
