"""A thousand clients that send a byte now and then, from many addresses."""

from __future__ import annotations

import asyncio
import resource
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from yarl import URL

from faults.sending import sender
from faults.trials import LONG, tell
from scenes.daemon import daemon_process
from scenes.payloads import signed
from scenes.processes import limited, open_files
from scenes.receiver import raw_request
from scenes.requirements import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faults.sending import Sender
    from scenes.daemon import DaemonProcess, Office
    from scenes.reference_process import ReferenceProcess

CLIENTS = 1_000
PLACES = 40
PER_SECOND = 250
REQUEST_SECONDS = 10.0 if LONG else 3.0
"""The default in the long form."""
BYTE_SECONDS = 0.5
FILES = 700
"""As many as 512 connections need, and what the daemon has open besides."""
BEGINNINGS = ("nothing", "headers", "body")
SHELL = """\
[public]
request_seconds = {seconds}
"""


@dataclass(slots=True)
class Crowd:
    """Slow clients, and what each was answered before it was thrown out."""

    port: int
    request: bytes
    answers: list[bytes] = field(default_factory=list)

    async def stay(self, number: int) -> None:
        """Connect when it is one's turn, and send little until one is thrown out."""
        await asyncio.sleep(number / PER_SECOND)
        answer = b""
        with suppress(ConnectionError):
            place = (f"127.0.1.{1 + number % PLACES}", 0)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.port, local_addr=place
            )
            try:
                answer = await self._dawdle(number, reader, writer)
            finally:
                writer.close()
        self.answers.append(answer)

    async def _dawdle(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        head = self.request.index(b"\r\n\r\n") + 4
        starts = {"nothing": 0, "headers": head // 2, "body": head + 10}
        sent = starts[BEGINNINGS[number % len(BEGINNINGS)]]
        writer.write(self.request[:sent])
        ended = asyncio.ensure_future(reader.read())
        while not ended.done():
            await asyncio.wait([ended], timeout=BYTE_SECONDS)
            if sent:
                writer.write(self.request[sent : sent + 1])
                sent += 1
        return await ended


@pytest.fixture
def strict(office: Office) -> Office:
    """The daemon's configuration, with less patience in the short form."""
    office.write(**{"[public]\n": SHELL.format(seconds=REQUEST_SECONDS)})
    return office


@pytest.fixture
def daemon(strict: Office) -> Iterator[DaemonProcess]:
    with (
        daemon_process(strict) as running,
        limited(running.process.pid, resource.RLIMIT_NOFILE, FILES),
    ):
        yield running


async def send_meanwhile(client: Sender, crowd: asyncio.Future[Any]) -> list[float]:
    """Send webhooks until the crowd has gone; a refused one counts its whole time."""
    taken: list[float] = []
    while not crowd.done():
        taken.append(await client.insist())
        await asyncio.sleep(0.02)
    await crowd
    return sorted(taken)


@pytest.mark.faults
async def test_a_thousand_slow_clients_block_no_other(
    daemon: DaemonProcess,
    platform: ReferenceProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with sender(daemon.office, platform.store().id) as client:
        body = client.body()
        request = raw_request(body, signed(body).items())
        crowd = Crowd(URL(client.public_url).port or 0, request)
        stay = (crowd.stay(number) for number in range(CLIENTS))
        everybody = asyncio.ensure_future(asyncio.gather(*stay))
        taken = await send_meanwhile(client, everybody)
        among = len(taken)
        p99 = taken[int(len(taken) * 0.99) - 1]
        lost = client.lost(daemon.office.database)
        more = f"webhooks among {CLIENTS} slow clients, p99 {p99:.2f} s,"
        more += f" {taken[-1]:.2f} s at most"
        tell(capsys, len(lost), len(taken), more)
        files = open_files(daemon.process.pid)
    # At its pace the shortest request takes minutes: who was let finish it is 200.
    assert len(crowd.answers) == CLIENTS
    assert not any(b" 200 " in answer for answer in crowd.answers)
    assert among > CLIENTS / PER_SECOND
    assert lost == set()
    assert files < 40


SLOWHTTPTEST = {"body": ["-B", "-i", "1", "-s", "8192"]}
if LONG:
    SLOWHTTPTEST["headers"] = ["-H", "-i", "1"]


@pytest.mark.faults
@pytest.mark.parametrize("attack", SLOWHTTPTEST.values(), ids=SLOWHTTPTEST.keys())
async def test_slowhttptest_blocks_no_other_client(
    attack: list[str], daemon: DaemonProcess, platform: ReferenceProcess
) -> None:
    tool = require("slowhttptest")
    async with sender(daemon.office, platform.store().id) as client:
        url = f"{client.public_url}/webhooks/main"
        size = ["-c", str(CLIENTS), "-r", str(PER_SECOND)]
        seconds = int(REQUEST_SECONDS + CLIENTS / PER_SECOND)
        size += ["-l", str(seconds), "-u", url]
        process = await asyncio.create_subprocess_exec(
            tool, *attack, *size, stdout=subprocess.DEVNULL
        )
        taken = await send_meanwhile(client, asyncio.create_task(process.wait()))
        assert len(taken) > CLIENTS / PER_SECOND
        assert client.lost(daemon.office.database) == set()
