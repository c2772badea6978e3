"""Injected faults: each kind on the wire, its scope, its seed, and its count."""

import asyncio
import base64
import hashlib
import hmac
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from scenes.reference_shop import Received, Receiver, Reply, Shop, subscribe

FAULTS = "/stores/demo/faults"
HANGS_UP = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


async def arm(shop: Shop, *http: Any, webhooks: Any = (), seed: int = 1) -> None:
    body = {"seed": seed, "http": list(http), "webhooks": list(webhooks)}
    reply = await shop.control("PUT", FAULTS, body)
    assert reply.status == 200, reply.body


async def fired(shop: Shop) -> list[int]:
    return [one["fired"] for one in (await shop.control("GET", FAULTS)).data]


async def test_rate_limits_come_in_bursts(shop: Shop) -> None:
    await arm(shop, {"fault": "rate429", "count": 3, "burst": 3, "seconds": 7})
    replies = [await shop.v1("GET", "/store") for _ in range(5)]
    assert [one.status for one in replies] == [429, 429, 429, 200, 200]
    assert replies[0].code == "RATE_LIMITED"
    assert replies[0].headers["Retry-After"] == "7"
    assert await fired(shop) == [3]


async def test_server_errors_leave_no_effect(shop: Shop) -> None:
    await arm(shop, {"fault": "5xx", "status": 502, "method": "POST", "count": 1})
    body = {"title": "Lamp", "price": "1.00"}
    assert (await shop.v1("POST", "/products", body)).status == 502
    assert (await shop.v1("GET", "/products")).data == []
    assert (await shop.v1("POST", "/products", body)).status == 201


async def test_a_proxy_answers_html(shop: Shop) -> None:
    await arm(shop, {"fault": "html", "count": 1})
    reply = await shop.v1("GET", "/products")
    assert (reply.status, reply.headers["Content-Type"][:9]) == (502, "text/html")
    assert "Bad Gateway" in reply.body


async def test_connections_are_refused(shop: Shop) -> None:
    await arm(shop, {"fault": "refuse", "count": 2})
    body = {"title": "Lamp", "price": "1.00"}
    for _ in range(2):
        with pytest.raises(HANGS_UP):
            await shop.v1("POST", "/products", body)
    assert (await shop.v1("GET", "/products")).data == []


async def test_a_dropped_answer_is_committed_and_repeated(shop: Shop) -> None:
    product = await shop.product(stock=5)
    await arm(shop, {"fault": "drop-after-commit", "method": "POST", "count": 1})
    body = {"productId": product["id"], "adjustment": -1}
    key = {"Idempotency-Key": "k"}
    with pytest.raises(HANGS_UP):
        await shop.v1("POST", "/inventory/adjust", body, headers=key)
    assert (await shop.state())["levels"][0]["stock"] == 4
    again = await shop.v1("POST", "/inventory/adjust", body, headers=key)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (await shop.state())["levels"][0]["stock"] == 4


async def test_answers_are_truncated(shop: Shop) -> None:
    await shop.product()
    await arm(shop, {"fault": "truncate", "count": 1})
    with pytest.raises(aiohttp.ClientPayloadError):
        await shop.v1("GET", "/products")
    assert len((await shop.v1("GET", "/products")).data) == 1


async def test_latency_waits_for_the_clock(shop: Shop) -> None:
    await arm(shop, {"fault": "latency", "seconds": 3600, "count": 1})
    waiting = asyncio.create_task(shop.v1("GET", "/store"))
    while await fired(shop) != [1]:
        pass
    assert (await shop.v1("GET", "/store")).status == 200
    assert not waiting.done()
    await shop.control("POST", "/clock", {"advance": 3600})
    assert (await waiting).status == 200


@pytest.mark.parametrize(
    ("scope", "path", "struck"),
    [
        ({"route": "/api/v1/products/{id}"}, "/products/x", True),
        ({"route": "/api/v1/products/*"}, "/products/x", True),
        ({"route": "*/products"}, "/products/x", False),
        ({"route": "/api/v1/*"}, "/store", True),
        ({"route": "/storefront/*"}, "/store", False),
        ({"method": "POST"}, "/store", False),
        ({"method": "GET"}, "/store", True),
    ],
)
async def test_faults_keep_to_their_scope(
    shop: Shop, scope: Any, path: str, struck: bool
) -> None:
    await arm(shop, {"fault": "5xx", **scope})
    assert ((await shop.v1("GET", path)).status == 503) is struck
    assert await fired(shop) == [int(struck)]


async def test_a_seed_repeats_itself(shop: Shop) -> None:
    async def round_of(seed: int) -> list[int]:
        await arm(shop, {"fault": "5xx", "probability": 0.5}, seed=seed)
        return [(await shop.v1("GET", "/store")).status for _ in range(40)]

    first = await round_of(7)
    assert first == await round_of(7)
    assert first != await round_of(8)
    assert set(first) == {200, 503}
    assert await fired(shop) == [(await round_of(8)).count(503)]


async def test_a_fault_ends_and_the_others_go_on(shop: Shop) -> None:
    await arm(shop, {"fault": "5xx"}, {"fault": "latency", "seconds": 0})
    first, second = (await shop.control("GET", FAULTS)).data
    assert (await shop.control("DELETE", f"{FAULTS}/{first['id']}")).data == [second]
    again = await shop.control("DELETE", f"{FAULTS}/{first['id']}")
    assert again.code == "FAULT_NOT_FOUND"
    assert (await shop.v1("GET", "/store")).status == 200
    [left] = (await shop.control("GET", FAULTS)).data
    assert (left["id"], left["fired"]) == (second["id"], 1)


async def test_faults_are_one_stores_and_end(shop: Shop) -> None:
    made = await shop.control("POST", "/stores", {"subdomain": "other"})
    await arm(shop, {"fault": "5xx"})
    key = made.data["apiKey"]
    assert (await shop.v1("GET", "/store", key=key)).status == 200
    assert (await shop.shopper("GET", "/store")).status == 503
    assert (await shop.control("GET", "/stores/demo")).status == 200
    assert (await shop.control("DELETE", FAULTS)).data[0]["fired"] == 1
    assert (await shop.v1("GET", "/store")).status == 200
    await arm(shop, {"fault": "5xx"})
    await shop.control("POST", "/stores/demo/reset")
    assert (await shop.control("GET", FAULTS)).data == []


@pytest.mark.parametrize(
    "body",
    [
        {"http": [{"fault": "fire"}]},
        {"http": [{"fault": "5xx", "probability": 1.5}]},
        {"http": [{"fault": "5xx", "status": 200}]},
        {"http": [{"fault": "5xx", "chance": 1}]},
        {"http": [{"fault": "duplicate"}]},
        {"webhooks": [{"fault": "5xx"}]},
        {"faults": []},
    ],
)
async def test_an_invalid_fault_is_refused(shop: Shop, body: Any) -> None:
    assert (await shop.control("PUT", FAULTS, body)).status == 422


def correctly_signed(got: Received, secret: str) -> bool:
    digest = hmac.digest(secret.encode(), got.body, hashlib.sha256)
    expected = base64.b64encode(digest).decode()
    return got.headers["X-Service-Hmac-Sha256"] == expected


async def test_deliveries_come_twice(shop: Shop, receiver: Receiver) -> None:
    await subscribe(shop, receiver, "products/create")
    await arm(shop, webhooks=[{"fault": "duplicate", "count": 1}])
    await shop.product()
    first, second = await receiver.until(2)
    assert first == second
    await shop.product()
    assert len(await receiver.until(3)) == 3


async def test_deliveries_come_out_of_turn(shop: Shop, receiver: Receiver) -> None:
    await subscribe(shop, receiver, "products/create")
    await arm(shop, webhooks=[{"fault": "reorder", "count": 1, "seconds": 600}])
    await shop.product()
    while await fired(shop) != [1]:
        pass
    await shop.product()
    got = [json.loads(one.body)["sequence"] for one in await receiver.until(2)]
    assert got == [2, 1]


async def test_deliveries_are_delayed(shop: Shop, receiver: Receiver) -> None:
    await subscribe(shop, receiver, "products/create")
    await arm(shop, webhooks=[{"fault": "delay", "count": 1, "seconds": 900.5}])
    await shop.product()
    while await fired(shop) != [1]:
        pass
    assert receiver.received == []
    await shop.control("POST", "/clock", {"advance": 901})
    assert len(await receiver.until(1)) == 1


async def test_deliveries_are_lost(shop: Shop, receiver: Receiver) -> None:
    webhook = await subscribe(shop, receiver)
    rule = {"fault": "drop", "topic": "products/create"}
    await arm(shop, webhooks=[rule])
    product = await shop.product()
    path = f"/webhooks/{webhook['id']}/deliveries"
    while (lost := (await shop.v1("GET", path)).data[0])["status"] != "FAILED":
        pass
    assert [one["error"] for one in lost["attempts"]] == ["dropped"]
    await shop.v1("PUT", f"/products/{product['id']}", {"title": "T"})
    (got,) = await receiver.until(1)
    assert got.headers["X-Service-Topic"] == "products/update"


async def test_signatures_are_spoilt(shop: Shop, receiver: Receiver) -> None:
    receiver.answers.append(web.Response(status=401))
    webhook = await subscribe(shop, receiver, "products/create")
    await arm(shop, webhooks=[{"fault": "corrupt-signature", "count": 1}])
    await shop.product()
    wrong, right = await receiver.until(2)
    assert not correctly_signed(wrong, webhook["secret"])
    assert correctly_signed(right, webhook["secret"])
    assert wrong.body == right.body
    listed = (await shop.control("GET", FAULTS)).data
    assert (listed[0]["topic"], listed[0]["fired"]) == ("*", 1)


async def quoted(shop: Shop, **headers: str) -> Reply:
    """Ask what delivery costs; the store is named in the body alone."""
    body = {
        "storeId": shop.running.access.store_id,
        "items": [{"productId": "p", "quantity": 1, "price": "10.00"}],
        "address": {"country": "IN"},
    }
    url = shop.running.access.public_url + "/api/shipping/calculate"
    return await shop.ask("POST", url, headers, json=body)


@pytest.mark.parametrize("route", ["*", "/api/shipping/calculate"])
async def test_quotes_are_refused_by_faults(shop: Shop, route: str) -> None:
    await arm(shop, {"fault": "rate429", "count": 2, "burst": 2, "route": route})
    assert [(await quoted(shop)).status for _ in range(3)] == [429, 429, 200]
    await arm(shop, {"fault": "5xx", "status": 502, "count": 1, "route": route})
    assert [(await quoted(shop)).status for _ in range(2)] == [502, 200]
    await arm(shop, {"fault": "html", "count": 1, "route": route})
    assert "Bad Gateway" in (await quoted(shop)).body
    for fault in ("refuse", "drop-after-commit"):
        await arm(shop, {"fault": fault, "count": 1, "route": route})
        with pytest.raises(HANGS_UP):
            await quoted(shop)
    await arm(shop, {"fault": "truncate", "count": 1, "route": route})
    with pytest.raises(aiohttp.ClientPayloadError):
        await quoted(shop)
    assert (await quoted(shop)).status == 200


async def test_quotes_wait_for_the_clock(shop: Shop) -> None:
    await arm(shop, {"fault": "latency", "seconds": 3600, "count": 1})
    waiting = asyncio.create_task(quoted(shop))
    while await fired(shop) != [1]:
        pass
    assert not waiting.done()
    await shop.control("POST", "/clock", {"advance": 3600})
    assert (await waiting).status == 200


async def test_a_quote_whose_body_is_broken_is_struck_by_the_headers_store(
    shop: Shop,
) -> None:
    await arm(shop, {"fault": "5xx"})
    url = shop.running.access.public_url + "/api/shipping/calculate"
    for raw in (b"{", b"{}"):
        headers = {"x-subdomain": "demo", "Content-Type": "application/json"}
        assert (await shop.ask("POST", url, headers, data=raw)).status == 503
