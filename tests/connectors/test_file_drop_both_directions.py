"""Files are imported and changes exported by SFTP at the same time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncssh
import pytest

from backhaul_sdk import Applied
from backhaul_sdk.testing import sample_change
from connectors.dropping import FULFILLMENTS, Drop
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PASSWORD = "a-password-of-the-courier"
ROWS = f"{FULFILLMENTS}1001,DHL,A\n1002,DHL,B\n"


class Doorman(asyncssh.SSHServer):
    """Lets in who knows the password, and knows who is inside."""

    def __init__(self, inside: list[Doorman]) -> None:
        self._inside = inside

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._inside.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._inside.remove(self)

    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return password == PASSWORD


class Slow(asyncssh.SFTPServer):
    """Reads, and opens files to be written, only once `go` is set."""

    def __init__(self, channel: Any, go: asyncio.Event, reading: asyncio.Event) -> None:
        super().__init__(channel)
        self._go = go
        self._reading = reading

    async def read(self, file_obj: object, offset: int, size: int) -> Any:
        self._reading.set()
        await self._go.wait()
        return super().read(file_obj, offset, size)

    async def open(self, path: bytes, pflags: int, attrs: Any) -> object:
        if pflags & asyncssh.FXF_WRITE:
            await self._go.wait()
        return super().open(path, pflags, attrs)


@asynccontextmanager
async def courier(path: Path, inside: list[Doorman], files: Any) -> AsyncIterator[Drop]:
    """Serve `path` on loopback; yield the drop folder that is reached that way."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    listening = await asyncssh.create_server(
        lambda: Doorman(inside),
        *("127.0.0.1", 0),
        server_host_keys=[key],
        sftp_factory=files,
    )
    options = {
        "sftp_host": "127.0.0.1",
        "sftp_port": listening.get_port(),
        "sftp_user": "courier",
        "sftp_password": PASSWORD,
        "sftp_host_key": key.export_public_key().decode(),
        "exports": "outbox",
    }
    try:
        yield Drop(path, options)
    finally:
        listening.close()
        await listening.wait_closed()


async def test_two_ways_that_begin_at_once_leave_no_line_behind(tmp_path: Path) -> None:
    inside: list[Doorman] = []
    async with courier(tmp_path, inside, asyncssh.SFTPServer) as drop:
        connector = drop.connector()
        await connector.open()
        await connector.close()
        drop.put("fulfillments.csv", ROWS)
        _, said = await asyncio.gather(
            drop.host.pull(connector), connector.push(sample_change(1))
        )
        assert isinstance(said, Applied), said
        assert len(drop.records()) == 2
        await connector.close()
        await until(lambda: not inside, "every connection is closed")


async def test_a_file_is_read_further_although_changes_were_discarded(
    tmp_path: Path,
) -> None:
    inside: list[Doorman] = []
    go, reading = asyncio.Event(), asyncio.Event()
    async with courier(tmp_path, inside, lambda ch: Slow(ch, go, reading)) as drop:
        connector = drop.connector()
        await connector.open()
        drop.put("fulfillments.csv", ROWS)
        pulling = asyncio.ensure_future(drop.host.pull(connector))
        await reading.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await connector.push(sample_change(1))
        go.set()
        await pulling
        assert len(drop.records()) == 2
        assert isinstance(await connector.push(sample_change(1)), Applied)
        await connector.close()
