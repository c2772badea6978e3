"""webhook_out sends CloudEvents 1.0 by the rules of the specification, in each mode."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from pydantic import ValidationError

from backhaul_connectors.webhook_out.connector import Settings
from backhaul_sdk import Applied
from backhaul_sdk.contract import TOPICS
from backhaul_sdk.testing import sample_change
from connectors.receiving import NEWER_SECRET, SECRET, Receiver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from backhaul_sdk import Change

REQUIRED = {"specversion", "id", "source", "type"}
NAME = re.compile(r"[a-z0-9]{1,20}")
"""Names of attributes: spec.md, "Naming Conventions"."""
SCHEMA = "https://shop.example/schemas/{topic}.json"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.plug_in()
    yield receiver
    await receiver.close()


async def sent(
    receiver: Receiver, change: Change, **how: str
) -> tuple[dict[str, str], dict[str, Any]]:
    """Push a change as a CloudEvent; return the headers and the JSON of its message."""
    options = {"format": "cloudevents", "cloudevents": how}
    connector = receiver.connector([SECRET, NEWER_SECRET], **options)
    # The receiver checks the signature of Standard Webhooks first.
    assert await connector.push(change) == Applied()
    headers = receiver.headers[-1]
    return headers, receiver.taken[headers["webhook-id"]]


def check_attributes(found: Mapping[str, object]) -> None:
    """Check the rules of the specification that hold in every mode."""
    assert found.keys() >= REQUIRED
    assert found["specversion"] == "1.0"
    for name, value in found.items():
        assert NAME.fullmatch(name), name
        assert isinstance(value, str)
        assert value, f"{name} must not be empty"
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", value)
    assert urlsplit(str(found["source"])).geturl() == found["source"]
    assert datetime.fromisoformat(str(found["time"])).tzinfo is not None
    if "dataschema" in found:
        assert urlsplit(str(found["dataschema"])).scheme


@pytest.mark.parametrize("topic", sorted(TOPICS))
async def test_a_structured_event_is_one_json_object(
    receiver: Receiver, topic: str
) -> None:
    change = sample_change(7, topic)
    headers, event = await sent(receiver, change, data_schema=SCHEMA)
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    data = event.pop("data")
    check_attributes(event)
    assert data == change.document
    assert event == {
        "specversion": "1.0",
        "id": headers["webhook-id"],
        "source": "urn:backhaul:main",
        "type": f"backhaul.{topic}",
        "subject": change.object_id,
        "time": change.occurred_at,
        "datacontenttype": "application/json",
        "dataschema": f"https://shop.example/schemas/{topic}.json",
        "store": "main",
    }


@pytest.mark.parametrize("topic", sorted(TOPICS))
async def test_a_binary_event_has_its_attributes_in_headers(
    receiver: Receiver, topic: str
) -> None:
    change = sample_change(7, topic)
    headers, body = await sent(receiver, change, mode="binary")
    assert headers["content-type"] == "application/json"
    assert body == change.document
    found = {
        name.removeprefix("ce-"): unquote(value)
        for name, value in headers.items()
        if name.startswith("ce-")
    }
    check_attributes(found)
    # Content-Type has it in this mode.
    assert "datacontenttype" not in found
    assert (found["id"], found["subject"]) == (headers["webhook-id"], change.object_id)
    assert "dataschema" not in found


@pytest.mark.parametrize(
    ("subject", "written"),
    [
        ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
        ('a"b%c', "a%22b%25c"),
        ("!#$&'()*+,/:;=?@[]~^`{|}\\<>", "!#$&'()*+,/:;=?@[]~^`{|}\\<>"),
    ],
)
async def test_headers_are_written_as_the_http_binding_says(
    receiver: Receiver, subject: str, written: str
) -> None:
    change = replace(sample_change(7), object_id=subject)
    headers, _ = await sent(receiver, change, mode="binary")
    assert headers["ce-subject"] == written


@pytest.mark.parametrize("mode", ["structured", "binary"])
async def test_an_event_sent_again_has_the_same_source_and_id(
    receiver: Receiver, mode: str
) -> None:
    seen = set()
    for _ in range(2):
        headers, event = await sent(receiver, sample_change(7), mode=mode)
        seen.add(
            (event["source"], event["id"])
            if mode == "structured"
            else (headers["ce-source"], headers["ce-id"])
        )
    assert len(seen) == 1
    _, other = await sent(receiver, sample_change(8), mode="structured")
    assert (other["source"], other["id"]) not in seen


async def test_source_and_type_are_settings(receiver: Receiver) -> None:
    how = {"source": "https://shop.example/{store}", "type_prefix": "com.example."}
    _, event = await sent(receiver, sample_change(7), **how)
    assert event["source"] == "https://shop.example/main"
    assert event["type"] == "com.example.order.placed"


async def test_letters_of_all_languages_stay_as_they_are(receiver: Receiver) -> None:
    change = sample_change(7)
    change = replace(change, document={**change.document, "note": "Grüße 😀"})
    _, event = await sent(receiver, change)
    assert event["data"]["note"] == "Grüße 😀"
    assert json.loads(json.dumps(event)) == event


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"source": ""}, "is not a URI"),
        ({"source": "my shop"}, "is not a URI"),
        ({"source": "urn:{shop}"}, "the placeholders are"),
        ({"type_prefix": "my shop"}, "type_prefix"),
        ({"data_schema": "schemas/order.json"}, "must be a whole URI"),
        ({"mode": "batched"}, "mode"),
    ],
)
def test_a_mistake_is_named(how: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(
            {"url": "https://example.com/", "secrets": [SECRET], "cloudevents": how}
        )
    assert said in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value!r}"
