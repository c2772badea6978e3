"""Idempotency keys: one effect, one answer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from scenes.reference_shop import Shop, cart, open_shop
from scenes.waiting import until


def keyed(key: str) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": key}}


async def test_the_same_request_again(shop: Shop) -> None:
    product = await shop.product()
    first = await shop.shopper("POST", "/orders", cart(product), **keyed("k1"))
    again = await shop.shopper("POST", "/orders", cart(product), **keyed('"k1"'))
    assert again.body == first.body
    assert again.status == 201
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.data["trackingToken"] is not None
    assert len((await shop.state())["orders"]) == 1


async def test_another_request_with_the_key(shop: Shop) -> None:
    product = await shop.product()
    await shop.shopper("POST", "/orders", cart(product), **keyed("k"))
    other = await shop.shopper("POST", "/orders", cart(product, 2), **keyed("k"))
    assert (other.status, other.code) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_refusals_are_not_kept(shop: Shop) -> None:
    product = await shop.product(stock=0)
    body = {"productId": product["id"], "adjustment": -1}
    path = "/inventory/adjust"
    assert (await shop.v1("POST", path, body, **keyed("k"))).status == 409
    await shop.v1("POST", path, {**body, "adjustment": 3})
    assert (await shop.v1("POST", path, body, **keyed("k"))).status == 200
    assert (await shop.v1("POST", path, body, **keyed("k"))).status == 200
    assert (await shop.state())["levels"][0]["stock"] == 2


async def test_sixty_four_at_once_adjust_once(shop: Shop) -> None:
    product = await shop.product(stock=1)
    body = {"productId": product["id"], "adjustment": 5}
    replies = await asyncio.gather(
        *(shop.v1("POST", "/inventory/adjust", body, **keyed("k")) for _ in range(64))
    )
    assert {str(reply.body) for reply in replies} == {str(replies[0].body)}
    assert (await shop.state())["levels"][0]["stock"] == 6


async def test_a_key_belongs_to_its_principal(shop: Shop) -> None:
    product = await shop.product(stock=1)
    other = (await shop.control("POST", "/stores/demo/keys")).data["key"]
    body = {"productId": product["id"], "adjustment": 1}
    for key in (other, ""):
        await shop.v1("POST", "/inventory/adjust", body, key=key, **keyed("k"))
    assert (await shop.state())["levels"][0]["stock"] == 3


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
async def test_an_invalid_key_is_refused(shop: Shop, key: str) -> None:
    product = await shop.product()
    body = {"productId": product["id"], "adjustment": 1}
    reply = await shop.v1("POST", "/inventory/adjust", body, **keyed(key))
    assert (reply.status, reply.code) == (400, "INVALID_IDEMPOTENCY_KEY")


def answers_kept(shop: Shop) -> int:
    rows = shop.running.platform.reader.read
    return int(rows(lambda one: one.value("SELECT COUNT(*) FROM idempotency")))


async def test_the_answer_that_shows_a_new_key_is_not_kept(shop: Shop) -> None:
    access = shop.running.access
    headers = {"Authorization": f"Bearer {access.control_token}"}
    headers |= keyed("k")["headers"]
    url = f"{access.control_url}/_control/stores/demo/keys"
    made = await shop.ask("POST", url, headers, json={"name": "n"})
    assert (await shop.v1("GET", "/store", key=made.data["key"])).status == 200
    assert answers_kept(shop) == 0


async def test_answers_are_deleted_after_a_day(shop: Shop) -> None:
    product = await shop.product()
    await shop.shopper("POST", "/orders", cart(product), **keyed("k"))
    assert answers_kept(shop) == 1
    await shop.control("POST", "/clock", {"advance": 24 * 3600})
    await until(lambda: answers_kept(shop) == 0, "no answer kept")


async def test_answers_survive_a_restart(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        product = await shop.product()
        first = await shop.shopper("POST", "/orders", cart(product), **keyed("k"))
    async with open_shop(tmp_path) as shop:
        again = await shop.shopper("POST", "/orders", cart(product), **keyed("k"))
        assert again.body == first.body
