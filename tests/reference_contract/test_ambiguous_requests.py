"""What a request leaves open is refused or applied as specified, never guessed."""

from typing import Any

import pytest

from reference_contract.moves import outcome
from scenes.reference_shop import Shop

SIZES = [
    {"title": "S", "price": "10.00", "sku": "TEE-S", "stock": 5},
    {"title": "L", "price": "12.00", "sku": "TEE-L", "stock": 5},
]


async def tee(shop: Shop) -> Any:
    body = {"title": "Tee", "variants": SIZES}
    return (await shop.v1("POST", "/products", body)).data


async def test_recorded_orders_name_the_variant(shop: Shop) -> None:
    product = await tee(shop)
    line = {"productId": product["id"], "quantity": 1, "price": "1.00"}
    reply = await shop.v1("POST", "/orders", {"items": [line]})
    assert outcome(reply) == (422, "VARIANT_REQUIRED")
    assert reply.body["errors"][0]["pointer"] == "/items/0/variantId"
    assert [one["stock"] for one in (await shop.state())["levels"]] == [5, 5]


@pytest.mark.parametrize("by", ["variantId", "sku"])
async def test_recorded_orders_use_the_variant_they_name(shop: Shop, by: str) -> None:
    product = await tee(shop)
    large = product["variants"][1]
    name = {"variantId": large["id"], "sku": "TEE-L"}[by]
    line = {"productId": product["id"], by: name, "quantity": 1, "price": "1.00"}
    order = (await shop.v1("POST", "/orders", {"items": [line]})).data
    assert order["items"][0]["variantId"] == large["id"]
    assert [one["stock"] for one in (await shop.state())["levels"]] == [5, 4]


async def test_put_reaches_the_only_variant(shop: Shop) -> None:
    """The short members of a new product mean its one variant later, too."""
    product = await shop.product(price="100.00", sku="LAMP")
    path, before = f"/products/{product['id']}", await shop.sequence()
    changed = (await shop.v1("PUT", path, {"price": "90.00", "sku": None})).data
    (variant,) = changed["variants"]
    assert (variant["id"], variant["price"]) == (product["variants"][0]["id"], "90.00")
    assert variant["sku"] is None
    assert changed["version"] == product["version"] + 1
    assert await shop.topics_since(before) == ["products/update"]
    assert (await shop.v1("PUT", path, {"price": "90.00"})).data == changed


@pytest.mark.parametrize("sent", [{"price": "1.00"}, {"sku": "X"}])
async def test_put_does_not_choose_among_variants(shop: Shop, sent: Any) -> None:
    product = await tee(shop)
    path = f"/products/{product['id']}"
    reply = await shop.v1("PUT", path, {"vendor": "V", **sent})
    assert outcome(reply) == (409, "VARIANT_REQUIRED")
    assert (await shop.v1("GET", path)).data == product


async def test_put_cannot_remove_the_price(shop: Shop) -> None:
    product = await shop.product()
    reply = await shop.v1("PUT", f"/products/{product['id']}", {"price": None})
    assert (reply.status, reply.body["errors"][0]["pointer"]) == (422, "/price")
