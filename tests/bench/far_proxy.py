"""A TCP proxy that is far away: it passes all bytes on after a delay each way."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

import typer
import uvloop

CHUNK_BYTES = 65_536


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
) -> None:
    """Write what is read, each part after the delay, without delaying the next read."""
    loop = asyncio.get_running_loop()
    parts: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        with suppress(OSError):
            while part := await reader.read(CHUNK_BYTES):
                parts.put_nowait((loop.time() + seconds, part))
        parts.put_nowait((loop.time() + seconds, b""))

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        while True:
            due, part = await parts.get()
            await asyncio.sleep(due - loop.time())
            if not part:
                break
            with suppress(OSError):
                writer.write(part)
                await writer.drain()
    writer.close()


async def _serve(port: int, seconds: float) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The loop ends while connections are open.
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(2 * seconds)  # the handshake of TCP
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, to_writer, seconds))
                group.create_task(_pass_on(to_reader, writer, seconds))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    typer.echo(server.sockets[0].getsockname()[1])
    await stopping.wait()
    server.close()


def main(port: int, seconds: float) -> None:
    """Pass everything on to the port until SIGTERM; print the port of the proxy."""
    uvloop.run(_serve(port, seconds))


if __name__ == "__main__":
    typer.run(main)
