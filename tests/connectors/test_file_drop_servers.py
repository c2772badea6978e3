"""file_drop with a WebDAV server and an FTP server that are killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.file_drop import FileDrop
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import CheckFailed
from backhaul_sdk.testing import PullContract
from connectors.dropping import (
    FULFILLMENTS,
    Drop,
    Killed,
    rejection_of,
    swap_while_it_is_archived,
)
from connectors.test_file_drop_contract import DropBench
from connectors.test_file_drop_exports import ExportBench, Exports
from scenes.certificates import of_an_authority
from scenes.file_server import PASSWORD, FileServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from backhaul_sdk import Connector

pytestmark = pytest.mark.programs

ROWS = f"{FULFILLMENTS}1001,DHL,A\n1002,DHL,B\n"


class ServerBench(Killed, DropBench):
    """A folder on a server to which couriers write, and so do we."""

    secrets = (PASSWORD,)

    def __init__(self, server: FileServer) -> None:
        super().__init__(server.drop, "fulfillments", "csv")
        self._server = server
        self._drop.options |= server.settings()
        self.made: list[Connector[Any]] = []

    def connector(self) -> FileDrop:
        self.made.append(found := super().connector())
        return found


class ServerExports(Killed, ExportBench):
    """A folder on a server from which an ERP takes its files."""

    secrets = (PASSWORD,)

    def __init__(self, server: FileServer) -> None:
        super().__init__(server.drop, server.settings())
        self._server = server


@pytest.fixture(params=["webdav", "ftp"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FileServer]:
    started = FileServer(tmp_path, request.param)
    started.start()
    yield started
    started.kill()


class TestServer(PullContract):
    """Files are taken from a real server."""

    @pytest.fixture
    async def bench(self, server: FileServer) -> AsyncIterator[ServerBench]:
        made = ServerBench(server)
        yield made
        for connector in made.made:
            await connector.close()


class TestServerExports(Exports):
    """Changes are put onto a real server."""

    @pytest.fixture
    async def bench(self, server: FileServer) -> AsyncIterator[ServerExports]:
        made = ServerExports(server)
        yield made
        await made.close()


async def test_files_are_moved_and_rejected_rows_put_there(server: FileServer) -> None:
    drop = Drop(server.drop, server.settings())
    connector = drop.connector()
    await connector.open()
    for number in (1, 2):
        drop.put("fulfillments.csv", f"{ROWS},DHL,{number}\n")
        await drop.host.pull(connector)
    drop.put("cancellations.csv", "nothing,of,use\n1,2,3\n")
    await drop.host.pull(connector)
    for _ in range(2):
        await connector.report([rejection_of(bad) for bad in drop.host.bad.values()])
    await connector.close()
    assert len(drop.records()) == 2
    assert drop.files() == {
        "archive/fulfillments.csv",
        "archive/fulfillments-2.csv",
        "held/cancellations.csv",
        "held/cancellations.csv.reason.txt",
        "rejected/fulfillments.rejected.csv",
    }
    rejected = drop.path / "rejected/fulfillments.rejected.csv"
    assert rejected.read_text("utf-8-sig").count("DHL") == 2


async def test_a_file_swapped_while_it_is_archived_stays(server: FileServer) -> None:
    later = f"{FULFILLMENTS}1002,BlueDart,B\n"
    await swap_while_it_is_archived(Drop(server.drop, server.settings()), later)


async def problem(options: dict[str, object]) -> str:
    connector = FileDrop("drop", Settings.model_validate(options))
    with pytest.raises(CheckFailed) as found:
        await connector.check()
    await connector.close()
    assert PASSWORD not in str(found.value)
    return str(found.value)


async def test_problems_are_explained(server: FileServer) -> None:
    options = server.settings()
    said = await problem(options | {"password": "wrong"})
    assert "correct user and password" in said
    said = await problem(options | {"folder": f"{options['folder']}/none"})
    assert "/none is not a folder on the server; create the folder" in said
    server.kill()
    assert "cannot be reached" in await problem(options)


@pytest.mark.parametrize("protocol", ["webdav", "ftp"])
async def test_a_certificate_is_trusted_only_by_setting(
    tmp_path: Path, protocol: str
) -> None:
    authority, certificate, key = of_an_authority(tmp_path)
    server = FileServer(tmp_path, protocol, certificate, key)
    server.start()
    try:
        assert "set ca_file" in await problem(server.settings())
        drop = Drop(server.drop, server.settings() | {"ca_file": authority})
        drop.put("fulfillments.csv", ROWS)
        connector = drop.connector()
        await connector.open()
        await drop.host.pull(connector)
        await connector.close()
    finally:
        server.kill()
    assert len(drop.records()) == 2
    assert drop.files() == {"archive/fulfillments.csv"}
