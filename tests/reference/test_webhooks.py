"""Webhooks: subscriptions, signed deliveries, retries."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from backhaul_reference.platform.state.webhook_outbox import TOPICS
from scenes.reference_shop import (
    Received,
    Receiver,
    Shop,
    open_shop,
    subscribe,
)


def signed(secret: str, body: bytes) -> str:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


async def deliveries(shop: Shop, webhook: Any) -> Any:
    return (await shop.v1("GET", f"/webhooks/{webhook['id']}/deliveries")).data


async def settled(shop: Shop, webhook: Any, status: str) -> Any:
    """Read the delivery list until its newest has a status."""
    while True:
        found = await deliveries(shop, webhook)
        if found and found[0]["status"] == status:
            return found[0]


async def test_a_delivery_is_signed_and_labelled(
    shop: Shop, receiver: Receiver
) -> None:
    webhook = await subscribe(shop, receiver, "products/create")
    product = await shop.product()
    (got,) = await receiver.until(1)
    envelope = json.loads(got.body)
    assert envelope["data"] == product
    assert envelope["topic"] == "products/create"
    assert list(envelope) == [
        "id",
        "topic",
        "apiVersion",
        "storeId",
        "createdAt",
        "sequence",
        "data",
    ]
    assert got.headers["X-Service-Hmac-Sha256"] == signed(webhook["secret"], got.body)
    assert got.headers["X-Service-Topic"] == "products/create"
    assert got.headers["X-Service-Event-Id"] == envelope["id"]
    assert got.headers["X-Service-Attempt"] == "1"
    assert got.headers["X-Service-Store"] == "demo"
    assert got.headers["X-Service-Subscription-Id"] == webhook["id"]
    _check_standard(webhook["secret"], got)


def _check_standard(secret: str, got: Received) -> None:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    stamp = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}."
    digest = hmac.new(key, stamp.encode() + got.body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(digest).decode()
    assert got.headers["webhook-signature"] == expected


async def test_openssl_agrees(shop: Shop, receiver: Receiver, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None and os.environ.get("TEST_REQUIRE") != "all":
        pytest.skip("install openssl (apt-get install openssl)")
    assert openssl is not None
    webhook = await subscribe(shop, receiver)
    await shop.product(title="Lämp \N{ELECTRIC LIGHT BULB}")
    (got,) = await receiver.until(1)
    (tmp_path / "body").write_bytes(got.body)
    command = [openssl, "dgst", "-sha256", "-hmac", webhook["secret"], "-binary"]
    command.append(str(tmp_path / "body"))
    digest = subprocess.run(command, check=True, capture_output=True).stdout  # noqa: ASYNC221  - ends at once
    expected = base64.b64encode(digest).decode()
    assert got.headers["X-Service-Hmac-Sha256"] == expected


async def test_only_chosen_topics(shop: Shop, receiver: Receiver) -> None:
    await subscribe(shop, receiver, "orders/create")
    await shop.order(await shop.product())
    got = await receiver.until(1)
    assert [one.headers["X-Service-Topic"] for one in got] == ["orders/create"]


async def test_every_topic_is_sent(shop: Shop, receiver: Receiver) -> None:
    await subscribe(shop, receiver)
    product = await shop.product()
    order = await shop.order(product)
    await shop.v1("POST", f"/orders/{order['id']}/fulfill")
    await shop.v1("POST", f"/orders/{order['id']}/cancel")
    await shop.v1("PUT", f"/products/{product['id']}", {"title": "T"})
    await shop.v1("DELETE", f"/products/{product['id']}")
    count = await shop.sequence()
    bodies = [json.loads(one.body) for one in await receiver.until(count)]
    assert {one["topic"] for one in bodies} == set(TOPICS)
    assert sorted(one["sequence"] for one in bodies) == list(range(1, count + 1))
    by_topic = {one["topic"]: one["data"] for one in bodies}
    assert by_topic["orders/cancelled"]["trigger"] == "CANCEL"
    assert by_topic["orders/fulfilled"]["shipment"]["id"].startswith("shp_")
    assert by_topic["orders/updated"]["changes"]["status"]["to"]
    assert set(by_topic["products/delete"]) == {
        "id",
        "handle",
        "title",
        "externalId",
        "variants",
        "deletedAt",
    }


async def test_failures_are_retried_with_the_same_bytes(
    shop: Shop, receiver: Receiver
) -> None:
    receiver.answers += [
        web.Response(status=500),
        web.Response(status=302, headers={"Location": "/elsewhere"}),
    ]
    webhook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    got = await receiver.until(3)
    assert len({one.body for one in got}) == 1
    assert len({one.headers["X-Service-Delivery-Id"] for one in got}) == 1
    assert [one.headers["X-Service-Attempt"] for one in got] == ["1", "2", "3"]
    done = await settled(shop, webhook, "DELIVERED")
    assert [one["statusCode"] for one in done["attempts"]] == [500, 302, 200]
    assert done["nextAttemptAt"] is None


async def test_the_schedule_ends_and_redelivery_begins_again(
    shop: Shop, receiver: Receiver
) -> None:
    receiver.answers += [web.Response(status=500) for _ in range(5)]
    webhook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    failed = await settled(shop, webhook, "FAILED")
    assert len(failed["attempts"]) == 4
    path = f"/webhooks/{webhook['id']}/deliveries/{failed['id']}"
    assert (await shop.v1("POST", path + "/redeliver")).status == 202
    done = await settled(shop, webhook, "DELIVERED")
    assert [one["number"] for one in done["attempts"]] == [1, 2, 3, 4, 5, 6]
    assert (await shop.v1("GET", path)).data == done


async def test_gone_disables_and_holds(shop: Shop, receiver: Receiver) -> None:
    receiver.answers.append(web.Response(status=410))
    webhook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    await settled(shop, webhook, "FAILED")
    path = f"/webhooks/{webhook['id']}"
    disabled = (await shop.v1("GET", path)).data
    assert (disabled["status"], disabled["disabledReason"]) == ("DISABLED", "GONE")
    await shop.product()
    assert (await deliveries(shop, webhook))[0]["status"] == "HELD"
    enabled = (await shop.v1("PUT", path, {"status": "ACTIVE"})).data
    assert (enabled["status"], enabled["consecutiveFailures"]) == ("ACTIVE", 0)
    await shop.product()
    assert len(await receiver.until(2)) == 2
    assert (await shop.state())["deliveries"]["HELD"] == 1


async def test_retry_after_is_honoured(shop: Shop, receiver: Receiver) -> None:
    wait = web.Response(status=503, headers={"Retry-After": "3600"})
    receiver.answers.append(wait)
    webhook = await subscribe(shop, receiver, "products/create")
    product = await shop.product()
    await receiver.until(1)
    pending = (await deliveries(shop, webhook))[0]
    while not pending["attempts"]:
        pending = (await deliveries(shop, webhook))[0]
    assert pending["status"] == "PENDING"
    assert pending["nextAttemptAt"][:13] > product["createdAt"][:13]


async def test_subscriptions_come_and_go(shop: Shop, receiver: Receiver) -> None:
    made = await subscribe(shop, receiver, "orders/create")
    assert made["secret"].startswith("whsec_")
    path = f"/webhooks/{made['id']}"
    shown = (await shop.v1("GET", path)).data
    assert "secret" not in shown
    assert (await shop.v1("GET", "/webhooks")).data == [shown]
    changed = await shop.v1("PUT", path, {"topics": ["products/create"]})
    assert changed.data["topics"] == ["products/create"]
    assert (await shop.v1("DELETE", path)).data["deleted"] is True
    assert (await shop.v1("GET", path)).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"address": "ftp://x.example/", "topics": ["orders/create"]},
        {"address": "http://a:b@x.example/", "topics": ["orders/create"]},
        {"address": "no url", "topics": ["orders/create"]},
        {"address": "http://[::1", "topics": ["orders/create"]},
        {"address": "http://x:99999/", "topics": ["orders/create"]},
        {"address": "http://x.example/" + "x" * 2048, "topics": ["orders/create"]},
        {"address": "http://x.example/", "topics": ["orders/lost"]},
        {"address": "http://x.example/", "topics": []},
        {"topics": ["orders/create"]},
    ],
)
async def test_an_invalid_subscription_is_refused(shop: Shop, body: Any) -> None:
    assert (await shop.v1("POST", "/webhooks", body)).status == 422


async def test_topics_need_their_read_scope(shop: Shop, receiver: Receiver) -> None:
    made = await shop.control("POST", "/stores/demo/keys", {"scopes": ["orders:read"]})
    key = made.data["key"]
    body = {"address": receiver.url, "topics": ["orders/create"]}
    assert (await shop.v1("POST", "/webhooks", body, key=key)).status == 201
    body["topics"] = ["orders/create", "products/create"]
    refused = await shop.v1("POST", "/webhooks", body, key=key)
    assert refused.body["requiredScopes"] == ["products:read"]
    other = await subscribe(shop, receiver, "products/create")
    path = f"/webhooks/{other['id']}/deliveries"
    assert (await shop.v1("GET", path, key=key)).status == 403


async def test_private_targets_are_refused(tmp_path: Path) -> None:
    async with open_shop(tmp_path, private=False) as shop:
        for host in ("127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "localhost"):
            body = {"address": f"http://{host}/", "topics": ["orders/create"]}
            assert (await shop.v1("POST", "/webhooks", body)).status == 422


async def test_pausing_during_an_attempt_holds_its_retry(
    shop: Shop, receiver: Receiver
) -> None:
    receiver.gate = asyncio.Event()
    receiver.answers.append(web.Response(status=500))
    webhook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    await receiver.until(1)
    await shop.v1("PUT", f"/webhooks/{webhook['id']}", {"status": "PAUSED"})
    receiver.gate.set()
    held = await settled(shop, webhook, "HELD")
    while not held["attempts"]:
        held = await settled(shop, webhook, "HELD")
    assert (held["status"], held["nextAttemptAt"]) == ("HELD", None)
    assert len(receiver.received) == 1


async def test_stopping_does_not_wait_for_receivers(
    tmp_path: Path, receiver: Receiver
) -> None:
    """What is in flight at the stop is sent again after the next start."""
    receiver.gate = asyncio.Event()
    async with open_shop(tmp_path) as shop:
        await subscribe(shop, receiver, "products/create")
        await shop.product()
        await receiver.until(1)
        started = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - started < 2
    receiver.gate.set()
    async with open_shop(tmp_path):
        first, second = await receiver.until(2)
    assert first.body == second.body
    assert second.headers["X-Service-Attempt"] == "1"
