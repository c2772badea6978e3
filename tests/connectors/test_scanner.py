"""Which record a scan becomes, and which answer the device receives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.scanner import Scanner
from backhaul_sdk import Fulfillment, Line, Receipt, StockAdjustment
from connectors.scanning import OTHER_TOKEN, TOKEN, Dock

if TYPE_CHECKING:
    from backhaul_sdk import Bad, Record

EVERYTHING: tuple[Line, ...] = ()


@pytest.fixture
def dock() -> Dock:
    return Dock()


async def one_record(dock: Dock, **members: object) -> Record:
    """Return what an accepted scan became."""
    answer = await dock.scan(**members)
    assert answer.status == 200, answer.body
    assert answer.body["accepted"] is True
    (record,) = dock.records()
    return record


@pytest.mark.parametrize(
    ("members", "order", "lines"),
    [
        ({"code": "1001"}, "1001", EVERYTHING),
        ({"code": "#1001\r\n"}, "#1001", EVERYTHING),
        ({"code": "#1001", "order": "1001"}, "1001", EVERYTHING),
        (
            {"code": "BD1", "order": "1001", "trackingNumber": "BD1"},
            "1001",
            EVERYTHING,
        ),
        ({"code": "LS-S", "order": "1001"}, "1001", (Line(sku="LS-S", quantity=1),)),
        (
            {"code": "LS-S", "order": "1001", "quantity": 3},
            "1001",
            (Line(sku="LS-S", quantity=3),),
        ),
    ],
)
async def test_pack_ships_the_order_or_only_scanned_units(
    dock: Dock, members: dict[str, Any], order: str, lines: tuple[Line, ...]
) -> None:
    record = await one_record(dock, mode="pack", **members)
    assert isinstance(record, Fulfillment)
    assert (record.order, record.lines) == (order, lines)


async def test_pack_carries_tracking_and_time(dock: Dock) -> None:
    record = await one_record(
        dock,
        mode="PACK",
        code="1001",
        trackingCompany="BlueDart",
        trackingNumber=" BD1 ",
        at="2026-03-31T14:05:00+05:30",
        sequence=7,
    )
    assert isinstance(record, Fulfillment)
    assert (record.tracking_company, record.tracking_number) == ("BlueDart", "BD1")
    assert record.shipped_at == "2026-03-31T08:35:00Z"
    assert record.locator == "scan 7 of dock"
    assert '"code": "1001"' in record.raw


@pytest.mark.parametrize(("given", "delta"), [({}, 1), ({"quantity": 12}, 12)])
async def test_receive_adds_to_stock(
    dock: Dock, given: dict[str, int], delta: int
) -> None:
    record = await one_record(dock, mode="receive", code="LS-S", **given)
    assert isinstance(record, StockAdjustment)
    assert (record.sku, record.delta, record.reason) == ("LS-S", delta, "RECEIVED")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"mode": "count", "code": "LS-S"}, "folder is not set"),
        ({"mode": "pick", "code": "1001"}, "folder is not set"),
        ({"code": "bh-close"}, "folder is not set"),
        ({"mode": "set", "code": "LS-S", "stock": 5}, "mode must be one of"),
        ({"code": "LS-S"}, "mode must be one of"),
        ({"mode": "pack"}, "code is missing"),
        ({"mode": "pack", "code": " "}, "code is missing"),
        ({"mode": "pack", "code": 1001}, "code must be text"),
        (
            {"mode": "pack", "code": "1001", "trackingNumber": "7.94658E+11"},
            "digits are lost",
        ),
        ({"mode": "pack", "code": "1\x1e2"}, "cannot be printed"),
        ({"mode": "pack", "code": "1" * 201}, "too long"),
        ({"mode": "pack", "code": "1001", "quantity": 2}, "needs a SKU"),
        ({"mode": "receive", "code": "A", "quantity": 0}, "quantity must be from 1"),
        ({"mode": "receive", "code": "A", "quantity": -5}, "quantity must be from 1"),
        ({"mode": "receive", "code": "A", "quantity": 1.5}, "whole number"),
        ({"mode": "receive", "code": "A", "quantity": True}, "whole number"),
        ({"mode": "receive", "code": "A", "quantity": 10**7}, "quantity must be from"),
        ({"mode": "pack", "code": "1", "sequence": True}, "sequence must be"),
        ({"mode": "pack", "code": "1", "sequence": [1]}, "sequence must be"),
        ({"mode": "pack", "code": "1", "at": "yesterday"}, "at is not a time"),
        ({"mode": "pack", "code": "1", "at": "2026-03-31T14:05"}, "no time zone"),
        (
            {"mode": "pack", "code": "1", "device": "belt"},
            "this device is dock, not belt",
        ),
        ({"mode": "pack", "code": "1", "device": 7}, "device must be text"),
    ],
)
async def test_a_scan_that_cannot_be_used_is_refused_with_a_sentence(
    dock: Dock, members: dict[str, Any], said: str
) -> None:
    answer = await dock.scan(**members)
    assert answer.status == 422
    assert answer.body["accepted"] is False
    assert said in str(answer.body["what"])
    assert dock.records() == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"1001", b'"pack"', b"\xff\xfe", b"[" * 60_000, b"1" * 5_000],
)
async def test_a_body_that_is_no_json_object_is_refused(
    dock: Dock, body: bytes
) -> None:
    answer = await dock.post(body)
    assert (answer.status, answer.body["accepted"]) == (400, False)


async def test_the_longest_message_is_64_kib(dock: Dock) -> None:
    scan = b'{"mode": "pack", "code": "1001"}'
    assert (await dock.post(scan.ljust(65_536))).status == 200
    assert (await dock.post(scan.ljust(65_537))).status == 413


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
    ],
)
async def test_only_json_is_accepted(dock: Dock, kind: str, status: int) -> None:
    body = b'{"mode": "pack", "code": "1001"}'
    answer = await dock.post(body, **{"content-type": kind})
    assert answer.status == status


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer \udcff\udcfe",
    ],
)
async def test_every_wrong_token_gets_the_same_answer(
    dock: Dock, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = await dock.post(b"not even json", token=None, **headers)
    assert answer == await dock.post(b"{}", token="wrong")
    assert answer.status == 401
    assert answer.headers == {"WWW-Authenticate": "Bearer"}


async def test_each_device_has_its_own_token(dock: Dock) -> None:
    scan = b'{"mode": "pack", "code": "1001", "device": "belt"}'
    assert (await dock.post(scan, token=OTHER_TOKEN)).status == 200
    assert (await dock.post(scan, token=TOKEN)).status == 422


async def test_the_answer_is_built_from_the_receipt(dock: Dock) -> None:
    async def waiting(record: Record | Bad) -> Receipt:
        return Receipt("waiting", "kept until the order is known")

    dock.emit = waiting
    answer = await dock.scan(mode="pack", code="1001")
    assert answer.status == 200
    assert answer.body == {
        "accepted": True,
        "what": "not done yet: kept until the order is known. "
        "Result when this succeeds: order 1001 packed",
    }


async def test_a_quarantined_scan_is_refused_with_its_reason(dock: Dock) -> None:
    async def quarantined(record: Record | Bad) -> Receipt:
        return Receipt("quarantined", "nobody knows LS-S")

    dock.emit = quarantined
    answer = await dock.scan(mode="receive", code="LS-S")
    assert answer.status == 422
    assert answer.body == {"accepted": False, "what": "nobody knows LS-S"}


async def test_a_host_that_fails_makes_the_device_try_again(dock: Dock) -> None:
    async def full(record: Record | Bad) -> Receipt:
        raise OSError("the disk is full at /var/lib")

    dock.emit = full
    answer = await dock.scan(mode="receive", code="LS-S")
    assert answer.status == 503
    assert answer.headers == {"Retry-After": "2"}
    assert "try again" in str(answer.body["what"])
    assert "/var/lib" not in str(answer.body["what"])


def test_importing_and_constructing_does_nothing() -> None:
    assert Scanner.spec.secret_fields == {"devices", "mqtt_password"}
    assert TOKEN not in repr(vars(Dock().scanner()))


SPELLED = {
    "tracking_number": ("JD1", "trackingNumber"),
    "trackingnumber": ("JD1", "trackingNumber"),
    "TrackingNumber": ("JD1", "trackingNumber"),
    "tracking": ("JD1", "trackingNumber"),
    "tracking-company": ("DHL", "trackingCompany"),
    "carrier": ("DHL", "trackingCompany"),
    "Quantity": (5, "quantity"),
    "qty": (5, "quantity"),
    "Order": ("1001", "order"),
    "Sequence": (7, "sequence"),
}
"""Fields as devices may write them, and what they are called."""


@pytest.mark.parametrize(
    ("field", "value", "meant"), [(name, *each) for name, each in SPELLED.items()]
)
async def test_a_field_in_another_spelling_is_refused(
    field: str, value: object, meant: str
) -> None:
    """Passed over, a parcel would leave without its number, and 5 units as 1."""
    dock = Dock()
    answer = await dock.scan(mode="pack", code="1001", **{field: value})
    assert answer.status == 422
    assert answer.body["what"] == f"{field} is not a field; write {meant}"
    assert dock.records() == []


async def test_an_unknown_field_beside_a_known_one_is_ignored() -> None:
    dock = Dock()
    scan = {"trackingNumber": "JD1", "tracking": "https://x.example", "battery": 7}
    answer = await dock.scan(mode="pack", code="1001", **scan)
    assert (answer.status, len(dock.records())) == (200, 1)


async def test_a_box_with_an_absurd_number_of_units_is_refused() -> None:
    dock = Dock()
    answer = await dock.scan(mode="receive", code="(02)00036000291452(37)99999999")
    assert answer.status == 422
    assert "more than 1000000 units" in str(answer.body["what"])
