"""file_drop with a server of Azure Blob Storage that is stopped."""

from __future__ import annotations

import asyncio
import csv
import io
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pytest

from backhaul_connectors.file_drop import FileDrop
from backhaul_connectors.file_drop.files import FolderUnreachable
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk.testing import PullContract
from connectors.dropping import BucketDrop, Killed
from connectors.test_file_drop_claims import (
    FILES,
    ROWS,
    content,
    import_amid_kills,
    orders,
)
from connectors.test_file_drop_contract import DropBench
from connectors.test_file_drop_exports import ExportBench, Exports
from scenes.azurite import SECRET_KEY, Azurite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backhaul_sdk.testing import Failure

pytestmark = pytest.mark.programs

PREFIX = "in"


@dataclass(slots=True, kw_only=True)
class BlobDrop(BucketDrop):
    """A container that is reached through its server alone."""

    server: Azurite

    def put(self, name: str, content: str | bytes) -> Path:
        data = content.encode() if isinstance(content, str) else content
        obstore.put(self.server.blobs(), f"{PREFIX}/{name}", data)
        return Path(name)

    def files(self) -> set[str]:
        return {*self.server.names(PREFIX)}


class AzureBench(Killed, DropBench):
    """A container into which a courier puts blobs."""

    secrets = (SECRET_KEY,)

    def __init__(self, server: Azurite) -> None:
        super().__init__(Path(PREFIX), "fulfillments", "csv")
        self._server: Azurite = server
        self._drop = BlobDrop(Path(PREFIX), server.settings(), server=server)

    def state(self) -> object:
        return self._server.names(PREFIX)


class AzureExports(Killed, ExportBench):
    """A container from which an ERP takes its blobs."""

    secrets = (SECRET_KEY,)

    def __init__(self, server: Azurite) -> None:
        super().__init__(Path(PREFIX), server.settings())
        self._server: Azurite = server
        options = {**server.settings(), "exports": "outbox"}
        self._drop = BlobDrop(Path(PREFIX), options, server=server)

    def state(self) -> object:
        return self._server.names(PREFIX)

    async def effects(self) -> Sequence[int]:
        outbox, server = f"{PREFIX}/outbox", self._server
        texts = [
            server.content(f"{outbox}/{name}").decode("utf-8-sig")
            for name in server.names(outbox)
            if name.endswith(".csv") and not name.startswith(".")
        ]
        return [
            int(next(csv.DictReader(io.StringIO(text)))["order"].lstrip("#")) - 1001
            for text in texts
        ]

    def tries(self) -> int:
        return len(self._server.names(f"{PREFIX}/exported"))

    async def fail(self, failure: Failure) -> None:
        self._server.kill()

    async def recover(self) -> None:
        self._server.start()


@pytest.fixture
def azurite(tmp_path: Path) -> Iterator[Azurite]:
    server = Azurite(tmp_path)
    server.start()
    try:
        server.create_container()
        yield server
    finally:
        server.kill()


class TestAzure(PullContract):
    """Blobs are taken from a real server."""

    @pytest.fixture
    def bench(self, azurite: Azurite) -> AzureBench:
        return AzureBench(azurite)


class TestAzureExports(Exports):
    """Changes are put onto a real server."""

    @pytest.fixture
    def bench(self, azurite: Azurite) -> AzureExports:
        return AzureExports(azurite)


def daemons(server: Azurite) -> tuple[BlobDrop, BlobDrop]:
    """Return two drops on one container, each with a database of its own."""
    options = {**server.settings(), "batch_rows": 10}
    one, other = (
        BlobDrop(Path(PREFIX), dict(options), server=server) for _ in range(2)
    )
    return one, other


async def test_each_blob_is_claimed_by_one_of_two_daemons(azurite: Azurite) -> None:
    both = daemons(azurite)
    names = [f"fulfillments-{number}.csv" for number in range(FILES)]
    for name in names:
        both[0].put(name, content(name))
    for _ in range(2):
        await asyncio.gather(*(drop.pull() for drop in both))
    assert orders(*both) == sorted(f"{name}-{n}" for name in names for n in range(ROWS))
    left = both[0].files() - {".claims/supported"}
    assert left == {f"archive/{name}" for name in names}


async def test_a_kill_anywhere_loses_and_doubles_no_blob(azurite: Azurite) -> None:
    await import_amid_kills(lambda: daemons(azurite))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"folder": "az://none/in"}, "ContainerNotFound: there is no such container"),
        ({"access_key": "nobody"}, "AuthorizationFailure: access is denied; correct"),
        ({"secret_key": b64encode(b"wrong").decode()}, "AuthorizationFailure: access"),
        (
            {"secret_key": "not base64"},
            "secret_key is not the key of a storage account",
        ),
        ({"endpoint": "http://127.0.0.1:1/shop"}, "nothing accepts connections there"),
    ],
    ids=["container", "account", "key", "no key", "endpoint"],
)
async def test_a_wrong_setting_is_explained(
    wrong: dict[str, object], said: str, azurite: Azurite
) -> None:
    settings = Settings.model_validate({**azurite.settings(), **wrong})
    with pytest.raises(FolderUnreachable) as raised:
        await FileDrop("drop", settings).check()
    assert said in str(raised.value)
    assert SECRET_KEY not in str(raised.value)
