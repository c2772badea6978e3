"""What a courier's messages become, and which messages are not trusted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from backhaul_connectors.courier.settings import Settings
from backhaul_sdk import Fulfillment, Line, Receipt, Tracking
from backhaul_sdk.records import TRACKING_STATUSES
from connectors.couriers import (
    API_KEY,
    MESSAGES,
    NOW,
    SECRET,
    SIGNING,
    Depot,
    Desk,
    easypost,
    generic,
    mac,
    parcel_of,
    sendcloud,
    signed,
)

if TYPE_CHECKING:
    from backhaul_sdk import Bad, Record

REFUSAL = {"accepted": False, "what": "the signature is missing or wrong"}


@pytest.mark.parametrize("vendor", MESSAGES)
async def test_a_message_describes_a_parcel(vendor: str) -> None:
    desk = Desk(vendor, {"on_return": "cancel"})
    for _ in range(3):
        answer = await desk.send(MESSAGES[vendor](7))
        assert answer.status == 200
    (record,) = desk.records()
    assert isinstance(record, Tracking)
    assert (record.tracking_number, record.status) == ("EZ7", "delivered")
    assert record.at == "2025-12-31T08:00:00Z"
    assert record.on_return == "cancel"


@pytest.mark.parametrize("vendor", SIGNING)
async def test_a_message_with_a_wrong_signature_is_not_believed(vendor: str) -> None:
    desk = Desk(vendor)
    body = json.dumps(MESSAGES[vendor](7)).encode()
    (name, right), *_ = signed(vendor, body).items()
    flipped = chr(ord(right[-3]) ^ 1)
    for headers in (
        {},
        {name: ""},
        {name: right[:-3] + flipped + right[-2:]},
        {name: right[:-1]},
        {name: "\N{SNOWMAN}\udcff"},
        signed(vendor, body, SECRET + "x"),
        signed(vendor, body + b" "),
    ):
        answer = await desk.post(body, headers)
        assert (answer.status, answer.body) == (401, REFUSAL)
    # The bytes as they came are signed, not what they mean.
    answer = await desk.post(
        json.dumps(json.loads(body), indent=1).encode(), {name: right}
    )
    assert answer.status == 401
    assert desk.records() == []


@pytest.mark.parametrize("vendor", SIGNING)
async def test_while_a_secret_is_replaced_both_are_believed(vendor: str) -> None:
    newer = "another-secret-0123456789"
    desk = Desk(vendor, {"secrets": [newer, SECRET]})
    body = json.dumps(MESSAGES[vendor](7)).encode()
    for secret in (SECRET, newer):
        answer = await desk.post(body, signed(vendor, body, secret))
        assert answer.status == 200


async def test_the_example_that_sendcloud_publishes_is_believed() -> None:
    desk = Desk("sendcloud", {"secrets": ["secretkey"]})
    published = "1eed4b3d41f4653ac64fd56f1bf1cbfd349e4482cbc11dff7134bd93e5da4b0a"
    headers = {"sendcloud-signature": published}
    answer = await desk.post(b'{"key": "value"}', headers)
    assert answer.status == 200


@pytest.mark.parametrize(
    ("time", "status"),
    [
        ("Thu, 01 Jan 2026 00:00:00 -0000", 200),
        ("Thu, 01 Jan 2026 00:04:59 +0000", 200),
        ("Wed, 31 Dec 2025 23:54:59 +0000", 401),
        ("Thu, 01 Jan 2026 00:05:01 +0000", 401),
        ("yesterday", 401),
        ("", 401),
    ],
)
async def test_a_message_with_a_signed_time_is_believed_for_a_while(
    time: str, status: int
) -> None:
    desk, body = Desk("easypost"), json.dumps(easypost(7)).encode()
    path = "/connect/parcels/events"
    digest = mac(f"{time}POST{path}".encode() + body).hex()
    headers = {
        "x-timestamp": time,
        "x-path": path,
        "x-hmac-signature-v2": f"hmac-sha256-hex={digest}",
    }
    assert (await desk.post(body, headers)).status == status
    # Another time than the signed one.
    later = {**headers, "x-timestamp": "Thu, 01 Jan 2026 00:00:01 -0000"}
    assert (await desk.post(body, later)).status == 401


@pytest.mark.parametrize(
    ("seconds", "status"), [(0, 200), (-299, 200), (-301, 401), (301, 401)]
)
async def test_a_generic_courier_may_sign_its_time(seconds: int, status: int) -> None:
    told = {"header": "X-Mac", "prefix": "sha256=", "timestamp_header": "X-Time"}
    desk, body = Desk("generic", {"signature": told}), json.dumps(generic(7)).encode()
    time = str(int(NOW) + seconds)
    digest = mac(f"{time}.".encode() + body).hex()
    headers = {"x-mac": f"sha256={digest}", "x-time": time}
    assert (await desk.post(body, headers)).status == status


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_each_signature_of_a_header_with_several_is_tried(at: int) -> None:
    """While a courier replaces its secret, it signs with the old and the new one."""
    parts = {"header": "X-Mac", "signature_part": "v1", "timestamp_part": "t"}
    desk, body = Desk("generic", {"signature": parts}), json.dumps(generic(7)).encode()
    time, other = str(int(NOW)), "another-secret-0123456789"
    said = f"{time}.".encode() + body
    signatures = [mac(said, other).hex(), mac(body).hex(), "", "\udcff"]
    wrong = ",".join(["t=" + time, *(f"v1={each}" for each in signatures)])
    assert (await desk.post(body, {"x-mac": wrong})).status == 401
    signatures.insert(at, mac(said).hex())
    right = ",".join(["t=" + time, *(f"v1={each}" for each in signatures)])
    assert (await desk.post(body, {"x-mac": right})).status == 200


WORDS = {
    "easypost": "pre_transit in_transit out_for_delivery failure delivered "
    "return_to_sender",
    "aftership": "InfoReceived InTransit OutForDelivery AttemptFail Delivered",
    "generic": " ".join(TRACKING_STATUSES),
}


@pytest.mark.parametrize("vendor", WORDS)
async def test_words_come_down_to_the_ladder(vendor: str) -> None:
    desk = Desk(vendor)
    words = WORDS[vendor].split()
    for word in words:
        await desk.send(MESSAGES[vendor](7, word))
    statuses = [each.status for each in desk.records() if isinstance(each, Tracking)]
    assert statuses == list(TRACKING_STATUSES[: len(words)])


async def test_a_word_may_be_taught_and_one_may_be_passed_over() -> None:
    desk = Desk("sendcloud", {"statuses": {"Teleported": "delivered", "Sorted": ""}})
    await desk.send(sendcloud(1, "teleported"))
    await desk.send(sendcloud(2, "Sorted"))
    (record,) = desk.records()
    assert isinstance(record, Tracking)
    assert record.status == "delivered"
    await desk.send(sendcloud(3, "Dematerialized"))
    assert "add it to statuses" in desk.reasons()[0]


async def test_a_returned_parcel_is_not_reported_as_delivered() -> None:
    desk = Desk("sendcloud")
    await desk.send(sendcloud(1, "Driver en route", is_return=True))
    await desk.send(sendcloud(2, "Delivered", is_return=True))
    (record,) = desk.records()
    assert isinstance(record, Tracking)
    assert (record.tracking_number, record.status) == ("EZ2", "returned")


LINES = (Line(sku="LS-S", quantity=2), Line(sku="LS-M", quantity=1))
ITEMS = [{"sku": "LS-S", "quantity": 2, "description": "shirt"}, {"sku": "LS-M"}]


async def taken(
    options: dict[str, Any], *messages: object
) -> tuple[list[Record], list[Bad]]:
    desk = Desk("sendcloud", options)
    for message in messages:
        assert (await desk.send(message)).status == 200
    return desk.records(), list(desk.host.bad.values())


def shipments(records: list[Record]) -> list[Fulfillment]:
    return [record for record in records if isinstance(record, Fulfillment)]


async def test_a_parcel_fulfills_the_lines_it_names_and_leaves_once() -> None:
    told = {"order_number": "1001", "parcel_items": ITEMS}
    words = ("Ready to send", "Being sorted", "Driver en route", "Delivered")
    records, bad = await taken({}, *(sendcloud(1, word, **told) for word in words))
    (shipment,) = shipments(records)
    assert (shipment.order, shipment.tracking_number) == ("1001", "EZ1")
    assert shipment.lines == (
        Line(sku="LS-S", quantity=2),
        Line(sku="LS-M", quantity=1),
    )
    assert len(records) == 5
    assert bad == []
    assert records[1] is shipment, "with the label alone nothing has left"


@pytest.mark.parametrize(
    ("options", "more", "number"),
    [
        ({}, {"parcel_items": []}, 0),
        ({"ship": "order"}, {"parcel_items": []}, 1),
        ({"ship": "never"}, {"parcel_items": ITEMS}, 0),
        ({}, {"parcel_items": ITEMS, "order_number": ""}, 0),
    ],
)
async def test_the_whole_order_is_shipped_only_where_configured(
    options: dict[str, Any], more: dict[str, Any], number: int
) -> None:
    message = sendcloud(1, "Being sorted", **{"order_number": "1001", **more})
    records, bad = await taken(options, message)
    assert len(shipments(records)) == number
    assert bad == []


@pytest.mark.parametrize(
    "item", [{"quantity": 1}, {"sku": ""}, {"sku": "A", "quantity": 0}]
)
@pytest.mark.parametrize("ship", ["lines", "order"])
async def test_an_unknown_article_never_ships_the_whole_order(
    item: dict[str, object], ship: str
) -> None:
    told = {"order_number": "1001", "parcel_items": [ITEMS[0], item]}
    records, bad = await taken({"ship": ship}, sendcloud(1, "Being sorted", **told))
    assert shipments(records) == []
    assert len(records) == len(bad) == 1


async def test_an_order_is_shipped_with_its_label_where_configured() -> None:
    told = {"order_number": "1001", "parcel_items": ITEMS}
    message = sendcloud(1, "Ready to send", **told)
    records, _ = await taken({"ship_at": "announced"}, message)
    assert len(shipments(records)) == 1


@pytest.mark.parametrize(
    "body", [b"{", b'"x"', b"[" * 70 + b"]" * 70, b'{"a": NaN}', b"\xff\x00"]
)
async def test_a_signed_but_strange_message_is_kept_for_an_operator(
    body: bytes,
) -> None:
    desk = Desk("generic")
    answer = await desk.post(body, signed("generic", body))
    assert answer.status == 200
    assert desk.records() == []
    assert len(desk.reasons()) == 1


async def test_a_bad_event_of_a_message_stops_no_good_one() -> None:
    desk = Desk("generic", {"events": {"items": "events"}})
    odd = generic(2, tracking_number=None)
    message = {"events": [generic(1), odd, "odd", generic(3)]}
    for _ in range(2):
        assert (await desk.send(message)).status == 200
    told = [record for record in desk.records() if isinstance(record, Tracking)]
    assert [record.tracking_number for record in told] == ["EZ1", "EZ3"]
    kept = [json.loads(bad.raw) for bad in desk.host.bad.values()]
    assert kept == [odd, "odd"], "each alone, and once"


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("2025-12-31T08:00:00+01:00", "2025-12-31T07:00:00Z"),
        ("31-12-2025 08:00:00", None),
        ("2025-12-31", None),
        (None, None),
    ],
)
async def test_a_listed_parcel_has_its_exact_time_or_none(
    written: str | None, at: str | None
) -> None:
    message = sendcloud(1, date_updated=written)
    del message["timestamp"], message["carrier_status_change_timestamp"]
    desk = Desk("sendcloud")
    await desk.send(message)
    (record,) = desk.records()
    assert isinstance(record, Tracking)
    assert record.at == at


@pytest.mark.parametrize("vendor", MESSAGES)
async def test_a_field_that_cannot_be_read_sets_the_event_aside(vendor: str) -> None:
    desk, message = Desk(vendor), MESSAGES[vendor](1)
    told = parcel_of(message)
    names = ("tracking_code", "tracking_number", "trackingNumber", "number")
    name = next(each for each in names if each in told)
    told[name] = "7.94658E+11"
    await desk.send(message)
    assert desk.records() == []
    assert ["digits are lost" in reason for reason in desk.reasons()] == [True]


async def test_a_message_that_was_not_stored_is_not_acknowledged() -> None:
    async def full(record: Record | Bad) -> Receipt:
        raise OSError("the disk is full")

    desk = Desk("easypost", emit=full)
    with pytest.raises(OSError, match="full"):
        await desk.send(easypost(1))


THIN = {"fetch_path": "resource_url"}


async def test_a_thin_message_is_fetched_from_the_couriers_own_host_only() -> None:
    depot = Depot()
    await depot.plug_in()
    desk = Desk("generic", {**depot.options, **THIN})
    assert (await desk.send({"resource_url": f"{depot.url}/shipments/7"})).status == 200
    (record,) = desk.records()
    assert isinstance(record, Tracking)
    assert record.tracking_number == "EZ7"
    asked = list(depot.asked)
    for url in (
        f"http://localhost:{depot.port}/shipments/8",
        f"https://127.0.0.1:{depot.port}/shipments/8",
        "https://evil.example/shipments/8",
        f"http://127.0.0.1:{depot.port}@evil.example/shipments/8",
        "http://169.254.169.254/latest/meta-data/",
        f"http://127.0.0.1:{depot.port + 1}/shipments/8",
        "file:///etc/passwd",
        7,
    ):
        assert (await desk.send({"resource_url": url})).status == 200
    assert depot.asked == asked
    assert len(desk.records()) == 1
    assert desk.reasons()
    await depot.unplug()
    answer = await desk.send({"resource_url": f"{depot.url}/shipments/9"})
    assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
    await (desk.made or desk.courier()).close()


async def test_a_courier_is_polled_at_the_start_and_when_it_is_silent() -> None:
    depot = Depot()
    await depot.plug_in()
    desk = Desk("sendcloud", depot.options, seconds=50.0)
    courier = desk.courier()
    asked: list[int] = []
    for seconds in (50.0, 100.0, 3_700.0, 3_800.0, 90_000.0, 90_300.0):
        desk.seconds = seconds
        await desk.host.pull(courier)
        asked.append(len(depot.asked))
        if seconds == 3_800.0:
            await desk.send(sendcloud(1))
    assert asked == [1, 1, 2, 2, 2, 3]
    assert "updated_after=2025-12-02" in depot.asked[0]
    assert "updated_after=2025-12-31T23" in depot.asked[-1]
    await courier.close()
    await depot.close()


async def test_a_parcel_reported_twice_is_shipped_once() -> None:
    desk = Desk("sendcloud")
    told = {"order_number": "1001", "parcel_items": ITEMS}
    await desk.send(sendcloud(1, "Being sorted", **told))
    await desk.send(
        {**sendcloud(1, "Being sorted", **told), "timestamp": 1_767_168_001_000}
    )
    assert len(shipments(desk.records())) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"secrets": []}, "neither secrets nor api_key"),
        ({"secrets": ["short"]}, "at least 8 characters"),
        ({"statuses": {"x": "lost"}}, "use announced"),
        ({"vendor": "generic", "fetch_path": "url"}, "api_url must be set too"),
        ({"api_url": "http://api.example"}, "use https://"),
        ({"api_url": "https://10.0.0.1"}, "network.allow"),
        ({"events": {"items": "a b"}}, "not a JMESPath"),
    ],
)
def test_a_mistake_is_named_and_no_secret_shows(
    options: dict[str, Any], said: str
) -> None:
    told = {"vendor": "easypost", "secrets": [SECRET]}
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(told | options)
    assert said in str(caught.value)
    for secret in (SECRET, "short", API_KEY):
        assert secret not in f"{caught.value} {caught.value!r}"
