"""Which records a message becomes, and their keys, for any broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backhaul_sdk import Bad, Fulfillment, StockAdjustment, StockLevel
from backhaul_sdk.change_documents import checked_template, filled
from backhaul_sdk.messages import Message, Source, checked_address
from backhaul_sdk.messages.reading import MessageReader
from backhaul_sdk.testing import sample_change

ORDER = {"kind": "fulfillment", "fields": {"order": "order"}}
MOVEMENT = {"kind": "stock_adjustment", "fields": {"sku": "sku", "delta": "delta"}}
COUNT = {"kind": "stock_level", "fields": {"sku": "sku", "quantity": "units"}}
AT = "2026-03-01T10:00:00.000Z"


async def nothing() -> None:
    return None


def message(body: object, own: str = "", sent_at: str = "") -> Message:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Message(
        body=raw, id=own, sent_at=sent_at, locator="queue q", acknowledge=nothing
    )


def read(settings: dict[str, Any], *messages: Message) -> list[Any]:
    reader = MessageReader("in", Source.model_validate(settings))
    return [record for each in messages for record in reader.read(each)]


def keys(records: list[Any]) -> list[str]:
    return [record.key for record in records]


def test_an_object_is_one_record_and_an_array_is_several() -> None:
    one = read(ORDER, message({"order": "1001"}, "m-1"))
    several = read(ORDER, message([{"order": "1001"}, {"order": "1002"}], "m-1"))
    assert [type(each) for each in [*one, *several]] == [Fulfillment] * 3
    assert keys(one) == ["in:m-1"]
    assert keys(several) == ["in:m-1#1", "in:m-1#2"]


def test_items_may_be_inside_an_envelope() -> None:
    body = {"data": {"rows": [{"order": "1001"}]}}
    (record,) = read({**ORDER, "items": "data.rows"}, message(body, "m"))
    assert record.order == "1001"


def test_each_line_is_a_record_and_a_bad_line_stops_no_other() -> None:
    body = b'{"order": "1001"}\n\n{"order": \n{"order": "1002"}\r\n'
    records = read({**ORDER, "format": "lines"}, message(body, "m"))
    assert keys(records) == ["in:m#1", "in:m#4", "in:bad:m#3"]
    assert "line 3: the message cannot be read: it is not JSON" in records[2].reason
    assert records[2].raw == '{"order": '


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "it is not JSON"),
        (b'{"order": 1', "it is not JSON"),
        (b"\xff\xfe\xfa", "it is not UTF-8 text"),
        (b"[" * 100 + b"]" * 100, "nested more than 64 levels"),
        (b'{"order": NaN}', "the message is not JSON"),
        (b'"1001"', "neither an object nor an array"),
        (b"[1]", "the order is empty"),
    ],
)
def test_an_unreadable_message_is_kept_with_the_reason(
    body: bytes, reason: str
) -> None:
    (bad,) = read(ORDER, message(body, "m"))
    assert isinstance(bad, Bad)
    assert reason in bad.reason
    assert bad.locator.startswith("in")
    assert bad.locator.endswith("queue q")


def test_too_large_a_message_is_not_read() -> None:
    body = json.dumps({"order": "1001", "note": "x" * 2_000}).encode()
    (bad,) = read({**ORDER, "most_bytes": 1_000}, message(body, "m"))
    assert "most_bytes is 1,000" in bad.reason
    assert bad.raw == body[:1_000].decode()


def test_a_redelivered_message_has_the_keys_of_the_first_delivery() -> None:
    body = [{"order": "1001"}, {"order": ""}]
    for own in ("m-1", "", "x" * 5_000):
        first, second = (read(ORDER, message(body, own)) for _ in range(2))
        assert keys(first) == keys(second)
        assert len(set(keys(first))) == 2


def test_equal_messages_with_ids_are_two_facts() -> None:
    twice = (message({"sku": "A", "delta": -1}, own) for own in ("m-1", "m-2"))
    records = read(MOVEMENT, *twice)
    assert [type(each) for each in records] == [StockAdjustment] * 2
    assert keys(records) == ["in:m-1", "in:m-2"]
    bad = read(MOVEMENT, *(message({"sku": "", "delta": -1}, n) for n in "ab"))
    assert len(set(keys(bad))) == 2


def test_a_movement_without_any_id_is_not_guessed() -> None:
    (bad,) = read(MOVEMENT, message({"sku": "A", "delta": -1}))
    assert (
        "Backhaul cannot tell a repeated message from a second movement" in bad.reason
    )
    (good,) = read(
        {**MOVEMENT, "key": "id"}, message({"id": 7, "sku": "A", "delta": 1})
    )
    assert good.key == "in:7"


def test_a_count_without_a_time_has_the_time_of_its_message() -> None:
    counted = {"sku": "A", "units": 5}
    (level,) = read(COUNT, message(counted, "m", AT))
    assert isinstance(level, StockLevel)
    assert (level.as_of, level.in_order) == (AT, True)
    (bad,) = read(COUNT, message(counted, "m"))
    assert "the stock level has no time" in bad.reason


def test_counts_of_one_message_that_contradict_each_other_are_refused() -> None:
    counted = [{"sku": "A", "units": 5}, {"sku": "A", "units": 6}]
    refused = read(COUNT, message(counted, "m", AT))
    assert [type(each) for each in refused] == [Bad, Bad]
    (added,) = read({**COUNT, "same_sku": "sum"}, message(counted, "m", AT))
    assert added.quantity == 11


def test_a_template_is_filled_without_new_separators() -> None:
    change = sample_change(1, "order.updated")
    assert filled("store.{topic}.{object_id}", change) == (
        "store.order.updated.ord_00000001"
    )
    odd = filled(
        "{store}.{object_id}",
        type(change)(
            id="x",
            store="a.b *",
            topic="t",
            object_id="o>1",
            occurred_at=AT,
            document={},
        ),
    )
    assert odd == "a_b_.o_1"


@pytest.mark.parametrize("template", ["store.{order}", "store.{topic", "a.{}"])
def test_an_unknown_placeholder_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="the placeholders are"):
        checked_template(template)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("amqps://user:s3cret@rabbit.example", "set user and password"),
        ("amqps://rabbit.example/?password=s3cret", "must not have parameters"),
        ("https://s3cret.example", "must be amqps://HOST"),
        ("amqp://rabbit.example", "is not encrypted; use amqps://"),
        ("amqps://", "must be amqps://HOST"),
    ],
)
def test_an_address_without_secrets_and_with_tls_is_required(
    url: str, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        checked_address(
            url, ("amqp", "amqps"), "user and password", allow_plaintext=False
        )
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "allow"), [("amqp://127.0.0.1:5672", False), ("amqp://rabbit.lan", True)]
)
def test_an_address_may_be_unencrypted_on_this_machine(url: str, allow: bool) -> None:
    checked_address(url, ("amqp", "amqps"), "", allow_plaintext=allow)
