"""How long a device may keep unsent scans, and the scans of a lost device."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.scanner.settings import Settings, read_devices
from backhaul_sdk import CheckFailed, StockAdjustment
from connectors.scanning import DEVICES, OTHER_TOKEN, TOKEN, Dock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DAY_SECONDS = 86_400
BEGIN = 1e9
"""What the dock's clock shows at first, in seconds since 1970."""
SCANNED = datetime.fromtimestamp(BEGIN, UTC).isoformat()


@pytest.fixture
async def dock(tmp_path: Path) -> AsyncIterator[Dock]:
    dock = Dock({"folder": tmp_path / "floor", "max_age_days": 3})
    await dock.open()
    yield dock
    await dock.close()


async def test_a_scan_may_wait_as_long_as_the_setting_says(dock: Dock) -> None:
    dock.seconds = 3 * DAY_SECONDS
    answer = await dock.scan(mode="receive", code="A", sequence=1, at=SCANNED)
    assert answer.status == 200
    assert len(dock.records()) == 1


@pytest.mark.parametrize("number", [{"sequence": 1}, {}])
async def test_an_older_scan_goes_to_quarantine_with_its_values(
    dock: Dock, number: dict[str, int]
) -> None:
    dock.seconds = 3 * DAY_SECONDS + 60
    scan = {"mode": "receive", "code": "A", "quantity": 7, "at": SCANNED, **number}
    answer = await dock.scan(**scan)
    assert answer.status == 422
    said = str(answer.body["what"])
    assert "A was scanned 3.0 days ago (2001-09-09T01:46:40Z)" in said
    assert "the oldest accepted time was 2001-09-09T01:47:40Z" in said
    assert dock.records() == []
    (bad,) = dock.host.bad.values()
    assert bad.kind == "adjust"
    assert {name: value.text for name, value in bad.read.items()} == {
        "sku": "A",
        "delta": "7",
        "reason": "RECEIVED",
    }
    await dock.scan(**scan)
    assert len(dock.host.bad) == 1


async def test_an_old_order_can_be_packed_from_the_quarantine(dock: Dock) -> None:
    dock.seconds = 4 * DAY_SECONDS
    await dock.scan(mode="pack", code="1001", trackingNumber="BD1", at=SCANNED)
    (bad,) = dock.host.bad.values()
    assert bad.kind == "fulfill"
    assert bad.read["order"].text == "1001"
    assert bad.read["tracking_number"].text == "BD1"
    assert bad.read["everything"].text == "true"


async def test_an_old_scan_that_was_stored_in_time_is_known(dock: Dock) -> None:
    """Its answer was lost, and its device was away since then."""
    receive = {"mode": "receive", "code": "A", "sequence": 1, "at": SCANNED}
    count = {"mode": "count", "code": "B", "sequence": 2, "at": SCANNED}
    for scan in (receive, count):
        assert (await dock.scan(**scan)).status == 200
    dock.seconds = 30 * DAY_SECONDS
    for scan in (receive, count):
        answer = await dock.scan(**scan)
        assert answer.status == 200
        assert "scanned before" in str(answer.body["what"])
    records = dock.records()
    assert [r.sku for r in records if isinstance(r, StockAdjustment)] == ["A"]
    closed = await dock.scan(mode="count", code="BH-CLOSE", sequence=3)
    assert "the count of 1 SKU" in str(closed.body["what"])


async def test_an_old_code_is_not_added_to_an_order(dock: Dock) -> None:
    dock.seconds = 4 * DAY_SECONDS
    await dock.scan(mode="pick", code="1001", sequence=1)
    answer = await dock.scan(mode="pick", code="A", sequence=2, at=SCANNED)
    assert answer.status == 422
    closed = await dock.scan(mode="pick", code="BH-CLOSE", sequence=3)
    assert closed.status == 422
    assert dock.records() == []


async def test_codes_after_an_expired_order_are_not_picked_for_another(
    dock: Dock,
) -> None:
    """Offline amid a pick; only the next order's last scans come in time."""
    await dock.scan(mode="pick", code="1001", sequence=1)
    await dock.scan(mode="pick", code="A", sequence=2)
    dock.seconds = 4 * DAY_SECONDS
    late = ["B", "BH-CLOSE", "1002"]
    expired = [
        await dock.scan(mode="pick", code=code, sequence=number, at=SCANNED)
        for number, code in enumerate(late, 3)
    ]
    assert [answer.status for answer in expired] == [422, 422, 422]
    refused = await dock.scan(mode="pick", code="C", sequence=6)
    assert refused.status == 422
    assert "scan the order's number" in str(refused.body["what"])
    closed = await dock.scan(mode="pick", code="BH-CLOSE", sequence=7)
    assert closed.status == 422
    assert dock.records() == []
    first, last = dock.host.bad.values()
    assert "order 1001 stays open with 1 unit: scan 1001 to continue" in first.reason
    assert "1001" not in last.reason
    resumed = await dock.scan(mode="pick", code="1001", sequence=8)
    assert "order 1001 resumed, 1 unit so far" in str(resumed.body["what"])


async def test_an_expired_scan_of_a_count_ends_the_count(dock: Dock) -> None:
    for number, code in enumerate(["A", "A", "B"]):
        await dock.scan(mode="count", code=code, sequence=number)
    dock.seconds = 4 * DAY_SECONDS
    late = {"mode": "count", "code": "C", "sequence": 3, "at": SCANNED}
    assert (await dock.scan(**late)).status == 422
    closed = await dock.scan(mode="count", code="BH-CLOSE", sequence=4)
    assert "no order or count is open" in str(closed.body["what"])
    (bad,) = dock.host.bad.values()
    assert "The open count of dock (3 units of 2 SKUs) is discarded" in bad.reason
    assert bad.raw.endswith("\ndiscarded with it:\nA 2\nB 1")
    dock.host.bad.clear()
    await dock.scan(**late)
    assert list(dock.host.bad.values()) == [bad]


@pytest.mark.parametrize("number", [{"sequence": 9}, {}])
async def test_an_expired_end_of_a_count_says_what_it_discards(
    dock: Dock, number: dict[str, int]
) -> None:
    await dock.scan(code="BH-COUNT")
    await dock.scan(code="A", quantity=5)
    dock.seconds = 4 * DAY_SECONDS
    close = {"code": "BH-CLOSE", "at": SCANNED, **number}
    answers = [await dock.scan(**close), await dock.scan(**close)]
    for answer in answers:
        assert answer.status == 422
        said = str(answer.body["what"])
        assert "The open count of dock (5 units of 1 SKU) is discarded" in said
    assert dock.host.bad == {}
    begun = await dock.scan(code="B")
    assert str(begun.body["what"]) == "1 x B for the count, 1 so far"
    closed = await dock.scan(code="BH-CLOSE")
    assert "the count of 1 SKU" in str(closed.body["what"])


async def test_an_expired_mode_code_sets_the_mode_of_later_codes(dock: Dock) -> None:
    """Otherwise a counted unit would be received."""
    await dock.scan(code="BH-RECEIVE")
    dock.seconds = 4 * DAY_SECONDS
    answer = await dock.scan(code="BH-COUNT", at=SCANNED)
    assert answer.status == 200
    assert "1 x A for the count" in str((await dock.scan(code="A")).body["what"])
    assert (dock.records(), dock.host.bad) == ([], {})


async def test_an_expired_unit_of_a_packed_order_ends_its_session(dock: Dock) -> None:
    await dock.scan(mode="pack", order="1001", code="A", sequence=1)
    dock.seconds = 4 * DAY_SECONDS
    await dock.scan(mode="pack", order="1002", code="B", sequence=2, at=SCANNED)
    closed = await dock.scan(code="BH-CLOSE", sequence=3)
    assert closed.status == 422
    assert dock.records() == []


async def test_an_expired_receipt_ends_no_pick(dock: Dock) -> None:
    await dock.scan(mode="pick", code="1001", sequence=1)
    dock.seconds = 4 * DAY_SECONDS
    await dock.scan(mode="receive", code="B", sequence=2, at=SCANNED)
    answer = await dock.scan(mode="pick", code="A", sequence=3)
    assert "1 x A for order 1001" in str(answer.body["what"])


@pytest.mark.parametrize("mode", ["pick", "count"])
async def test_an_expired_scan_that_comes_again_ends_no_later_session(
    dock: Dock, mode: str
) -> None:
    """Its answer was lost; meanwhile somebody begins to work with the device."""
    dock.seconds = 4 * DAY_SECONDS
    late = {"mode": mode, "code": "A", "sequence": 1, "at": SCANNED}
    assert (await dock.scan(**late)).status == 422
    if mode == "pick":
        await dock.scan(mode=mode, code="1001", sequence=2)
    await dock.scan(mode=mode, code="B", sequence=3)
    assert (await dock.scan(**late)).status == 422
    (bad,) = dock.host.bad.values()
    assert "1001" not in bad.reason
    closed = await dock.scan(mode=mode, code="BH-CLOSE", sequence=4)
    assert closed.status == 200


@pytest.mark.parametrize("code", ["A", "BH-CLOSE"])
async def test_an_expired_scan_stays_expired_when_the_limit_is_raised(
    dock: Dock, code: str
) -> None:
    """Its answer was lost. In quarantine and in a count, it would count twice."""
    await dock.scan(mode="count", code="B", sequence=1)
    dock.seconds = 4 * DAY_SECONDS
    late = {"mode": "count", "code": code, "sequence": 2, "at": SCANNED}
    assert (await dock.scan(**late)).status == 422
    rows = len(dock.host.bad)
    dock.options["max_age_days"] = 30
    await dock.restart()
    await dock.scan(mode="count", code="C", sequence=3)
    again = await dock.scan(**late)
    assert again.status == 422
    said = f"{code} was already too old when it came first (2001-09-09T01:46:40Z)"
    assert said in str(again.body["what"])
    assert len(dock.host.bad) == rows
    closed = await dock.scan(mode="count", code="BH-CLOSE", sequence=4)
    assert "the count of 1 SKU " in str(closed.body["what"])


async def test_an_expired_receipt_that_comes_again_ends_no_later_session(
    dock: Dock,
) -> None:
    """It has no mode of its own, and its device has another one since."""
    await dock.scan(code="BH-RECEIVE", sequence=1)
    dock.seconds = 4 * DAY_SECONDS
    late = {"code": "A", "sequence": 2, "at": SCANNED}
    assert (await dock.scan(**late)).status == 422
    for number, code in enumerate(["BH-COUNT", "B"], 3):
        assert (await dock.scan(code=code, sequence=number)).status == 200
    assert (await dock.scan(**late)).status == 422
    assert (await dock.scan(code="BH-CLOSE", sequence=5)).status == 200


async def test_a_scan_with_an_id_counts_once_under_any_device(dock: Dock) -> None:
    scan = b'{"mode": "receive", "code": "A", "scanId": "0123456789abcdef-1"}'
    assert (await dock.post(scan)).status == 200
    answer = await dock.post(scan, OTHER_TOKEN)
    assert "scanned before" in str(answer.body["what"])
    assert len(dock.records()) == 1


async def test_a_number_is_no_id(dock: Dock) -> None:
    answer = await dock.scan(mode="receive", code="A", scanId="17")
    assert answer.status == 422
    assert "scanId must have at least 16 characters" in str(answer.body["what"])


async def test_a_lost_device_is_refused_and_ordered_to_delete_its_scans() -> None:
    dock = Dock({"lost_devices": ["belt"]})
    await dock.open()
    scan = b'{"mode": "receive", "code": "A"}'
    answer = await dock.post(scan, OTHER_TOKEN)
    assert (answer.status, answer.body["erase"]) == (410, True)
    assert dock.records() == []
    assert (await dock.post(scan)).status == 200
    await dock.close()


def test_a_lost_device_cannot_send_lines() -> None:
    settings = Settings.model_validate({"devices": DEVICES, "lost_devices": ["belt"]})
    devices = read_devices(settings)
    assert devices.of_token(OTHER_TOKEN) is None
    assert devices.of_token(TOKEN) == "dock"


def test_a_lost_device_needs_its_token() -> None:
    settings = Settings.model_validate({"devices": DEVICES, "lost_devices": ["x"]})
    with pytest.raises(CheckFailed, match="lost_devices has x, which has no token"):
        read_devices(settings)
