"""Contract 3.5: products, subscriptions, deliveries, stores."""

import itertools
from typing import Any

import pytest
from aiohttp import web

from scenes.reference_shop import Receiver, Shop, subscribe

VISIBILITIES = ("active", "draft", "archived")


@pytest.mark.parametrize(
    ("now", "then"), list(itertools.product(VISIBILITIES, repeat=2))
)
async def test_every_move_of_a_product(shop: Shop, now: str, then: str) -> None:
    product = await shop.product(status=now)
    sequence = await shop.sequence()
    reply = await shop.v1("PUT", f"/products/{product['id']}", {"status": then})
    assert reply.data["status"] == then
    told = [] if now == then else ["products/update"]
    assert await shop.topics_since(sequence) == told
    seen = await shop.shopper("GET", f"/products/{product['id']}")
    assert seen.status == (200 if then == "active" else 404)


@pytest.mark.parametrize("now", VISIBILITIES)
async def test_products_are_deleted_from_anywhere(shop: Shop, now: str) -> None:
    path = f"/products/{(await shop.product(status=now))['id']}"
    assert (await shop.v1("DELETE", path)).status == 200
    for method, body in (("GET", None), ("PUT", {"status": "active"}), ("DELETE", {})):
        gone = await shop.v1(method, path, body)
        assert (gone.status, gone.code) == (404, "PRODUCT_NOT_FOUND")


@pytest.mark.parametrize("status", ["deleted", "ACTIVATED", "", None, 1])
async def test_an_invalid_status_of_a_product_is_refused(
    shop: Shop, status: Any
) -> None:
    product = await shop.product()
    reply = await shop.v1("PUT", f"/products/{product['id']}", {"status": status})
    assert (reply.status, reply.code) == (422, "VALIDATION_ERROR")


async def listed(shop: Shop, path: str) -> Any:
    return (await shop.v1("GET", path + "/deliveries")).data


async def settled(shop: Shop, path: str, status: str) -> Any:
    """Read the deliveries until the newest has a status."""
    while True:
        found = await listed(shop, path)
        if found and found[0]["status"] == status:
            return found[0]


async def subscribed(shop: Shop, receiver: Receiver, status: str) -> str:
    """A subscription's path, once it stands where a row of the table begins."""
    webhook = await subscribe(shop, receiver, "products/create")
    path = f"/webhooks/{webhook['id']}"
    if status == "PAUSED":
        await shop.v1("PUT", path, {"status": "PAUSED"})
    if status == "DISABLED":
        receiver.answers.append(web.Response(status=410))
        await shop.product()
        await settled(shop, path, "FAILED")
    assert (await shop.v1("GET", path)).data["status"] == status
    return path


@pytest.mark.parametrize(
    ("now", "then", "refusal"),
    [
        ("ACTIVE", "ACTIVE", None),
        ("ACTIVE", "PAUSED", None),
        ("ACTIVE", "DISABLED", (422, "VALIDATION_ERROR")),
        ("PAUSED", "ACTIVE", None),
        ("PAUSED", "PAUSED", None),
        ("PAUSED", "DISABLED", (422, "VALIDATION_ERROR")),
        ("DISABLED", "ACTIVE", None),
        ("DISABLED", "PAUSED", (409, "WEBHOOK_DISABLED")),
        ("DISABLED", "DISABLED", (422, "VALIDATION_ERROR")),
    ],
)
async def test_every_move_of_a_subscription(
    shop: Shop,
    receiver: Receiver,
    now: str,
    then: str,
    refusal: tuple[int, str] | None,
) -> None:
    path = await subscribed(shop, receiver, now)
    reply = await shop.v1("PUT", path, {"status": then})
    if refusal is not None:
        assert (reply.status, reply.code) == refusal
        assert (await shop.v1("GET", path)).data["status"] == now
        return
    assert reply.data["status"] == then
    assert reply.data["consecutiveFailures"] == 0
    assert reply.data["disabledReason"] is None


async def test_a_delivery_arrives(shop: Shop, receiver: Receiver) -> None:
    path = await subscribed(shop, receiver, "ACTIVE")
    await shop.product()
    done = await settled(shop, path, "DELIVERED")
    assert done["nextAttemptAt"] is None
    assert [one["statusCode"] for one in done["attempts"]] == [200]


async def test_a_delivery_fails_for_good(shop: Shop, receiver: Receiver) -> None:
    receiver.answers += [web.Response(status=500) for _ in range(4)]
    path = await subscribed(shop, receiver, "ACTIVE")
    await shop.product()
    failed = await settled(shop, path, "FAILED")
    assert [one["statusCode"] for one in failed["attempts"]] == [500] * 4
    assert failed["nextAttemptAt"] is None
    again = f"{path}/deliveries/{failed['id']}/redeliver"
    assert (await shop.v1("POST", again)).status == 202
    done = await settled(shop, path, "DELIVERED")
    assert (done["id"], len(await listed(shop, path))) == (failed["id"], 1)


@pytest.mark.parametrize("state", ["PAUSED", "DISABLED"])
async def test_a_held_delivery_is_sent_by_a_replay(
    shop: Shop, receiver: Receiver, state: str
) -> None:
    path = await subscribed(shop, receiver, state)
    before = len(receiver.received)
    product = await shop.product()
    held = (await listed(shop, path))[0]
    assert (held["status"], held["attempts"]) == ("HELD", [])
    await shop.v1("PUT", path, {"status": "ACTIVE"})
    assert (await listed(shop, path))[0]["status"] == "HELD"
    since = {"since": product["createdAt"]}
    assert (await shop.v1("POST", path + "/replay", since)).status == 202
    assert (await settled(shop, path, "DELIVERED"))["id"] == held["id"]
    assert len(await receiver.until(before + 1)) == before + 1


async def test_a_store_sleeps_and_wakes(shop: Shop) -> None:
    product = await shop.product()
    asked = ("/store", "/products", f"/products/{product['id']}", "/navigation")
    for active in (False, False, True, True):
        await shop.settings(active=active)
        for path in asked:
            seen = await shop.shopper("GET", path)
            assert seen.status == (200 if active else 404)
            assert active or seen.code == "STORE_NOT_FOUND"
        kept = await shop.v1("GET", "/products")
        assert kept.status == (200 if active else 403)
        assert active or kept.code == "STORE_INACTIVE"
