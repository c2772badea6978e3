"""Each courier's preset needs few settings, and verifies the courier's signatures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from backhaul_connectors.courier.settings import PRESETS, Settings
from backhaul_sdk import Fulfillment, Tracking
from backhaul_sdk.records import TRACKING_STATUSES
from connectors.couriers import (
    BY_TOKEN,
    MESSAGES,
    NOW,
    SECRET,
    Desk,
    mac,
    seventeen_track,
    ship24,
    shippo,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_PRESETS = [name for name in MESSAGES if name != "generic"]
NEWER = "another-secret-0123456789"
FEW_SETTINGS = 4
"""Lines of a connection with a preset: its type, the preset, the secrets, one more."""


def statuses(desk: Desk) -> list[str]:
    return [each.status for each in desk.records() if isinstance(each, Tracking)]


def presented(name: str, secret: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the headers and the parameters of a courier that sends a token."""
    if name == "shippo":
        return {}, {"token": secret}
    return {"authorization": f"Bearer {secret}"}, {}


def test_each_preset_is_tested_and_names_its_documents() -> None:
    assert sorted(PRESETS.by_name) == sorted(OWN_PRESETS)
    for preset in PRESETS.by_name.values():
        assert preset.sources
        assert all(each.startswith("https://") for each in preset.sources)


@pytest.mark.parametrize("name", OWN_PRESETS)
async def test_a_preset_needs_few_settings(name: str) -> None:
    settings = {"preset": name, "secrets": [SECRET], "ship": "order"}
    assert len({"type", *settings}) <= FEW_SETTINGS
    desk = Desk(name, {"ship": "order"})
    assert (await desk.send(MESSAGES[name](7))).status == 200
    assert statuses(desk) == ["delivered"]
    (tracking,) = (each for each in desk.records() if isinstance(each, Tracking))
    assert tracking.locator == f"{name} EZ7"
    assert tracking.tracking_company


@pytest.mark.parametrize("name", OWN_PRESETS)
async def test_a_message_that_is_sent_again_counts_once(name: str) -> None:
    desk = Desk(name)
    for _ in range(3):
        assert (await desk.send(MESSAGES[name](7))).status == 200
    assert len(desk.records()) == 1


@pytest.mark.parametrize("name", OWN_PRESETS)
async def test_an_unknown_status_is_reported(name: str) -> None:
    desk = Desk(name)
    assert (await desk.send(MESSAGES[name](7, "teleported"))).status == 200
    assert desk.records() == []
    (reason,) = desk.reasons()
    assert "'teleported' is unknown: add it to statuses" in reason


@pytest.mark.parametrize("name", BY_TOKEN)
async def test_without_the_token_no_message_is_believed(name: str) -> None:
    desk = Desk(name, {"secrets": [NEWER, SECRET]})
    body = json.dumps(MESSAGES[name](7)).encode()
    for wrong in ("", SECRET + "x", SECRET[:-1], "\N{SNOWMAN}\udcff"):
        answer = await desk.post(body, *presented(name, wrong))
        assert answer.status == 401
    assert (await desk.post(body, {})).status == 401
    assert desk.records() == []
    for right in (SECRET, NEWER):
        answer = await desk.post(body, *presented(name, right))
        assert answer.status == 200


async def test_a_token_does_not_replace_shippos_signature() -> None:
    desk, body = Desk("shippo-hmac"), json.dumps(shippo(7)).encode()
    assert (await desk.post(body, {}, {"token": SECRET})).status == 401


@pytest.mark.parametrize(
    ("seconds", "status"), [(0, 200), (-299, 200), (-301, 401), (301, 401)]
)
async def test_shippos_signature_is_believed_for_a_while(
    seconds: int, status: int
) -> None:
    desk, body = Desk("shippo-hmac"), json.dumps(shippo(7)).encode()
    time = int(NOW) + seconds
    digest = mac(f"{time}.".encode() + body).hex()
    headers = {"shippo-auth-signature": f"t={time},v1={digest}"}
    assert (await desk.post(body, headers)).status == status
    # The signature covers the time.
    later = {"shippo-auth-signature": f"t={int(NOW) + 1},v1={digest}"}
    assert (await desk.post(body, later)).status == 401


LADDERS: dict[str, list[dict[str, Any]]] = {
    "shippo": [
        shippo(7, "PRE_TRANSIT"),
        shippo(7, "TRANSIT"),
        shippo(
            7,
            tracking_status={
                "object_id": "a",
                "status": "TRANSIT",
                "substatus": {"code": "out_for_delivery"},
            },
        ),
        shippo(7, "FAILURE"),
        shippo(7, "DELIVERED"),
        shippo(7, "RETURNED"),
    ],
    "17track": [
        *(
            seventeen_track(7, word)
            for word in (
                *("InfoReceived", "InTransit", "OutForDelivery"),
                *("DeliveryFailure", "Delivered"),
            )
        ),
        seventeen_track(
            7,
            track_info={
                "latest_status": {
                    "status": "Exception",
                    "sub_status": "Exception_Returned",
                }
            },
        ),
    ],
    "ship24": [
        ship24(7, word)
        for word in (
            *("info_received", "in_transit", "out_for_delivery"),
            *("failed_attempt", "delivered"),
        )
    ],
}


@pytest.mark.parametrize("name", LADDERS)
async def test_words_become_statuses(name: str) -> None:
    desk = Desk(name)
    for message in LADDERS[name]:
        await desk.send(message)
    assert desk.reasons() == []
    assert statuses(desk) == list(TRACKING_STATUSES[: len(LADDERS[name])])


@pytest.mark.parametrize(
    "message",
    [
        {**shippo(7), "event": "transaction_updated"},
        {"event": "batch_created", "data": {"object_id": "b"}},
        shippo(7, "UNKNOWN"),
    ],
)
async def test_a_message_about_something_else_is_ignored(
    message: dict[str, Any],
) -> None:
    desk = Desk("shippo")
    assert (await desk.send(message)).status == 200
    assert desk.records() == []
    assert desk.reasons() == []


async def test_shippos_metadata_is_the_order() -> None:
    desk = Desk("shippo", {"ship": "order"})
    await desk.send(shippo(7, "TRANSIT"))
    (shipment,) = (each for each in desk.records() if isinstance(each, Fulfillment))
    assert (shipment.order, shipment.tracking_company) == ("1001", "ups")
    assert shipment.everything


async def test_several_events_come_in_one_message() -> None:
    desk = Desk("ship24")
    first, second = ship24(1), ship24(2, occurrenceDatetime="2025-12-31T09:00:00")
    await desk.send({"trackings": first["trackings"] + second["trackings"]})
    times = {each.tracking_number: each.at for each in desk.records()}  # type: ignore[union-attr]  # all are statuses of parcels
    assert times == {"EZ1": "2025-12-31T08:00:00Z", "EZ2": None}


@pytest.mark.parametrize(("name", "asked"), [("ship24", 200), ("shippo", None)])
async def test_a_service_that_tests_the_url_finds_it(
    name: str, asked: int | None
) -> None:
    desk = Desk(name)
    routes = await desk.courier().listen(desk.host.emit)
    assert {route.method for route in routes} == (
        {"POST"} if asked is None else {"POST", "HEAD"}
    )
    if asked:
        assert (await desk.call("HEAD", b"", {}, {})).status == asked
    assert desk.records() == []


def test_own_settings_override_those_of_the_preset() -> None:
    own = {
        "preset": "shippo",
        "secrets": [SECRET],
        "events": {"order": "transaction"},
        "statuses": {"UNKNOWN": "announced"},
    }
    settings = Settings.model_validate(own)
    assert settings.events.order == "transaction"
    assert settings.events.key == "tracking_status.object_id"
    assert settings.statuses["UNKNOWN"] == "announced"
    assert settings.statuses["TRANSIT"] == "in_transit"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"preset": "shipo"}, "did you mean 'shippo'?"),
        ({}, "set preset to the name of a courier"),
        ({"vendor": "generic", "signature": {"parameter": "t"}}, 'method = "token"'),
        (
            {
                "vendor": "generic",
                "signature": {"method": "token", "timestamp_header": "x-time"},
            },
            'a signed time needs method = "hmac"',
        ),
        (
            {"vendor": "generic", "signature": {"timestamp_part": "t"}},
            "signature_part must be set too",
        ),
        (
            {
                "vendor": "generic",
                "signature": {"timestamp_header": "x", "signature_part": "v1"},
            },
            "not both",
        ),
    ],
)
def test_a_mistake_is_named_and_no_secret_shows(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"secrets": [SECRET], **options})
    assert said in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value!r}"
