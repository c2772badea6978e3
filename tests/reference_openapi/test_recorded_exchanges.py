"""Every recorded exchange of every test is checked against the document."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from scenes.openapi_checks import PROBLEM_TYPE, flaws_of
from scenes.recorded_exchanges import EXCHANGE_FILES, Exchange, Recorder, shape_of
from scenes.reference_process import reference
from scenes.reference_shop import open_shop

if TYPE_CHECKING:
    from pathlib import Path

KEYED = [("Authorization", "Bearer svc_live_x")]
JSON = [("Content-Type", "application/json"), ("X-Request-Id", "req_1")]
REFUSED = [("Content-Type", PROBLEM_TYPE), ("X-Request-Id", "req_1")]
PROBLEM = {
    "type": "https://errors.example/ORDER_NOT_FOUND",
    "title": "There is no such thing",
    "status": 404,
    "detail": "there is no such order",
    "instance": "/api/v1/orders/%7Bid%7D",
    "code": "ORDER_NOT_FOUND",
    "requestId": "req_1",
    "errors": [],
}
MISSING = Exchange(
    method="GET",
    path="/api/v1/orders/x",
    template="/api/v1/orders/{id}",
    query=[],
    headers=KEYED,
    body="",
    status=404,
    reply_headers=REFUSED,
    reply_body=json.dumps(PROBLEM),
)
DELETED = replace(
    MISSING,
    method="DELETE",
    path="/api/v1/products/p",
    template="/api/v1/products/{id}",
    status=200,
    reply_headers=JSON,
    reply_body=json.dumps({"data": {"id": "p", "deleted": True}}),
)
SHIPPED = replace(
    MISSING,
    method="POST",
    path="/api/v1/orders/x/cancel",
    template="/api/v1/orders/{id}/cancel",
    headers=[*KEYED, ("Content-Type", "application/json")],
    status=409,
    body='{"restock": true}',
    reply_body=json.dumps(PROBLEM | {"status": 409, "code": "ORDER_ALREADY_CANCELLED"}),
)


def problem(**changes: Any) -> Exchange:
    return replace(MISSING, reply_body=json.dumps({**PROBLEM, **changes}))


@pytest.mark.parametrize("exchange", [MISSING, DELETED, SHIPPED])
def test_a_described_exchange_has_no_flaw(exchange: Exchange) -> None:
    assert list(flaws_of(exchange)) == []


@pytest.mark.parametrize(
    ("exchange", "flaw"),
    [
        (problem(instance="/api/v1/orders/{id}"), "uri-reference"),
        (problem(status=400), "the problem says 400"),
        (problem(code="CUSTOMER_NOT_FOUND"), "is not one of"),
        (problem(title=None), "'title'"),
        (replace(MISSING, reply_headers=JSON), "media type application/json"),
        (replace(MISSING, reply_body="no"), 'is not of type "object"'),
        (
            replace(MISSING, reply_headers=REFUSED[:1]),
            "Missing required header: X-Request-Id",
        ),
        (replace(MISSING, method="POST"), "offered, or described"),
        (replace(DELETED, status=201), "Unknown response http status: 201"),
        (replace(DELETED, path="/nowhere"), "does not know this path"),
        (replace(DELETED, headers=[]), "Security"),
        (replace(DELETED, reply_body='{"data": {"id": "p"}}'), "'deleted' is a req"),
        (
            replace(DELETED, reply_body='{"data":{"id":"p","deleted":true,"new":1}}'),
            "'new' was unexpected",
        ),
        (replace(SHIPPED, body='{"restock": "yes"}'), "'yes' is not of type"),
        (
            replace(MISSING, reply_headers=[*REFUSED, ("RateLimit", "key;r=(")]),
            "RateLimit: key",
        ),
        (
            replace(MISSING, reply_headers=[*REFUSED, ("RateLimit", '"key";r=1')]),
            "lacks t",
        ),
    ],
)
def test_an_undescribed_exchange_has_a_flaw(exchange: Exchange, flaw: str) -> None:
    assert flaw in "\n".join(flaws_of(exchange))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"id": "ord_01AB"}, {"id": "ord_9ZX0"}, True),
        ([{"a": 1}], [{"a": 1}, {"a": 7}], True),
        ({"total": "1.00"}, {"total": "1499.00"}, True),
        ({"total": "1.00"}, {"total": "1.000"}, False),
        ({"status": "PENDING"}, {"status": "PAID"}, False),
        ({"a": 1}, {"a": None}, False),
        ({"a": 1}, {"a": -1}, False),
        ({"a": 1}, {"b": 1}, False),
        ([{"a": 1}], [{"a": 1}, {"a": "1"}], False),
        (True, False, False),
    ],
)
def test_a_shape_keeps_all_that_a_schema_can_describe(
    one: object, other: object, alike: bool
) -> None:
    assert (shape_of(one) == shape_of(other)) is alike


async def test_exchanges_are_recorded_unless_exempt(tmp_path: Path) -> None:
    heard: list[Exchange] = []
    async with open_shop(tmp_path, recorder=Recorder(heard.append)) as shop:
        for _ in range(2):
            await shop.v1("PUT", "/products/x", {})
        await shop.product()
        assert [one.status for one in heard] == [404, 201]
        assert json.loads(heard[1].body)["title"] == "Lamp"
        assert json.loads(heard[1].reply_body)["data"]["title"] == "Lamp"
        for fault in ("html", "truncate", "drop-after-commit", "refuse"):
            plan = {"http": [{"fault": fault}]}
            await shop.control("PUT", "/stores/demo/faults", plan)
            with pytest.raises((aiohttp.ClientError, AssertionError)):
                assert (await shop.v1("GET", "/products")).status == 200
        await shop.control("DELETE", "/stores/demo/faults")
        await shop.control("PUT", "/stores/demo/quirks", {"quirks": ["bare-v1"]})
        await shop.v1("GET", "/products")
        await shop.shopper("HEAD", "/store")
        await shop.ask("GET", shop.running.access.public_url + "/shop/demo", {})
        assert len(heard) == 2


def test_a_server_of_its_own_is_heard_even_when_killed(tmp_path: Path) -> None:
    list(EXCHANGE_FILES.read_new())
    with reference(tmp_path) as server:
        server.v1("GET", "/store")
        server.kill()
    assert [one.path for one in EXCHANGE_FILES.read_new()] == ["/api/v1/store"]
