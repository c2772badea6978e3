"""A scan that is sent twice counts once; two scans count twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.connect.own_documents import OwnDocuments
from connectors.scanning import OTHER_TOKEN, Dock
from scenes.databases import started_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store import Place
    from backhaul_sdk import Bad, DocumentStore, Receipt, Record

RECEIVE = {"mode": "receive", "code": "LS-S"}


@pytest.fixture
async def documents(database: Place) -> AsyncIterator[DocumentStore]:
    async with started_store(database) as store:
        yield OwnDocuments(store.documents, "dock", lambda: None)


@pytest.fixture
def dock(documents: DocumentStore) -> Dock:
    return Dock(documents=documents)


@pytest.fixture
async def floor(documents: DocumentStore, tmp_path: Path) -> AsyncIterator[Dock]:
    dock = Dock({"folder": tmp_path / "floor"}, documents=documents)
    await dock.open()
    yield dock
    await dock.close()


async def test_a_sequence_number_counts_once_for_ever(dock: Dock) -> None:
    first = await dock.scan(**RECEIVE, sequence=7)
    dock.seconds = 1e6
    dock.scanner()
    again = await dock.scan(**RECEIVE, sequence=7)
    assert len(dock.records()) == 1
    assert (first.status, again.status) == (200, 200)
    assert "scanned before" in str(again.body["what"])


async def test_an_older_version_knew_the_scan_by_the_same_key(dock: Dock) -> None:
    await dock.scan(**RECEIVE, sequence=7, quantity=2)
    await dock.scan(mode="pack", code="1001", sequence="b", trackingCompany="Öst")
    assert [record.key for record in dock.records()] == [
        "scan:dock:7:dcaf4ad602b45616b30ee7d9180ceb05",
        "scan:dock:b:dfce49469d43946557b19e32fc450f2c",
    ]


async def test_each_sequence_number_is_a_scan(dock: Dock) -> None:
    for number in (1, 2, "b7-1"):
        await dock.scan(**RECEIVE, sequence=number)
    await dock.post(b'{"mode": "receive", "code": "LS-S", "sequence": 1}', OTHER_TOKEN)
    assert len(dock.records()) == 4


async def test_numbers_that_begin_again_do_not_swallow_other_scans(dock: Dock) -> None:
    await dock.scan(mode="receive", code="LS-S", sequence=1)
    await dock.scan(mode="receive", code="LS-M", sequence=1)
    assert len(dock.records()) == 2


@pytest.mark.parametrize(
    ("seconds", "counted"), [(0.0, 1), (9.9, 1), (10.0, 2), (3600.0, 2)]
)
async def test_without_number_the_same_scan_counts_once_in_a_while(
    dock: Dock, seconds: float, counted: int
) -> None:
    await dock.scan(**RECEIVE)
    dock.seconds = seconds
    await dock.scan(**RECEIVE)
    assert len(dock.records()) == counted


async def test_the_while_begins_with_the_first_scan(dock: Dock) -> None:
    for seconds in (0.0, 6.0, 12.0):
        dock.seconds = seconds
        await dock.scan(**RECEIVE)
    assert len(dock.records()) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"code": "LS-M"},
        {"mode": "pack", "code": "1001"},
        {"quantity": 2},
        {"order": "1001"},
        {"trackingNumber": "BD1"},
    ],
)
async def test_a_different_scan_counts_at_once(
    dock: Dock, other: dict[str, object]
) -> None:
    await dock.scan(**RECEIVE)
    await dock.scan(**{**RECEIVE, **other})
    assert len(dock.records()) == 2


async def test_a_scan_that_failed_keeps_its_key_until_it_is_answered(
    dock: Dock,
) -> None:
    async def stores_but_fails(record: Record | Bad) -> Receipt:
        await dock.host.emit(record)
        raise TimeoutError

    dock.emit = stores_but_fails
    assert (await dock.scan(**RECEIVE)).status == 503
    dock.emit, dock.seconds = None, 300.0
    assert (await dock.scan(**RECEIVE)).status == 200
    assert len(dock.records()) == 1


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize(("seconds", "counted"), [(0.0, 1), (9.9, 1), (10.0, 2)])
async def test_the_same_scan_is_known_after_a_restart(
    dock: Dock, tmp_path: Path, seconds: float, counted: int, folder: bool
) -> None:
    if folder:
        dock.options["folder"] = tmp_path / "floor"
    await dock.open()
    await dock.scan(**RECEIVE)
    dock.seconds = seconds
    await dock.restart()
    again = await dock.scan(**RECEIVE)
    assert len(dock.records()) == counted
    assert ("scanned before" in str(again.body["what"])) == (counted == 1)


async def test_a_scan_whose_answer_was_lost_in_a_crash_counts_once(floor: Dock) -> None:
    async def stores_but_ends(record: Record | Bad) -> Receipt:
        await floor.host.emit(record)
        raise TimeoutError

    floor.emit = stores_but_ends
    assert (await floor.scan(**RECEIVE)).status == 503
    floor.emit, floor.seconds = None, 300.0
    await floor.restart()
    assert (await floor.scan(**RECEIVE)).status == 200
    assert len(floor.records()) == 1


async def test_packing_an_order_is_known_after_a_restart(
    floor: Dock,
) -> None:
    for _ in range(2):
        await floor.scan(mode="pack", code="1001")
        await floor.restart()
    assert len(floor.records()) == 1


async def test_a_clock_that_was_set_back_swallows_no_later_scan(floor: Dock) -> None:
    floor.seconds = 1e5
    await floor.scan(**RECEIVE)
    await floor.restart()
    floor.seconds = 0.0
    await floor.scan(**RECEIVE)
    assert len(floor.records()) == 2
