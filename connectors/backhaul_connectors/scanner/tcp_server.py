"""Receives scans as lines over TCP; answers each once it is stored."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING

from backhaul_connectors.scanner.intake import MOST_BYTES, reply_to
from backhaul_sdk import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul_connectors.scanner.intake import ScanIntake
    from backhaul_connectors.scanner.settings import Devices, Settings

CHUNK_BYTES = 65_536
MOST_CONNECTIONS = 256
FAREWELL_SECONDS = 1.0
REPLY_SECONDS = 30.0
"""How long a device may leave its answers unread."""
QUIET_SECONDS, ASK_SECONDS, MOST_ASKED = 60, 15, 4
"""TCP keepalive: the idle time, the interval and the number of probes. A device that
was switched off does not close its connection, which would stay forever."""


class LineServer:
    """Serves devices that connect, identify themselves if necessary, and send lines.

    They may take `entrance_seconds` to identify themselves.
    """

    def __init__(
        self, settings: Settings, intake: ScanIntake, entrance_seconds: float
    ) -> None:
        self._settings = settings
        self._intake = intake
        self._entrance_seconds = entrance_seconds
        self._devices: Devices | None = None
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> tuple[str, int]:
        """The address of the listener."""
        if self._server is None:
            raise LookupError("the server does not listen")
        host, port, *_ = self._server.sockets[0].getsockname()
        return host, port

    async def open(self, devices: Devices) -> None:
        """Listen. Raises CheckFailed."""
        if self._settings.tcp_port is None or self._server is not None:
            return
        self._devices = devices
        context = await asyncio.to_thread(tls_of, self._settings)
        host, port = self._settings.tcp_host, self._settings.tcp_port
        try:
            self._server = await asyncio.start_server(
                self._serve,
                host,
                port,
                limit=CHUNK_BYTES,
                ssl=context,
                ssl_handshake_timeout=self._entrance_seconds if context else None,
            )
        except OSError as error:
            problem = f"cannot listen at {host} port {port}: {error.strerror}"
            raise CheckFailed(problem) from None

    async def close(self) -> None:
        """Stop listening. Safe to call twice."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= MOST_CONNECTIONS:
            writer.close()
            return
        self._open.add(task)
        try:
            # A device that hangs up, stalls or sends garbage affects no other.
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                _notice_who_is_gone(writer.get_extra_info("socket"))
                beeps = self._settings.tcp_beeps
                device = _DeviceConnection(reader, writer, self._intake, beeps)
                await device.hold(self._who, self._entrance_seconds)
        finally:
            self._open.discard(task)
            writer.close()

    def _who(self, address: str, first_line: bytes | None) -> str | None:
        """Return the device at an address, or the device of the sent token."""
        if first_line is None:
            return _device_at(address, self._settings.tcp_addresses)
        word, _, token = first_line.decode("utf-8", "replace").strip().partition(" ")
        if self._devices is None or word.upper() != "AUTH":
            return None
        return self._devices.of_token(token)


def _notice_who_is_gone(connection: socket.socket) -> None:
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, QUIET_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, ASK_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, MOST_ASKED),
    ):
        connection.setsockopt(level, option, value)


def _device_at(address: str, allowed: dict[str, str]) -> str | None:
    plain = ip_address(address.partition("%")[0])
    mapped = getattr(plain, "ipv4_mapped", None)
    wanted = str(mapped or plain)
    return next((name for name, known in allowed.items() if known == wanted), None)


class _DeviceConnection:
    """One connection: lines that arrive together share a commit."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        intake: ScanIntake,
        beeps: bool,
    ) -> None:
        self._reader = reader
        self._beeps = beeps
        self._writer = writer
        self._intake = intake
        self._rest = b""
        self._device = ""
        self._ended = False

    async def hold(
        self,
        who: Callable[[str, bytes | None], str | None],
        entrance_seconds: float,
    ) -> None:
        """Answer lines until the device disconnects."""
        address = str(self._writer.get_extra_info("peername")[0])
        waiting: list[bytes] = []
        device = who(address, None)
        if device is None:
            async with asyncio.timeout(entrance_seconds):
                waiting = await self._lines()
            device = who(address, waiting.pop(0)) if waiting else None
            if device is None:
                await self._reply([b"NO unknown device: check its token"])
                return
            await self._reply([b"OK " + device.encode()])
        self._device = device
        while waiting or (waiting := await self._lines()):
            await self._reply(await asyncio.gather(*map(self._answer, waiting)))
            waiting = []
        if self._ended:
            await self._let_it_read()

    async def _let_it_read(self) -> None:
        """Read remaining input: closing early would lose the last answer."""
        async with asyncio.timeout(FAREWELL_SECONDS):
            while await self._reader.read(CHUNK_BYTES):
                pass

    async def _lines(self) -> list[bytes]:
        """Return the next complete lines; none at the end.

        An incomplete line stays unanswered, so the device keeps it.
        """
        while not self._ended and (chunk := await self._reader.read(CHUNK_BYTES)):
            # Many scanners end a code with a carriage return alone.
            *lines, self._rest = re.split(rb"[\r\n]", self._rest + chunk)
            if len(self._rest) > MOST_BYTES:
                lines.append(self._rest)
                self._ended = True
            if lines := [line for line in lines if line.strip()]:
                return lines
        return []

    async def _reply(self, replies: list[bytes]) -> None:
        if self._writer.is_closing():  # uvloop would raise RuntimeError
            raise ConnectionResetError
        self._writer.write(b"".join(reply + b"\n" for reply in replies))
        async with asyncio.timeout(REPLY_SECONDS):
            await self._writer.drain()

    async def _answer(self, line: bytes) -> bytes:
        reply = await reply_to(line, self._device, self._intake)
        return reply.formed_for(line, beeps=self._beeps)


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context, or None. Raises CheckFailed."""
    certificate: Path | None = settings.tcp_certificate
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # An encrypted key would ask the terminal for its password.
        context.load_cert_chain(certificate, settings.tcp_key, password="")
    except OSError as error:  # ssl.SSLError is one
        problem = f"{certificate} cannot be used for TLS: {error.strerror or error}"
        raise CheckFailed(problem) from None
    return context
