"""A TCP relay that forwards bytes until a test breaks its connections."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scenes.ports import free_port
from scenes.waiting import until

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

RESET = struct.pack("ii", 1, 0)
CHUNK = 65_536
TURNS = 10
"""More turns of the event loop than an accepted connection needs to get its task."""


@dataclass(slots=True)
class Relay:
    """Listens on `port` and forwards to `upstream`, both on 127.0.0.1.

    The relay resets a connection before it forwards `cut_before`, or instead of the
    response to `cut_after`; it calls `when_cut` before either reset. `seen` counts the
    occurrences of `counted`. While it `is_silent`, connections stay open and no byte is
    forwarded, not even their end. With `tls` the relay terminates TLS.
    """

    upstream: int
    port: int = field(default_factory=free_port)
    cut_before: bytes | None = None
    cut_after: bytes | None = None
    is_silent: bool = False
    counted: bytes = b"\0\0"
    seen: int = 0
    tls: ssl.SSLContext | None = None
    when_cut: Callable[[], None] = lambda: None
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _serving: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def up(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self.tls
        )

    async def down(self) -> None:
        """Refuse new connections, and reset the open ones."""
        if (server := self._server) is not None:
            self._server = None
            for each in server.sockets:
                asyncio.get_running_loop().remove_reader(each.fileno())
            # Otherwise asyncio leaves open what it has accepted just now.
            await _turn()
            server.close()
        for writer in list(self._open):
            reset(writer)
        await asyncio.gather(*filter(None, self._serving), return_exceptions=True)
        await _turn()  # until the sockets are closed

    async def at_rest(self) -> None:
        """Wait until all forwarded requests were answered."""
        while tasks := [task for task in self._serving if task is not None]:
            await asyncio.wait(tasks)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        own = asyncio.current_task()
        self._serving.add(own)
        try:
            up = await asyncio.open_connection("127.0.0.1", self.upstream)
            if (
                self._server is None
            ):  # `down` waits for connections that it did not reset
                reset(up[1])
                reset(writer)
            else:
                await self._relay(reader, writer, *up)
        except OSError:
            reset(writer)
        finally:
            self._serving.discard(own)

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        server: asyncio.StreamWriter,
    ) -> None:
        line = _Line(self, writer, server)
        self._open |= {writer, server}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(line.ask(reader))
                group.create_task(line.answer(answers))
        except* OSError:
            pass
        finally:
            self._open -= {writer, server}
            writer.close()
            server.close()


@dataclass(slots=True)
class _Line:
    """One connection through the relay."""

    relay: Relay
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    doomed: bool = False

    async def ask(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            if self.relay.is_silent:
                continue
            self.relay.seen += data.count(self.relay.counted)
            before, after = self.relay.cut_before, self.relay.cut_after
            if before is not None and before in data:
                self.relay.when_cut()
                reset(self.client)
                break
            self.doomed = self.doomed or (after is not None and after in data)
            self.server.write(data)
            await self.server.drain()
        await self._await_forwarding()
        # The server still processes forwarded bytes, although the client has gone.
        if self.server.can_write_eof():
            self.server.write_eof()

    async def answer(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            if self.relay.is_silent:
                continue
            if self.doomed:
                self.relay.when_cut()
                reset(self.client)
                break
            if not self.client.is_closing():
                self.client.write(data)
        await self._await_forwarding()
        self.client.close()

    async def _await_forwarding(self) -> None:
        """Wait until the relay may forward the end of one side to the other."""

        def forwards() -> bool:
            return not self.relay.is_silent or self.client.is_closing()

        await until(forwards, "the relay forwards bytes again")


async def _turn() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, which discards bytes in flight."""
    try:
        sock = writer.get_extra_info("socket")
    except AttributeError:  # over TLS, the transport of a lost connection
        return
    if sock is not None and sock.fileno() >= 0:  # else it is closed already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


@asynccontextmanager
async def tcp_relay(upstream: int) -> AsyncIterator[Relay]:
    relay = Relay(upstream)
    await relay.up()
    try:
        yield relay
    finally:
        await relay.down()
