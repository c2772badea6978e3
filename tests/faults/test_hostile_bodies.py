"""Bombs, bodies without end and heaps of headers: refused, at the cost of nothing."""

from __future__ import annotations

import asyncio
import gzip
import time
from typing import TYPE_CHECKING

import pytest
from yarl import URL

from faults.sending import sender
from faults.trials import LONG, tell
from support.databases import rows
from support.payloads import signed
from support.processes import memory_bytes, reset_most_memory, thread_seconds
from support.receiving import raw_request, status_of

if TYPE_CHECKING:
    from faults.sending import Sender
    from support.daemon import DaemonProcess
    from support.reference import ReferenceProcess

TIMES = 100 if LONG else 20
RISE_BYTES = 20_000_000
STALL_SECONDS = 0.05
CHUNK = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
LIMIT_BYTES = 1 << 20


def chunked(head: bytes) -> bytes:
    return head.replace(b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n")


def attacks(secret: bytes) -> dict[str, tuple[bytes, set[int]]]:
    """Return what is sent, and how it may be answered."""
    bomb = gzip.compress(bytes(50_000_000))
    large = b"x" * 2_000_000

    def request(body: bytes, **headers: str) -> bytes:
        return raw_request(body, signed(body, secret, **headers).items())

    many = {f"X-Much-{number}": "x" * 60 for number in range(200)}
    return {
        "gzip bomb": (request(bomb, **{"Content-Encoding": "gzip"}), {415}),
        "br": (request(b"{}", **{"Content-Encoding": "br"}), {415}),
        "2 MB": (request(large), {413}),
        "chunks without end": (chunked(request(b"")) + CHUNK * 64, {413}),
        "200 headers": (request(b"{}", **many), {400, 431}),
        "one long header": (request(b"{}", **{"X-Long": "x" * 100_000}), {400, 431}),
    }


async def answer_to(client: Sender, request: bytes) -> int:
    """Send what the other side takes; return the status."""
    port = URL(client.public_url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(5):
            return status_of(await reader.readuntil(b"\r\n"))
    finally:
        writer.close()


@pytest.mark.faults
@pytest.mark.timed
async def test_hostile_bodies_cost_nothing(
    daemon: DaemonProcess,
    platform: ReferenceProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Processor time bounds the stall of the loop, whatever else the machine does."""
    pid = daemon.process.pid
    async with sender(daemon.office, platform.store().id) as client:
        for _ in range(20):
            await client.insist(client.body(LIMIT_BYTES - 10_000))
        worst = rise = 0.0
        for name, (request, allowed) in attacks(
            daemon.office.webhook_secret.encode()
        ).items():
            await client.insist()
            reset_most_memory(pid)
            before = memory_bytes(pid)
            for _ in range(TIMES):
                began = thread_seconds(pid)
                assert await answer_to(client, request) in allowed, name
                worst = max(worst, thread_seconds(pid) - began)
            rise = max(rise, memory_bytes(pid, "VmHWM") - before)
            assert rise < RISE_BYTES, name
            assert worst < STALL_SECONDS, name
        query = "SELECT count(*) FROM inbox WHERE kind = 'delivery'"
        ((kept,),) = rows(daemon.office.database, query)
        more = f"attacks; {rise / 1e6:.0f} MB more, {worst * 1e3:.0f} ms of the loop"
        tell(capsys, kept - len(client.kept), TIMES * 6, more)
    assert kept == len(client.kept)


@pytest.mark.faults
@pytest.mark.timed
async def test_health_is_answered_under_attack(
    daemon: DaemonProcess, platform: ReferenceProcess
) -> None:
    async with sender(daemon.office, platform.store().id) as client:
        secret = daemon.office.webhook_secret.encode()
        end = time.monotonic() + (10 if LONG else 1)

        async def attack(request: bytes) -> None:
            while time.monotonic() < end:
                await answer_to(client, request)

        async def ask() -> None:
            while time.monotonic() < end:
                assert (await client.health()).seconds < 1
                await client.insist(seconds=2)

        requests = [request for request, _ in attacks(secret).values()]
        await asyncio.gather(ask(), *map(attack, requests))
