"""Decompression bombs, endless bodies and huge headers are refused cheaply."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import pytest
from yarl import URL

from faults.sending import sender
from faults.trials import LONG, tell
from scenes.payloads import signed
from scenes.processes import memory_bytes, reset_most_memory, thread_seconds
from scenes.receiver import raw_request, status_of
from scenes.stored import bodies
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from faults.sending import Sender
    from scenes.daemon import DaemonProcess
    from scenes.reference_process import ReferenceProcess

TIMES = 100 if LONG else 20
RISE_BYTES = 20_000_000
MOST_TIMES_THE_COST = 3
"""What a refused request may cost, beside the largest webhook that is kept."""
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
        async with asyncio.timeout(HANG_SECONDS):
            return status_of(await reader.readuntil(b"\r\n"))
    finally:
        writer.close()


@pytest.mark.faults
async def test_hostile_bodies_cost_nothing(
    daemon: DaemonProcess,
    platform: ReferenceProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The loop's processor time is compared with that of webhooks of the same size."""
    pid = daemon.process.pid
    async with sender(daemon.office, platform.store().id) as client:
        began = thread_seconds(pid)
        for _ in range(TIMES):
            await client.insist(client.body(LIMIT_BYTES - 10_000))
        fair = thread_seconds(pid) - began
        worst = rise = 0.0
        for name, (request, allowed) in attacks(
            daemon.office.webhook_secret.encode()
        ).items():
            await client.insist()
            reset_most_memory(pid)
            before = memory_bytes(pid)
            began = thread_seconds(pid)
            for _ in range(TIMES):
                assert await answer_to(client, request) in allowed, name
            worst = max(worst, (thread_seconds(pid) - began) / fair)
            rise = max(rise, memory_bytes(pid, "VmHWM") - before)
            assert rise < RISE_BYTES, name
            assert worst < MOST_TIMES_THE_COST, name
        kept = len(bodies(daemon.office.database, "delivery"))
        more = f"attacks; {rise / 1e6:.0f} MB more, {worst:.1f} of a webhook's cost"
        tell(capsys, kept - len(client.kept), TIMES * 6, more)
    assert kept == len(client.kept)


@pytest.mark.faults
async def test_health_is_answered_under_attack(
    daemon: DaemonProcess, platform: ReferenceProcess
) -> None:
    async with sender(daemon.office, platform.store().id) as client:
        secret = daemon.office.webhook_secret.encode()
        answered = asyncio.Event()
        made = [0]

        async def attack(request: bytes) -> None:
            while not answered.is_set():
                await answer_to(client, request)
                made[0] += 1

        async def ask() -> None:
            for _ in range(TIMES):
                assert (await client.health()).status == 200
                await client.insist()
            answered.set()

        requests = [request for request, _ in attacks(secret).values()]
        await asyncio.gather(ask(), *map(attack, requests))
        # A daemon that serves the attacks first would let none of ours between them.
        assert made[0] < 50 * TIMES * len(requests)
