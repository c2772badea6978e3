"""file_drop with an S3 server that is killed, and with a second daemon."""

from __future__ import annotations

import pytest

from backhaul_connectors.file_drop.output_files import file_name
from backhaul_sdk import Absent, Found, Unknown
from backhaul_sdk.testing import PullContract, sample_change
from connectors.dropping import FULFILLMENTS, BucketDrop, Killed, rejection_of
from connectors.test_file_drop_contract import DropBench
from connectors.test_file_drop_exports import ExportBench, Exports
from scenes.object_store import SECRET_KEY, ObjectStore

pytestmark = pytest.mark.programs

ROWS = f"{FULFILLMENTS}1001,DHL,A\n1002,DHL,B\n"


class S3Bench(Killed, DropBench):
    """A bucket into which a courier puts objects."""

    secrets = (SECRET_KEY,)

    def __init__(self, server: ObjectStore) -> None:
        path = server.bucket / "in"
        path.mkdir()
        super().__init__(path, "fulfillments", "csv")
        self._server = server
        self._drop = BucketDrop(path, server.settings())


class S3Exports(Killed, ExportBench):
    """A bucket from which an ERP takes its objects."""

    secrets = (SECRET_KEY,)

    def __init__(self, server: ObjectStore) -> None:
        path = server.bucket / "in"
        for folder in ("outbox", "exported"):
            (path / folder).mkdir(parents=True)
        super().__init__(path, server.settings())
        self._server = server
        self._drop = BucketDrop(path, {**server.settings(), "exports": "outbox"})


class TestS3(PullContract):
    """Objects are taken from a real server."""

    @pytest.fixture
    def bench(self, object_store: ObjectStore) -> S3Bench:
        return S3Bench(object_store)


class TestS3Exports(Exports):
    """Changes are put onto a real server."""

    @pytest.fixture
    def bench(self, object_store: ObjectStore) -> S3Exports:
        return S3Exports(object_store)


@pytest.fixture
def drop(object_store: ObjectStore) -> BucketDrop:
    path = object_store.bucket / "in"
    path.mkdir()
    return BucketDrop(path, {**object_store.settings(), "exports": "outbox"})


async def test_files_are_moved_and_rejected_rows_put_there(drop: BucketDrop) -> None:
    connector = drop.connector()
    await connector.open()
    for number in (1, 2):
        drop.put("fulfillments.csv", f"{ROWS},DHL,{number}\n")
        await drop.host.pull(connector)
    drop.put("cancellations.csv", "nothing,of,use\n1,2,3\n")
    await drop.host.pull(connector)
    for _ in range(2):
        await connector.report([rejection_of(bad) for bad in drop.host.bad.values()])
    assert len(drop.records()) == 2
    assert drop.files() == {
        ".claims/supported",
        "archive/fulfillments.csv",
        "archive/fulfillments-2.csv",
        "held/cancellations.csv",
        "held/cancellations.csv.reason.txt",
        "rejected/fulfillments.rejected.csv",
    }


async def test_an_object_that_replaced_a_read_one_stays(drop: BucketDrop) -> None:
    drop.put("fulfillments.csv", ROWS)
    connector = drop.connector()
    await connector.open()
    async for batch in connector.pull(None):
        drop.host.commit(batch)
        drop.put("fulfillments.csv", f"{ROWS}1003,DHL,C\n")
        await batch.ack()
    assert (drop.path / "fulfillments.csv").exists()
    assert not [path for path in drop.files() if path.startswith("archive/")]
    await drop.host.pull(connector)
    assert len(drop.records()) == 3
    assert (drop.path / "archive/fulfillments.csv").read_text().endswith("1003,DHL,C\n")


async def test_an_object_is_read_at_once_although_its_end_is_missing(
    drop: BucketDrop,
) -> None:
    drop.options |= {"unchanged_seconds": 60, "incomplete_seconds": 60}
    drop.put("fulfillments.csv", ROWS.rstrip())
    await drop.pull()
    assert len(drop.records()) == 2


async def test_a_publication_that_was_cut_off_is_not_guessed(drop: BucketDrop) -> None:
    connector, change = drop.connector(), sample_change(1)
    await connector.open()
    assert await connector.lookup(change) == Absent()
    await connector.push(change)
    name = file_name(change, "csv")
    final = drop.path / "outbox" / name
    temporary, begun = (final.with_name(f".{name}.{end}") for end in ("tmp", "begun"))
    assert not temporary.exists()
    assert not begun.exists()
    temporary.write_bytes(final.read_bytes())
    begun.touch()
    assert await connector.lookup(change) == Found(name)
    final.unlink()
    assert isinstance(await connector.lookup(change), Unknown)
    begun.unlink()
    assert await connector.lookup(change) == Absent()
    temporary.unlink()
    assert await connector.lookup(change) == Found(name)
