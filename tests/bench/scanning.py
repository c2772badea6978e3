"""The measured intake of lines, a process of its own: `python -m bench.scanning`."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import msgspec
import typer
import uvloop
from loguru import logger

from backhaul.app import process_tuning
from backhaul.connect.host import Host
from backhaul.connect.polling import PollSchedule
from backhaul.connect.record_matching import Matcher
from backhaul.core.clock import SystemClock
from backhaul.runtime.signals import StoreContext
from backhaul.store import database_at
from backhaul.store.sqlite.opening import open_store
from backhaul_connectors.scanner import Scanner
from backhaul_connectors.scanner.settings import Settings

CONNECTIONS = 4
LINES = {"tcp_port": 0, "tcp_addresses": {"bench": "127.0.0.1"}}


class Scanned(msgspec.Struct):
    """Seconds of the clock and of the processor, ours and bare; records kept."""

    seconds: float
    cpu_seconds: float
    bare_seconds: float
    bare_cpu_seconds: float
    kept: int


def _lines(connection: int, count: int) -> list[bytes]:
    return [
        json.dumps(
            {
                "mode": "receive",
                "code": f"SKU-{n % 500}",
                "sequence": f"{connection}-{n}",
            }
        ).encode()
        + b"\n"
        for n in range(count)
    ]


async def _device(address: tuple[str, int], lines: list[bytes]) -> None:
    reader, writer = await asyncio.open_connection(*address)
    sending = asyncio.gather(_send(writer, lines))
    for _ in lines:
        if b'"accepted": true' not in await reader.readline():
            raise RuntimeError("a scan was refused")
    await sending
    writer.close()


async def _send(writer: asyncio.StreamWriter, lines: list[bytes]) -> None:
    for start in range(0, len(lines), 100):
        writer.write(b"".join(lines[start : start + 100]))
        await writer.drain()


async def _load(address: tuple[str, int], count: int) -> tuple[float, float]:
    shares = [_lines(n, count // CONNECTIONS) for n in range(CONNECTIONS)]
    began, busy = perf_counter(), process_time()
    await asyncio.gather(*(_device(address, share) for share in shares))
    return perf_counter() - began, process_time() - busy


async def _ours(database: Path, count: int) -> tuple[float, float]:
    clock = SystemClock()
    store = open_store(database, clock)
    store.start()
    scanner = Scanner("bench", Settings.model_validate(LINES))
    matcher = Matcher(clock, 600.0)
    context, polls = StoreContext("main", clock, lambda: 0.5), PollSchedule(clock, 60.0)
    host = Host(scanner, context, polls, store.records, store.documents, matcher)
    try:
        await host.listen(60)
        return await _load(scanner.lines.address, count)
    finally:
        await host.close()
        await store.stop()


async def _acknowledge(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while await reader.readline():
        writer.write(b'{"accepted": true}\n')
        await writer.drain()
    writer.close()


async def _bare(count: int) -> tuple[float, float]:
    server = await asyncio.start_server(_acknowledge, "127.0.0.1", 0)
    async with server:
        host, port, *_ = server.sockets[0].getsockname()
        return await _load((host, port), count)


def main(directory: str, count: int) -> None:
    """Send so many lines to ours and to the bare reader; print JSON."""
    # As in the daemon: no log line for each record, and less frequent garbage
    # collection.
    logger.remove()
    process_tuning.collect_less_often()
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        database = Path(folder, "scans.db")
        ours = uvloop.run(_ours(database, count))
        kept = database_at(database).row_counts()["records"]
    bare = uvloop.run(_bare(count))
    typer.echo(msgspec.json.encode(Scanned(*ours, *bare, kept)).decode())


if __name__ == "__main__":
    typer.run(main)
