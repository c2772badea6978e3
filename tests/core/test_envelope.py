"""Decoding webhooks: with an envelope, without one, and malformed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backhaul.core.webhook import Envelope, open_envelope
from backhaul.errors import Unusable

ORDER = {"id": "ord_1", "status": "PENDING"}
WRAPPED = {
    "id": "evt_1",
    "topic": "orders/create",
    "apiVersion": "v1",
    "storeId": "sto_1",
    "createdAt": "2026-01-02T03:04:05.678Z",
    "sequence": 4711,
    "data": ORDER,
}


def opened(document: Any, topic: str = "from/outside") -> Envelope:
    return open_envelope(json.dumps(document).encode(), topic)


def test_an_envelope_says_everything_itself() -> None:
    assert opened(WRAPPED) == Envelope(
        "orders/create", "evt_1", "sto_1", 4711, "2026-01-02T03:04:05.678Z", ORDER
    )


def test_bare_resource_takes_its_topic_from_outside() -> None:
    assert opened(ORDER) == Envelope("from/outside", None, None, 0, None, ORDER)


BARE = {
    "no-data": {"topic": "a/b"},
    "data-of-an-object": {"id": "x", "updatedAt": "2026-01-02", "data": {"id": "y"}},
}


@pytest.mark.parametrize("name", BARE)
def test_a_body_without_an_envelope_is_a_bare_resource(name: str) -> None:
    found = opened(BARE[name])
    assert (found.topic, found.data) == ("from/outside", BARE[name])


@pytest.mark.parametrize("data", [[], None, "x", 5, [ORDER]])
def test_an_envelope_whose_data_is_no_object_holds_nothing(data: Any) -> None:
    found = opened(WRAPPED | {"data": data})
    assert (found.topic, found.event_id) == ("orders/create", "evt_1")
    assert found.data == {}


@pytest.mark.parametrize("topic", [{}, {"topic": 7}, {"topic": None}, {"topic": " "}])
def test_an_envelope_without_topic_takes_it_from_outside(topic: dict[str, Any]) -> None:
    found = opened({"id": "evt_1", "data": ORDER} | topic)
    assert (found.topic, found.event_id) == ("from/outside", "evt_1")
    assert found.data == ORDER


@pytest.mark.parametrize(
    "topic", ["ORDERS/CREATE", " orders/create ", "Orders/Create\n"]
)
def test_topics_are_compared_without_case_and_blanks(topic: str) -> None:
    assert opened(WRAPPED | {"topic": topic}).topic == "orders/create"
    assert opened(ORDER, topic).topic == "orders/create"


TEXT_MEMBERS = {"id": "event_id", "storeId": "store_id", "createdAt": "created_at"}


@pytest.mark.parametrize("member", TEXT_MEMBERS)
@pytest.mark.parametrize("value", [None, [], {}, 1.5, 7, True], ids=repr)
def test_a_retyped_member_of_the_envelope_counts_as_missing(
    member: str, value: Any
) -> None:
    found = opened(WRAPPED | {member: value})
    assert getattr(found, TEXT_MEMBERS[member]) is None
    assert found.data == ORDER


@pytest.mark.parametrize(
    "sequence", [-1, 2**63, 10**30, 4.5, "4711", None, []], ids=str
)
def test_a_sequence_that_cannot_be_stored_is_none(sequence: Any) -> None:
    assert opened(WRAPPED | {"sequence": sequence}).sequence == 0


@pytest.mark.parametrize("sequence", [0, 1, 2**63 - 1])
def test_sequence_is_kept_to_the_last_bit(sequence: int) -> None:
    assert opened(WRAPPED | {"sequence": sequence}).sequence == sequence


def test_members_that_are_not_known_do_no_harm() -> None:
    assert opened(WRAPPED | {"new": {"deep": [1]}}).data == ORDER


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"1", b'"x"', b"{", b"<html>", b"\xff", b"{}{}"],
    ids=repr,
)
def test_a_body_that_is_no_json_object_is_unusable(body: bytes) -> None:
    with pytest.raises(Unusable):
        open_envelope(body, "orders/create")
