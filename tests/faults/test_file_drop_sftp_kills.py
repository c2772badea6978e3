"""F32 for SFTP: server killed or connection cut in a file; each row counts once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.file_drop.files import FileCursor
from backhaul_sdk import CheckFailed
from connectors.dropping import FULFILLMENTS, Drop
from faults.trials import LONG, SEED, chances, tell
from scenes.sshd import Sshd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.faults]

TRIALS = 50 if LONG else 4
ROWS = 3_000
MOST_PULLS = 20
PIECE_BYTES = 4_096


class Cable:
    """Forwards bytes to the server; breaks once, after `left` bytes from the server."""

    def __init__(self, port: int, left: int, strike: Callable[[], None]) -> None:
        self._port = port
        self._left = left
        self._strike = strike
        self._pipes: list[asyncio.StreamWriter] = []
        self.struck = False
        self.port = 0

    async def __aenter__(self) -> Cable:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        for pipe in self._pipes:
            pipe.transport.abort()
        self._pipes.clear()

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            far, near = await asyncio.open_connection("127.0.0.1", self._port)
            self._pipes += [writer, near]
            await asyncio.gather(
                self._carry(reader, near, counts=False),
                self._carry(far, writer, counts=True),
            )
        writer.close()

    async def _carry(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, counts: bool
    ) -> None:
        while content := await source.read(PIECE_BYTES):
            if counts and not self.struck:
                self._left -= len(content)
                if self._left < 0:
                    self.struck = True
                    # bytes in flight arrive in part, up to the middle of a line
                    target.write(content[: self._left])
                    self._strike()
                    self.cut()
                    return
            target.write(content)
            await target.drain()
        target.close()


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    started = Sshd(tmp_path_factory.mktemp("sshd"))
    started.start()
    yield started
    started.kill()


def content(trial: int) -> str:
    rows = (f"{trial}-{row},DHL,JJD{row:040}\n" for row in range(ROWS))
    return FULFILLMENTS + "".join(rows)


async def taken(drop: Drop, server: Sshd, cable: Cable) -> int:
    """Pull until the file is archived; return the number of failures."""
    drop.options |= {"sftp_port": cable.port, "batch_rows": 100}
    connector = drop.connector()
    failures = 0
    for _ in range(MOST_PULLS):
        try:
            await connector.open()
            await drop.host.pull(connector)
        except CheckFailed:
            failures += 1
            cursor = FileCursor.from_text(drop.host.cursor)
            assert cursor.last.row <= len(drop.host.records), "ahead of what is kept"
            if cable.struck and server.is_dead:
                server.start()
        if not list(drop.path.glob("*.csv")):
            break
    await connector.close()
    return failures


@pytest.mark.parametrize("strikes", ["server killed", "line cut"])
async def test_each_row_comes_once(
    tmp_path: Path,
    server: Sshd,
    strikes: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng, failures, downs = chances(SEED), 0, 0
    whole = len(content(0))
    for trial in range(TRIALS):
        options: dict[str, Any] = server.settings()
        drop = Drop(tmp_path / str(trial), options)
        drop.path.mkdir()
        drop.put("fulfillments.csv", content(trial))
        strike = server.kill if strikes == "server killed" else lambda: None
        async with Cable(server.port, rng.randrange(whole + 8_000), strike) as cable:
            downs += await taken(drop, server, cable)
        if server.is_dead:
            server.start()
        archived = (drop.path / "archive" / "fulfillments.csv").exists()
        failures += len(drop.records()) != ROWS or not archived
    tell(capsys, failures, TRIALS, f"{strikes}, noticed {downs} times")
    assert failures == 0
    assert downs >= TRIALS // 2, "the strikes came too late to matter"
