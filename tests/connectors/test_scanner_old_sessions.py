"""Sessions of version 0.1.0, which were in a separate file, continue."""

from __future__ import annotations

import csv
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from backhaul.errors import BackhaulError, Busy
from backhaul_connectors.scanner import old_sessions
from backhaul_connectors.scanner.old_sessions import FILE, MOVED, move_old_sessions
from backhaul_sdk import Fulfillment, Line, StockAdjustment
from connectors.scanning import OTHER_TOKEN, Dock
from scenes.back_office import ScriptedConnector, host_of
from scenes.databases import started_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from backhaul.store import Place, Store
    from backhaul_sdk import Documents, DocumentStore
    from backhaul_sdk.database import ReadSqlite

T = TypeVar("T")
MADE_BY_0_1_0 = Path(__file__).with_name("cases") / "scanner-sessions-0.1.0.sql"
"""Order 1000 was done, 1002 complete and not stored, 1003 refused and 1001 open; `belt`
counted, and was set to receive. A scan of `R` had no answer."""


def make_file(folder: Path) -> None:
    """Make the file as a killed daemon left it: all is in the log beside it."""
    folder.mkdir()
    origin = folder / "origin.db"
    with closing(sqlite3.connect(origin)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(MADE_BY_0_1_0.read_text("utf-8"))
        for suffix in ("", "-wal"):
            shutil.copy(f"{origin}{suffix}", folder / f"{FILE}{suffix}")
    origin.unlink()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "floor"
    make_file(folder)
    return folder


@pytest.fixture
async def store(database: Place) -> AsyncIterator[Store]:
    async with started_store(database) as started:
        yield started


@pytest.fixture
async def dock(store: Store, folder: Path) -> AsyncIterator[Dock]:
    """A scanner with the documents of a real host, which has read the file."""
    dock = Dock({"folder": folder})
    scanner = dock.scanner()
    host_of(scanner, store)
    dock.documents = scanner.documents
    await scanner.open()
    await scanner.listen(dock.host.emit)
    yield dock
    await dock.close()


def host_services(store: Store) -> tuple[DocumentStore, ReadSqlite]:
    desk = ScriptedConnector()
    host_of(desk, store)
    return desk.documents, desk.read_sqlite


async def contents(documents: DocumentStore) -> list[tuple[str, bytes]]:
    return await documents.transact(lambda each: list(each.list("")))


async def test_an_open_order_goes_on(dock: Dock) -> None:
    refused = await dock.scan(code="C", sequence=11)
    assert "order 1001 has no SKU C" in str(refused.body["what"]), refused.body
    answer = await dock.scan(code="BH-CLOSE")
    assert answer.body["what"] == "order 1001 finished with 3 units"
    (record,) = dock.records()
    assert isinstance(record, Fulfillment)
    assert record.key == "picked:95eafd3644eb9595a6e16c5c"
    assert record.lines == (Line(sku="B", quantity=1), Line(sku="A", quantity=2))
    assert record.tracking_number == "1Z999AA10123456784"


async def test_a_complete_order_is_submitted_under_its_key(dock: Dock) -> None:
    for _ in range(2):
        await dock.pull()
    (record,) = dock.records()
    assert isinstance(record, Fulfillment)
    assert record.key == "picked:5ce7f9c4fcf2a5a8266ba717"
    assert record.lines == (Line(sku="D", quantity=2),)


async def test_an_unfinished_count_goes_on(dock: Dock, folder: Path) -> None:
    await dock.post(b'{"mode": "count", "code": "E"}', OTHER_TOKEN)
    await dock.post(b'{"mode": "count", "code": "BH-CLOSE"}', OTHER_TOKEN)
    (file,) = (folder / "counts").iterdir()
    assert file.name == "000004-belt-295f606e.csv"
    with file.open(encoding="utf-8", newline="") as stream:
        assert list(csv.reader(stream))[1:] == [["E", "3"], ["F", "12"]]


@pytest.mark.parametrize(
    ("scan", "status", "what"),
    [
        ({"mode": "pick", "code": "C", "sequence": 2}, 200, "scanned before"),
        ({"code": "BH-CLOSE", "sequence": 3}, 200, "scanned before"),
        ({"code": "BH-CLOSE", "sequence": 6}, 200, "order 1002 finished with 2 units"),
        ({"code": "BH-CLOSE", "sequence": 9}, 422, "has 0 open of SKU"),
        ({"code": "A", "sequence": 10}, 200, "scanned before"),
    ],
)
async def test_a_scan_that_comes_again_is_known(
    dock: Dock, scan: dict[str, object], status: int, what: str
) -> None:
    answer = await dock.scan(**scan)
    assert answer.status == status
    assert what in str(answer.body["what"])


async def test_a_numbered_command_is_known(dock: Dock) -> None:
    answer = await dock.post(b'{"code": "BH-RECEIVE", "sequence": "r"}', OTHER_TOKEN)
    assert "scanned before" in str(answer.body["what"])


async def test_an_unanswered_scan_keeps_its_key(dock: Dock) -> None:
    await dock.scan(mode="receive", code="R")
    (record,) = dock.records()
    assert isinstance(record, StockAdjustment)
    assert record.key == "scan:dock:eaa6334c7dd5d0d25e6f431694f5a06c"


async def test_new_sessions_go_on_counting(dock: Dock, folder: Path) -> None:
    for code in ("A", "BH-CLOSE"):
        await dock.scan(mode="count", code=code)
    (file,) = (folder / "counts").iterdir()
    assert file.name.startswith("000006-dock-")


async def test_the_file_is_read_once(dock: Dock, folder: Path) -> None:
    found = [(folder / name).exists() for name in (MOVED, f"{MOVED}-wal", FILE)]
    assert found == [True, True, False]
    await dock.scan(code="BH-DROP")
    # It would bring the dropped order back.
    (folder / MOVED).rename(folder / FILE)
    await dock.restart()
    assert not (folder / FILE).exists()
    assert (await dock.scan(code="BH-DROP")).status == 422


class Interrupted:
    """Documents whose host ends after so many transactions."""

    def __init__(self, inner: DocumentStore, left: int) -> None:
        self._inner = inner
        self._left = left

    def transact(self, work: Callable[[Documents], T]) -> Awaitable[T]:
        self._left -= 1
        if self._left < 0:
            raise Busy("the database is closed")
        return self._inner.transact(work)


async def test_an_interrupted_move_begins_again_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_sessions, "AT_ONCE", 2)
    found: list[Any] = []
    for transactions in range(100):
        folder = tmp_path / f"{transactions}"
        make_file(folder)
        async with started_store(folder / "backhaul.db") as store:
            documents, read = host_services(store)
            try:
                interrupted = Interrupted(documents, transactions)
                await move_old_sessions(folder, interrupted, read)
            except Busy:
                assert (folder / FILE).exists()
                await move_old_sessions(folder, documents, read)
                found.append(await contents(documents))
            else:
                whole = await contents(documents)
                break
    assert len(found) > 10
    assert [each for each in found if each != whole] == []


async def test_a_file_that_cannot_be_read_is_named_and_stays(
    store: Store, folder: Path
) -> None:
    (folder / f"{FILE}-wal").unlink()
    (folder / FILE).write_text("no database")
    with pytest.raises(BackhaulError, match=FILE):
        await move_old_sessions(folder, *host_services(store))
    assert (folder / FILE).exists()
