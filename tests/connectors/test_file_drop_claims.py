"""Two daemons on one bucket import each file once, also if one of them is killed."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.claims import (
    REPORT_SECONDS,
    TAKEOVER_SECONDS,
    Claims,
)
from backhaul_connectors.file_drop.files import FileChanged, Fingerprint, FoundFile
from backhaul_connectors.file_drop.object_client import ObjectClient
from backhaul_connectors.file_drop.objects import ClaimObjects
from backhaul_connectors.file_drop.parsing import file_kinds
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import CheckFailed, Fulfillment
from backhaul_sdk.testing import cancelled_at
from connectors.dropping import FULFILLMENTS, BucketDrop
from scenes.rclone import Rclone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scenes.object_store import ObjectStore

pytestmark = pytest.mark.programs

ROWS = 30
FILES = 10
MOST_WAITS = 500


def content(name: str) -> str:
    return FULFILLMENTS + "".join(f"{name}-{n},DHL,{name}{n}\n" for n in range(ROWS))


def daemons(store: ObjectStore) -> tuple[BucketDrop, BucketDrop]:
    """Return two drops on one bucket, each with a database of its own."""
    path = store.bucket / "in"
    path.mkdir(exist_ok=True)
    options = {**store.settings(), "batch_rows": 10}
    return BucketDrop(path, dict(options)), BucketDrop(path, dict(options))


def orders(*drops: BucketDrop) -> list[str]:
    """Return the order of each record of all databases."""
    records = (record for drop in drops for record in drop.records())
    return sorted(each.order for each in records if isinstance(each, Fulfillment))


async def test_each_file_is_claimed_by_one_of_two_daemons(
    object_store: ObjectStore,
) -> None:
    both = daemons(object_store)
    names = [f"fulfillments-{number}.csv" for number in range(FILES)]
    for name in names:
        both[0].put(name, content(name))
    for _ in range(2):
        await asyncio.gather(*(drop.pull() for drop in both))
    assert orders(*both) == sorted(f"{name}-{n}" for name in names for n in range(ROWS))
    archived = {path for path in both[0].files() if path.endswith(".csv")}
    assert archived == {f"archive/{name}" for name in names}
    claims = object_store.bucket / "in" / ".claims"
    assert {path.name for path in claims.rglob("*") if path.is_file()} == {"supported"}


async def import_amid_kills(
    daemons: Callable[[], tuple[BucketDrop, BucketDrop]],
) -> None:
    """Kill a daemon at each await of an import, and let the other one take over."""
    taken_over = 0
    for waits in range(MOST_WAITS):
        killed, other = daemons()
        name = f"fulfillments-{waits}.csv"
        killed.put(name, content(name))
        done = await cancelled_at(waits, killed.pull())
        connector = other.connector()
        await connector.open()
        for other.seconds in (0.0, TAKEOVER_SECONDS):
            await other.host.pull(connector)
        taken_over += bool(other.records())
        await killed.pull()
        assert orders(killed, other) == sorted(f"{name}-{n}" for n in range(ROWS))
        assert f"archive/{name}" in killed.files()
        if done:
            assert taken_over
            return
    pytest.fail("it has too many awaits to test")


async def test_a_kill_anywhere_loses_and_doubles_nothing(
    object_store: ObjectStore,
) -> None:
    await import_amid_kills(lambda: daemons(object_store))


def claims_of(store: ObjectStore, drop: BucketDrop) -> Claims:
    """Return the claims of a daemon on the bucket."""
    settings = Settings.model_validate(store.settings())
    client = ClaimObjects(ObjectClient(settings), "in/.claims")
    return Claims(client, lambda: drop.documents, lambda: drop.seconds)


def some_file() -> FoundFile:
    form = file_kinds(Settings.model_validate({"path": "/srv"}))[0]
    return FoundFile("fulfillments.csv", form, Fingerprint(3, 10**9, 7))


async def test_a_daemon_that_was_slow_loses_its_claim(
    object_store: ObjectStore,
) -> None:
    one, other = daemons(object_store)
    slow, fast = claims_of(object_store, one), claims_of(object_store, other)
    file = some_file()
    await slow.open()
    await fast.open()
    await slow.take(file)
    for other.seconds in (0.0, TAKEOVER_SECONDS - 1):
        with pytest.raises(FileChanged):
            await fast.take(file)
    other.seconds = TAKEOVER_SECONDS
    await fast.take(file)
    with pytest.raises(FileChanged):
        await slow.submit(file)
    await fast.submit(file)
    one.seconds = TAKEOVER_SECONDS * 2
    with pytest.raises(FileChanged):
        await slow.take(file)


async def test_a_file_whose_rows_were_submitted_is_never_taken_over(
    object_store: ObjectStore,
) -> None:
    gone, other = daemons(object_store)
    claims, file = claims_of(object_store, gone), some_file()
    await claims.open()
    await claims.take(file)
    await claims.submit(file)
    waiting = claims_of(object_store, other)
    await waiting.open()
    for other.seconds in (0.0, REPORT_SECONDS - 1, REPORT_SECONDS):
        with pytest.raises(FileChanged):
            await waiting.take(file)
        assert bool(waiting.notices()) == (other.seconds == REPORT_SECONDS)
    (notice,) = waiting.notices()
    assert notice.startswith("fulfillments.csv is not read: the daemon on ")
    restarted = claims_of(object_store, gone)
    await restarted.open()
    await restarted.take(file)


async def test_a_copy_made_before_a_kill_is_used(object_store: ObjectStore) -> None:
    drop, _ = daemons(object_store)
    drop.put("fulfillments.csv", content("a"))
    connector = drop.connector()
    await connector.open()
    async for batch in connector.pull(None):
        drop.host.commit(batch)
    (drop.path / "archive").mkdir()
    shutil.copyfile(
        drop.path / "fulfillments.csv", drop.path / "archive/fulfillments.csv"
    )
    await drop.pull()
    assert len(drop.records()) == ROWS
    assert [path for path in drop.files() if path.endswith(".csv")] == [
        "archive/fulfillments.csv"
    ]


@pytest.fixture
def careless(tmp_path: Path) -> Iterator[dict[str, object]]:
    """A store that overwrites an object although the request forbids that."""
    server = Rclone(tmp_path)
    (server.root / "drop/in").mkdir(parents=True)
    server.start()
    yield server.settings()
    server.kill()


async def test_a_store_without_conditional_writes_is_refused(
    careless: dict[str, object], tmp_path: Path
) -> None:
    drop = BucketDrop(tmp_path / "data/drop/in", careless)
    drop.put("fulfillments.csv", content("a"))
    with pytest.raises(CheckFailed, match=r"ignores If-None-Match.*claims = false"):
        await drop.connector().open()
    drop.options["claims"] = False
    connector = drop.connector()
    await connector.open()
    await drop.host.pull(connector)
    assert orders(drop) == sorted(f"a-{n}" for n in range(ROWS))
