"""Scans of a store's orders and articles, with the real host and database."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiomqtt
import pytest

from backhaul.connect.record_matching import decode
from backhaul_sdk import Fulfillment, Line, StockAdjustment
from connectors.lining import LINES, wire_to
from connectors.scanning import Dock
from scenes import payloads
from scenes.back_office import host_of
from scenes.clock import VirtualClock
from scenes.databases import append_and_fold, started_store
from scenes.mosquitto import mosquitto
from scenes.payloads import envelope, item, variant
from scenes.stored import count, values_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from backhaul.connect.host import Host
    from backhaul.store import Place, Store
    from backhaul_sdk import Bad, Receipt, Record

CASE = Path(__file__).with_name("cases") / "14-scanner.txt"
RIGHT = [
    ("OK dock is set to receive", ""),
    ("OK 1 x 042100005264 received", ""),
    ("OK 24 x 036000291452 received", ""),
    ("OK 1 x 036000291452 received", ""),
    ("OK 1 x 036000291452 received", ""),
    ("OK dock is set to pack", ""),
    ("NO 00340434161094042557 is a parcel's label (SSCC)", "scan the order's number"),
    ("NO 036000291452 is the SKU LS-XL", "scan the order's number"),
    ("OK order 1001 packed", ""),
    # The link has packed it already, without a number.
    ('{"status": 422', "00340434161094042557 (DHL)"),
    ('{"status": 200', "order 1002 packed"),
    ("OK dock is set to pick", ""),
    ("OK order 1003 begun", ""),
    ("OK 1 x LS-XL for order 1003", ""),
    ("OK parcel 1Z999AA10123456784 for order 1003", ""),
    ("OK order 1003 finished with 1 unit", "on its way"),
    ("NO no order or count is open", ""),
]
"""What the lines of the case are answered: the beginning, and what it says besides."""


@pytest.fixture
async def store(database: Place) -> AsyncIterator[Store]:
    async with started_store(database, VirtualClock()) as started:
        await append_and_fold(started, envelope("products/create", _shirts()))
        for number in (1001, 1002, 1003):
            line = item(f"li_{number}", variantId="var_2", sku="LS-XL", quantity=1)
            order = payloads.order(f"ord_{number}", number=number, items=[line])
            await append_and_fold(started, envelope("orders/create", order))
        yield started


def _shirts() -> dict[str, Any]:
    upc, large = "042100005264", "036000291452"
    variants = [variant(barcode=upc), variant("var_2", sku="LS-XL", barcode=large)]
    return payloads.product(variants=variants)


@pytest.fixture
async def dock(store: Store, tmp_path: Path) -> AsyncIterator[Dock]:
    dock = Dock({**LINES, "folder": tmp_path / "floor"})
    await open_at(dock, store)
    yield dock
    await dock.close()


async def open_at(dock: Dock, store: Store) -> Host:
    """Open a scanner at the host of a real store; return the host."""
    scanner = dock.scanner()
    host = host_of(scanner, store)
    dock.emit = host.emit
    await scanner.open()
    await scanner.listen(host.emit)
    return host


def records(store: Store) -> list[Record]:
    payloads = values_of(store.place, "records", "payload")
    return [decode(payload.encode())[1] for payload in payloads]


async def said(dock: Dock, code: str, **members: object) -> str:
    answer = await dock.scan(code=code, **members)
    return f"{answer.status} {answer.body['what']}"


async def test_every_line_of_the_case_is_answered_right(
    dock: Dock, store: Store
) -> None:
    assert dock._scanner is not None
    lines = [line.encode() for line in CASE.read_text("utf-8").splitlines()]
    async with wire_to(dock._scanner.lines.address) as wire:
        # Together: the answers and their effects keep the order of the lines.
        answers = await wire.say(*lines[:-1])
        answers += await wire.say(lines[-1])
    for answer, (begins, holds) in zip(answers, RIGHT, strict=True):
        assert answer.startswith(begins), answer
        assert holds in answer
    recorded_right(store)


def recorded_right(store: Store) -> None:
    """Require the records that the lines of the case make, however they come."""
    received = [r for r in records(store) if isinstance(r, StockAdjustment)]
    assert [(r.sku, r.delta) for r in received] == [
        ("042100005264", 1),
        ("036000291452", 24),
        ("036000291452", 1),
        ("036000291452", 1),
    ]
    shipped = [r for r in records(store) if isinstance(r, Fulfillment)]
    assert [(r.order, r.tracking_number, r.lines) for r in shipped] == [
        ("1001", None, ()),
        ("1001", "00340434161094042557", ()),
        ("1002", "9400111899223818218407", ()),
        ("1003", "1Z999AA10123456784", (Line(sku="LS-XL", quantity=1),)),
    ]


def messages() -> list[bytes]:
    """Return the lines of the case as messages of a device."""
    lines = CASE.read_text("utf-8").splitlines()
    return [
        (line if line.startswith("{") else json.dumps({"code": line})).encode()
        for line in lines
    ]


def answered_right(answers: Sequence[tuple[int, str]]) -> None:
    for (status, what), (begins, holds) in zip(answers, RIGHT, strict=True):
        word, _, told = begins.partition(" ")
        expected = {"OK": 200, "NO": 422}.get(word)
        assert status == (expected or int(told)), what
        assert (told if expected else "") in what
        assert holds in what


async def test_every_line_of_the_case_is_answered_right_over_http(
    dock: Dock, store: Store
) -> None:
    posted = [await dock.post(message) for message in messages()]
    answered_right([(each.status, str(each.body["what"])) for each in posted])
    recorded_right(store)


@pytest.mark.programs
async def test_every_line_of_the_case_is_answered_right_over_mqtt(
    store: Store, tmp_path: Path
) -> None:
    answers: list[tuple[int, str]] = []
    async with (
        mosquitto(tmp_path) as broker,
        aiomqtt.Client("127.0.0.1", broker.port) as device,
    ):
        await device.subscribe("scanners/+/reply", qos=1)
        options = {"mqtt_host": "127.0.0.1", "mqtt_port": broker.port}
        options |= {"mqtt_tls": False, "mqtt_devices": ["dock"]}
        dock = Dock({**options, "folder": tmp_path / "floor"})
        await open_at(dock, store)
        assert dock._scanner is not None
        assert dock._scanner.broker is not None
        await dock._scanner.broker.connected.wait()
        for message in messages():
            await device.publish("scanners/dock/scan", message, qos=1)
            reply = await anext(device.messages)
            told = json.loads(bytes(reply.payload or b""))
            answers.append((told["status"], told["what"]))
        await dock.close()
    answered_right(answers)
    recorded_right(store)


async def test_a_tracking_number_loses_the_symbology_on_every_way(
    store: Store, tmp_path: Path
) -> None:
    scan = {"mode": "pack", "trackingNumber": "]C100340434161094042557"}
    async with (
        mosquitto(tmp_path) as broker,
        aiomqtt.Client("127.0.0.1", broker.port) as device,
    ):
        await device.subscribe("scanners/+/reply", qos=1)
        options = {"mqtt_host": "127.0.0.1", "mqtt_port": broker.port}
        options |= {"mqtt_tls": False, "mqtt_devices": ["dock"]}
        dock = Dock({**LINES, **options})
        await open_at(dock, store)
        assert dock._scanner is not None
        assert dock._scanner.broker is not None
        await dock._scanner.broker.connected.wait()
        await device.publish("scanners/dock/scan", json.dumps(scan | {"code": "1001"}))
        await anext(device.messages)
        async with wire_to(dock._scanner.lines.address) as wire:
            await wire.say(json.dumps(scan | {"code": "1002"}).encode())
        await dock.scan(**scan, code="1003")
        await dock.close()
    assert [(r.order, r.tracking_number) for r in records(store)] == [  # type: ignore[union-attr]
        ("1001", "00340434161094042557"),
        ("1002", "00340434161094042557"),
        ("1003", "00340434161094042557"),
    ]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("LS-S", "order 1003 has no SKU LS-S: put the unit back"),
        ("042100005264", "order 1003 has no SKU 042100005264"),
        ("NEW-1", "order 1003 has no SKU NEW-1"),
        ("1001", "1001 is an order's number: finish order 1003 first"),
        ("LSßXL", "'LSßXL' looks like 'LS-XL' sent through another keyboard layout"),
        ("LS)XL", "looks like 'LS-XL'"),
        ("&àà&", "looks like '1001'"),
        ("1Z999AA10123456785", "check digit"),
        (
            "(02)00036000291452(37)24",
            "1 x LS-XL left to ship, 1 scanned so far: 24 more are too many",
        ),
    ],
)
async def test_a_code_that_cannot_be_picked_is_refused_and_the_rest_ships(
    dock: Dock, store: Store, code: str, why: str
) -> None:
    await said(dock, "1003", mode="pick")
    await said(dock, "LS-XL", mode="pick")
    answer = await said(dock, code, mode="pick")
    assert answer.startswith("422")
    assert why in answer
    assert "finished with 1 unit" in await said(dock, "BH-CLOSE")
    (record,) = records(store)
    assert isinstance(record, Fulfillment)
    assert record.lines == (Line(sku="LS-XL", quantity=1),)
    assert count(store.place, "quarantine") == 0


async def test_a_unit_too_many_is_refused_at_the_scan(dock: Dock) -> None:
    await said(dock, "1003", mode="pick")
    await said(dock, "LS-XL", mode="pick", sequence=1)
    answer = await said(dock, "036000291452", mode="pick", sequence=2)
    assert "has 1 x LS-XL left to ship, 1 scanned so far" in answer


async def test_a_label_is_no_article_and_an_article_may_look_like_one(
    dock: Dock, store: Store
) -> None:
    odd = payloads.product(
        "prod_9", variants=[variant("var_9", sku="SF123456789012", barcode=None)]
    )
    await append_and_fold(store, envelope("products/create", odd))
    line = item("li_9", variantId="var_9", productId="prod_9", sku="SF123456789012")
    order = payloads.order("ord_9", number=1009, items=[line])
    await append_and_fold(store, envelope("orders/create", order))
    await said(dock, "1009", mode="pick")
    assert "1 x SF123456789012" in await said(dock, "SF123456789012", mode="pick")
    assert "parcel RR123456785DE" in await said(dock, "RR123456785DE", mode="pick")
    assert "instead of RR123456785DE" in await said(
        dock, "JJD000390007882823423", mode="pick"
    )


@pytest.mark.parametrize(
    "code",
    [
        "LS-XL",
        "1Z999AA10123456784",
        "&àà&",
        "https://shop.example/sale",
        "4006381333931",
    ],
)
async def test_packing_a_code_that_is_no_order_is_refused_at_once(
    dock: Dock, store: Store, code: str
) -> None:
    assert (await said(dock, code, mode="pack")).startswith("422")
    assert (await said(dock, code, mode="pick")).startswith("422")
    assert records(store) == []


async def test_an_order_that_is_not_known_yet_waits_and_says_so(dock: Dock) -> None:
    answer = await said(dock, "1099", mode="pack")
    assert answer.startswith("200 not done yet: order '1099' is not known")


async def test_an_order_may_have_the_form_of_an_article(
    dock: Dock, store: Store
) -> None:
    order = payloads.order("ord_8", number=4006381333931)
    await append_and_fold(store, envelope("orders/create", order))
    assert (await said(dock, "4006381333931", mode="pack")).startswith("200 order")


@pytest.mark.parametrize(
    ("members", "why"),
    [
        (
            {"cancellation": {"cancelledAt": payloads.instant(9)}},
            "is cancelled",
        ),
        (
            {"items": [item("li_1003", quantity=1, fulfilledQuantity=1)]},
            "nothing left to ship",
        ),
    ],
)
async def test_a_pick_of_an_order_that_cannot_ship_is_not_begun(
    dock: Dock, store: Store, members: dict[str, Any], why: str
) -> None:
    order = payloads.order("ord_1003", 9, number=1003, **members)
    await append_and_fold(store, envelope("orders/updated", order))
    answer = await said(dock, "1003", mode="pick")
    assert answer.startswith("422")
    assert why in answer


async def test_a_host_that_cannot_say_stops_no_scan(tmp_path: Path) -> None:
    dock = Dock({"folder": tmp_path / "floor"})
    await dock.open()
    for code in ("1003", "NEW-1", "BH-CLOSE"):
        assert (await said(dock, code, mode="pick")).startswith("200")
    await dock.close()
    assert len(dock.records()) == 1


async def test_scans_of_one_device_keep_their_order(dock: Dock) -> None:
    answers = await asyncio.gather(
        said(dock, "1003", mode="pick"), said(dock, "LS-XL", mode="pick")
    )
    assert "begun" in answers[0]
    assert "1 x LS-XL for order 1003" in answers[1]


async def test_the_host_pulls_for_a_complete_order_that_it_could_not_store(
    store: Store, tmp_path: Path
) -> None:
    async def full(record: Record | Bad) -> Receipt:
        raise OSError("no space left")

    dock = Dock({"folder": tmp_path / "floor"}, emit=full)
    host = host_of(dock.scanner(), store)
    assert dock._scanner is not None
    await dock._scanner.open()
    for code in ("1003", "LS-XL"):
        await said(dock, code, mode="pick")
    assert (await said(dock, "BH-CLOSE", sequence=1)).startswith("503")
    dock.emit = host.emit
    assert (await said(dock, "BH-PICK")).startswith("200")
    assert await host.once() == {"accepted": 1}
    (record,) = records(store)
    assert isinstance(record, Fulfillment)
    assert record.lines == (Line(sku="LS-XL", quantity=1),)
    assert "scanned before" in await said(dock, "BH-CLOSE", sequence=1)
    await dock.close()
