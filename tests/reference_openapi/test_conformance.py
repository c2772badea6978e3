"""Calls of all operations agree with the document, the RFCs and client libraries."""

from __future__ import annotations

import asyncio
import json
import os
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from http_sfv.list import List
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from backhaul_reference.openapi import document
from backhaul_reference.platform.json_codec import encode
from backhaul_reference.platform.state import webhook_outbox
from backhaul_reference.server import OFFERED
from reference_openapi.conflicts import conflict
from reference_openapi.conversation import Conversation, open_conversation
from reference_openapi.recording import record, shape
from reference_openapi.refusing import exhaust, refuse
from reference_openapi.walk import walk
from scenes.reference_shop import subscribe

if TYPE_CHECKING:
    from scenes.reference_shop import Receiver, Reply, Shop

TOPICS = set(webhook_outbox.TOPICS)
DOCUMENT: Any = json.loads(encode(document.document(OFFERED)))
OPERATIONS = [
    operation for path in DOCUMENT["paths"].values() for operation in path.values()
]
UNSEEN = {408, 500, 503}
"""A body that takes too long, a failure of ours, a full disk: no walk meets them."""
STRUCTURED = {"RateLimit": List, "RateLimit-Policy": List}
EXAMPLES = Path(document.__file__).with_name("examples.json")
SUMMER = {"title": "Summer", "published": True}
SPECIFIED = ("/storefront/", "/api/v1/", "/api/shipping/calculate")


async def walked(shop: Shop, receiver: Receiver) -> Conversation:
    await shop.settings(paymentSettings={"customQr": {"enabled": True}})
    made = await shop.control("POST", "/stores/demo/collections", SUMMER)
    assert made.status == 201, made.body
    talk = await open_conversation(shop)
    await walk(talk, receiver.url)
    return talk


async def test_the_document_is_valid_and_knows_no_control(shop: Shop) -> None:
    talk = await open_conversation(shop)
    await asyncio.to_thread(validate, talk.document)
    assert "_control" not in str(talk.document)
    service = {"/healthz", "/robots.txt", "/openapi.json"}
    for path in talk.document["paths"].keys() - service:
        assert path.startswith(SPECIFIED), path
    assert len(talk.document["webhooks"]) == 9


async def test_every_operation_is_called_and_conforms_to_the_document(
    shop: Shop, receiver: Receiver
) -> None:
    talk = await walked(shop, receiver)
    paths = talk.document["paths"]
    offered = {one["operationId"] for item in paths.values() for one in item.values()}
    assert offered == {talk.operation(one) for one in talk.exchanges}


async def test_examples_are_those_of_a_run(
    shop: Shop, strict_shop: Shop, receiver: Receiver
) -> None:
    talk = await walked(shop, receiver)
    await conflict(talk, receiver)
    await refuse(talk, receiver.url)
    limited = await open_conversation(strict_shop)
    await exhaust(limited)
    talk.exchanges += limited.exchanges
    while not {json.loads(one.body)["topic"] for one in receiver.received} >= TOPICS:
        await receiver.until(len(receiver.received) + 1)
    made = record(talk, receiver.received)
    if "RECORD_EXAMPLES" in os.environ:
        EXAMPLES.write_text(json.dumps(made, indent=1) + "\n")
    kept = json.loads(EXAMPLES.read_text())
    assert shape(kept) == shape(made)


@pytest.mark.parametrize("operation", OPERATIONS, ids=itemgetter("operationId"))
def test_every_refusal_has_an_example(operation: Any) -> None:
    for status, answer in operation["responses"].items():
        content = answer.get("content", {}).get("application/problem+json", {})
        shown = content.get("examples", {})
        assert shown or int(status) < 400 or int(status) in UNSEEN, status
        for code, example in shown.items():
            problem = example["value"]
            assert (problem["code"], problem["status"]) == (code, int(status))
            schema = content["schema"] | {"components": DOCUMENT["components"]}
            OAS31Validator(schema).validate(problem)


@pytest.mark.parametrize("topic", sorted(TOPICS))
def test_every_webhook_has_an_example(topic: str) -> None:
    request = DOCUMENT["webhooks"][topic]["post"]["requestBody"]
    content = request["content"]["application/json"]
    schema = content["schema"] | {"components": DOCUMENT["components"]}
    OAS31Validator(schema).validate(content["example"])


async def test_deliveries_verify_and_match_the_webhooks_section(
    shop: Shop, receiver: Receiver
) -> None:
    secret = (await subscribe(shop, receiver))["secret"]
    talk = await walked(shop, receiver)
    received = await receiver.until(9)
    document = talk.document
    mine = [one for one in received if one.headers["webhook-signature"]]
    verified = [one for one in mine if _verified(secret, one)]
    for one in verified:
        operation = document["webhooks"][one.headers["X-Service-Topic"]]["post"]
        for parameter in operation["parameters"]:
            assert one.headers[parameter["name"]]
        content = operation["requestBody"]["content"]["application/json"]
        schema = content["schema"] | {"components": document["components"]}
        OAS31Validator(schema).validate(_verified(secret, one))
    assert len(verified) >= 5


async def test_structured_headers_parse(limited_shop: Shop) -> None:
    replies: list[Reply] = [
        await limited_shop.v1("GET", "/products"),
        await limited_shop.shopper("GET", "/products"),
    ]
    while replies[-1].status != 429:
        replies.append(await limited_shop.v1("GET", "/store"))
    for reply in replies:
        _check_structured(reply)
    assert int(replies[-1].headers["Retry-After"]) >= 1


def _check_structured(reply: Reply) -> None:
    for name, kind in STRUCTURED.items():
        parsed = kind()
        parsed.parse(reply.headers[name].encode())
        wanted = {"r", "t"} if name == "RateLimit" else {"q", "w"}
        assert wanted <= set(parsed[0].params)


def _verified(secret: str, delivery: Any) -> Any:
    """The body, or None where another subscription's secret signed it."""
    try:
        return Webhook(secret).verify(delivery.body, dict(delivery.headers))
    except WebhookVerificationError:
        return None
