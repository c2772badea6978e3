"""Orders that are picked and articles that are counted, across restarts."""

from __future__ import annotations

import asyncio
import csv
from typing import TYPE_CHECKING

import pytest

from backhaul.connect.own_documents import OwnDocuments
from backhaul.core.clock import SystemClock
from backhaul.store import database_at
from backhaul_sdk import Fulfillment, Line, Receipt, StockAdjustment, StockLevel
from connectors.scanning import OTHER_TOKEN, Dock
from scenes.databases import started_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store import Place, Store
    from backhaul_sdk import Bad, Record

SSCC = "106141412345678908"


@pytest.fixture
async def store(database: Place) -> AsyncIterator[Store]:
    async with started_store(database) as started:
        yield started


def at_home(store: Store, tmp_path: Path) -> Dock:
    """Return a dock whose scanner keeps its documents in a real store."""
    documents = OwnDocuments(store.documents, "dock", lambda: None)
    return Dock({"folder": tmp_path / "floor"}, documents=documents)


@pytest.fixture
async def dock(store: Store, tmp_path: Path) -> AsyncIterator[Dock]:
    dock = at_home(store, tmp_path)
    await dock.open()
    yield dock
    await dock.close()


async def said(dock: Dock, code: str, **members: object) -> str:
    """Scan, and return what an accepting answer says."""
    answer = await dock.scan(code=code, **members)
    assert answer.status == 200, answer.body
    return str(answer.body["what"])


async def pick(dock: Dock, *codes: str) -> None:
    for code in codes:
        await said(dock, code, mode="pick", sequence=f"{code}-{len(dock.sent)}")


def shipped(dock: Dock) -> list[tuple[str, tuple[Line, ...]]]:
    found = [r for r in dock.records() if isinstance(r, Fulfillment)]
    assert len(found) == len(dock.records())
    return [(record.order, record.lines) for record in found]


async def test_an_order_is_picked_into_one_shipment(dock: Dock) -> None:
    await pick(dock, "1001", "A", "B", "A")
    assert dock.records() == []
    assert await said(dock, "BH-CLOSE") == "order 1001 finished with 3 units"
    lines = (Line(sku="A", quantity=2), Line(sku="B", quantity=1))
    assert shipped(dock) == [("1001", lines)]


async def test_the_orders_own_number_finishes_it(dock: Dock) -> None:
    await pick(dock, "#1001", "A", "1001", "1002", "B", "1002")
    assert [order for order, _ in shipped(dock)] == ["#1001", "1002"]


async def test_a_restart_keeps_collected_scans(dock: Dock) -> None:
    await pick(dock, "1001", "A")
    await dock.restart()
    await pick(dock, "B")
    await dock.restart()
    await said(dock, "BH-CLOSE")
    ((order, lines),) = shipped(dock)
    assert (order, {line.sku for line in lines}) == ("1001", {"A", "B"})


async def test_devices_and_orders_are_kept_apart(dock: Dock) -> None:
    await pick(dock, "1001", "A")
    await dock.post(b'{"mode": "pick", "code": "1002"}', OTHER_TOKEN)
    await dock.post(b'{"mode": "pick", "code": "B"}', OTHER_TOKEN)
    await said(dock, "BH-CLOSE")
    assert shipped(dock) == [("1001", (Line(sku="A", quantity=1),))]


async def test_packing_an_order_ships_units_picked_with_any_device(
    dock: Dock,
) -> None:
    await pick(dock, "1001", "A")
    await dock.post(b'{"mode": "pick", "code": "B", "order": "1001"}', OTHER_TOKEN)
    await said(dock, "1001", mode="pack", trackingCompany="X", trackingNumber="BD1")
    (record,) = dock.records()
    assert isinstance(record, Fulfillment)
    assert (record.tracking_company, record.tracking_number) == ("X", "BD1")
    assert record.lines == (Line(sku="A", quantity=1), Line(sku="B", quantity=1))


async def test_units_of_one_article_that_two_devices_picked_are_added(
    dock: Dock,
) -> None:
    picked = b'{"mode": "pick", "code": "A", "order": "1001", "sequence": 1}'
    await pick(dock, "1001", "B", "A")
    await dock.post(picked, OTHER_TOKEN)
    await said(dock, "1001", mode="pack")
    lines = (Line(sku="B", quantity=1), Line(sku="A", quantity=2))
    assert shipped(dock) == [("1001", lines)]
    again = await dock.post(picked, OTHER_TOKEN)
    assert "scanned before" in str(again.body["what"])


async def test_articles_packed_for_an_order_leave_in_one_parcel(dock: Dock) -> None:
    await said(dock, "A", mode="pack", order="1001", quantity=2)
    await said(dock, "B", mode="pack", order="1001")
    await said(dock, SSCC, mode="pack", order="1001")
    (record,) = dock.records()
    assert isinstance(record, Fulfillment)
    assert record.tracking_number == f"00{SSCC}"
    assert record.lines == (Line(sku="A", quantity=2), Line(sku="B", quantity=1))


async def test_an_order_without_picks_is_packed_whole(dock: Dock) -> None:
    await said(dock, "1001", mode="pack")
    assert shipped(dock) == [("1001", ())]


async def test_a_parcels_label_is_its_tracking_number(dock: Dock) -> None:
    await pick(dock, "1001", "A", SSCC)
    await said(dock, "BH-CLOSE")
    (record,) = dock.records()
    assert isinstance(record, Fulfillment)
    assert record.tracking_number == f"00{SSCC}"


async def test_printed_codes_set_the_mode_of_a_device(dock: Dock) -> None:
    await said(dock, "bh-receive")
    assert await said(dock, "A") == "1 x A received"
    await said(dock, "BH-PICK")
    await said(dock, "1001")
    await dock.restart()
    assert "1 x B for order 1001" in await said(dock, "B")
    assert [type(record) for record in dock.records()] == [StockAdjustment]


async def test_giving_up_ships_nothing(dock: Dock) -> None:
    await pick(dock, "1001", "A")
    assert await said(dock, "BH-DROP") == "order 1001 dropped"
    assert (await dock.scan(code="BH-CLOSE")).status == 422
    await pick(dock, "1001", "B", "1001")
    assert shipped(dock) == [("1001", (Line(sku="B", quantity=1),))]


@pytest.mark.parametrize(
    ("before", "scan", "why"),
    [
        ([], "BH-CLOSE", "no order or count is open on dock"),
        ([], "BH-DROP", "no order or count is open on dock"),
        (["1001"], "BH-CLOSE", "nothing was scanned yet"),
        (["1001"], "4006381333932", "check digit of 4006381333932"),
    ],
)
async def test_a_scan_that_makes_no_sense_is_refused(
    dock: Dock, before: list[str], scan: str, why: str
) -> None:
    await pick(dock, *before)
    answer = await dock.scan(mode="pick", code=scan)
    assert (answer.status, dock.records()) == (422, [])
    assert why in str(answer.body["what"])


async def test_each_numbered_scan_counts_once(dock: Dock) -> None:
    await pick(dock, "1001")
    for number in (1, 1, 2, 1):
        await said(dock, "A", mode="pick", sequence=number)
    await dock.restart()
    assert "scanned before" in await said(dock, "A", mode="pick", sequence=2)
    await said(dock, "BH-CLOSE", sequence=3)
    assert "scanned before" in await said(dock, "BH-CLOSE", sequence=3)
    assert shipped(dock) == [("1001", (Line(sku="A", quantity=2),))]


async def test_a_numbered_scan_without_mode_counts_once_whatever_came_after_it(
    dock: Dock,
) -> None:
    """A device that sends without waiting may send several scans again."""
    scans = ("BH-PICK", "1001", "A", "BH-CLOSE", "BH-RECEIVE", "B", "BH-PICK")
    for _ in range(2):
        for number, code in enumerate(scans):
            await said(dock, code, sequence=number)
        await dock.restart()
    shipment, receipt = dock.records()
    assert isinstance(shipment, Fulfillment)
    assert shipment.lines == (Line(sku="A", quantity=1),)
    assert isinstance(receipt, StockAdjustment)
    assert (receipt.sku, receipt.delta) == ("B", 1)


@pytest.mark.parametrize(("seconds", "units"), [(9.0, 1), (11.0, 2)])
async def test_without_numbers_an_article_counts_once_in_a_while(
    dock: Dock, seconds: float, units: int
) -> None:
    for code in ("1001", "A"):
        await said(dock, code, mode="pick")
    dock.seconds = seconds
    await said(dock, "A", mode="pick")
    await said(dock, "BH-CLOSE")
    assert shipped(dock) == [("1001", (Line(sku="A", quantity=units),))]


async def test_a_double_beep_does_not_begin_a_finished_order_again(dock: Dock) -> None:
    for code in ("1001", "A", "1001"):
        await said(dock, code, mode="pick")
    assert "just finished" in await said(dock, "1001", mode="pick")
    await said(dock, "1002", mode="pick")
    await said(dock, "B", mode="pick")
    await said(dock, "BH-CLOSE")
    assert [order for order, _ in shipped(dock)] == ["1001", "1002"]


async def test_a_finished_order_that_the_host_cannot_accept_is_emitted_later(
    dock: Dock,
) -> None:
    async def full(record: Record | Bad) -> Receipt:
        raise OSError("no space left")

    submitted: list[Record | Bad] = []

    async def take(record: Record | Bad) -> Receipt:
        submitted.append(record)
        return await dock.host.emit(record)

    await pick(dock, "1001", "A")
    dock.emit = full
    assert (await dock.scan(code="BH-CLOSE", sequence=9)).status == 503
    dock.emit = take
    await dock.restart()
    await dock.pull()
    assert shipped(dock) == [("1001", (Line(sku="A", quantity=1),))]
    await said(dock, "BH-CLOSE", sequence=9)
    await dock.pull()
    assert len(submitted) == 1


async def test_a_finished_order_that_is_quarantined_is_refused_each_time(
    dock: Dock,
) -> None:
    async def refuse(record: Record | Bad) -> Receipt:
        return Receipt("quarantined", "order 1001 has 0 open of SKU 'A', not 1")

    await pick(dock, "1001", "A")
    dock.emit = refuse
    for _ in range(2):
        answer = await dock.scan(code="BH-CLOSE", sequence=9)
        assert answer.status == 422
        assert "has 0 open" in str(answer.body["what"])


async def test_a_count_is_a_file_for_an_operator_and_sets_no_stock(dock: Dock) -> None:
    for code in ("A", "A", "=B", "A"):
        await said(dock, code, mode="count")
    await dock.restart()
    await said(dock, "C", mode="count", quantity=12)
    assert "stock is unchanged" in await said(dock, "BH-CLOSE")
    assert dock.records() == []
    (file,) = (dock.options["folder"] / "counts").iterdir()
    with file.open(encoding="utf-8", newline="") as stream:
        found = list(csv.reader(stream))
    assert found == [["sku", "quantity"], ["A", "3"], ["'=B", "1"], ["C", "12"]]


@pytest.mark.parametrize("mode", ["pick", "pack", "receive", "count"])
async def test_no_scan_sets_stock_to_a_level(dock: Dock, mode: str) -> None:
    for code in ("1001", "A", "1001", "BH-CLOSE"):
        await dock.scan(mode=mode, code=code, quantity=5, stock=7, level=9)
        await dock.scan(mode=mode, code=code)
    assert [r for r in dock.records() if isinstance(r, StockLevel)] == []


async def test_a_scan_that_could_not_be_kept_is_not_acknowledged(
    dock: Dock, store: Store
) -> None:
    await pick(dock, "1001")
    await store.stop()
    assert (await dock.scan(mode="pick", code="A")).status == 503


async def test_a_backup_has_all_acknowledged_scans(tmp_path: Path) -> None:
    file, backup = tmp_path / "backhaul.db", tmp_path / "backup.db"
    async with started_store(file) as store:
        dock = at_home(store, tmp_path)
        await dock.open()
        await pick(dock, "1001", "A")
        await asyncio.to_thread(database_at(file).back_up, backup, SystemClock())
        await pick(dock, "B")
        await dock.close()
    async with started_store(backup) as restored:
        dock = at_home(restored, tmp_path)
        await dock.open()
        await said(dock, "BH-CLOSE")
        await dock.close()
    assert shipped(dock) == [("1001", (Line(sku="A", quantity=1),))]
