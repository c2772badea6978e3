"""Two stores: an id of one, in any path or body, is unknown to the other."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from scenes.merchant import collection, discount
from scenes.reference_shop import Reply, Shop, cart

CONTROLLED = (
    ("GET", "/collections/{collection}"),
    ("PUT", "/collections/{collection}"),
    ("DELETE", "/collections/{collection}"),
    ("POST", "/collections/{collection}/publish"),
    ("POST", "/collections/{collection}/unpublish"),
    ("GET", "/discounts/{discount}"),
    ("PUT", "/discounts/{discount}"),
    ("DELETE", "/discounts/{discount}"),
    ("GET", "/zones/{zone}"),
    ("PUT", "/zones/{zone}"),
    ("DELETE", "/zones/{zone}"),
    ("POST", "/orders/{order}/confirm"),
    ("POST", "/orders/{order}/mark-paid"),
    ("POST", "/orders/{order}/refund"),
)
SHOPPED = (
    "/products/{product}",
    "/products/lamp",
    "/collections/summer",
    "/orders/track/{token}",
)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What the first store has, and the key of the second."""

    shop: Shop
    ids: dict[str, str]
    key: str
    own: Any

    async def control(self, method: str, path: str, store: str) -> Reply:
        body: Any = None if method == "GET" else {}
        where = f"/stores/{store}{path.format(**self.ids)}"
        return await self.shop.control(method, where, body)


@pytest.fixture
async def neighbours(shop: Shop) -> AsyncIterator[Neighbours]:
    product = await shop.product()
    bought = (await shop.shopper("POST", "/orders", cart(product))).data
    shown = (await shop.v1("GET", f"/orders/{bought['id']}")).data
    ids = {
        "product": product["id"],
        "variant": product["variants"][0]["id"],
        "order": bought["id"],
        "line": shown["items"][0]["id"],
        "token": bought["trackingToken"],
        "collection": (await collection(shop, productIds=[product["id"]]))["id"],
        "discount": (await discount(shop))["id"],
        "zone": (await shop.control("GET", "/stores/demo/zones")).data[0]["id"],
    }
    made = await shop.control("POST", "/stores", {"subdomain": "other"})
    key = made.data["apiKey"]
    body = {"title": "Own", "price": "1.00", "stock": 9}
    own = (await shop.v1("POST", "/products", body, key=key)).data
    before = await shop.state()
    yield Neighbours(shop, ids, key, own)
    assert await shop.state() == before


@pytest.mark.parametrize(("method", "path"), CONTROLLED)
async def test_the_merchants_work(
    neighbours: Neighbours, method: str, path: str
) -> None:
    reply = await neighbours.control(method, path, "other")
    assert reply.status == 404, reply.body


@pytest.mark.parametrize("path", SHOPPED)
async def test_shoppers_of_another_store_see_no_object(
    neighbours: Neighbours, path: str
) -> None:
    path, shop = path.format(**neighbours.ids), neighbours.shop
    assert (await shop.shopper("GET", path)).status == 200
    assert (await shop.shopper("GET", path, store="other")).status == 404


async def test_a_payment_report(neighbours: Neighbours) -> None:
    path = f"/orders/track/{neighbours.ids['token']}/payment"
    body = {"transactionId": "T"}
    reply = await neighbours.shop.shopper("POST", path, body, store="other")
    assert (reply.status, reply.code) == (404, "ORDER_NOT_FOUND")


async def test_a_discount_code(neighbours: Neighbours) -> None:
    body = {"code": "SAVE10", "cart": {"subtotal": "100.00"}}
    path = "/discounts/validate"
    reply = await neighbours.shop.shopper("POST", path, body, store="other")
    assert (reply.status, reply.code) == (400, "DISCOUNT_NOT_FOUND")


async def test_products_of_a_collection(neighbours: Neighbours) -> None:
    path = f"/products?collectionId={neighbours.ids['collection']}"
    assert (await neighbours.shop.shopper("GET", path, store="other")).data == []


async def test_a_basket(neighbours: Neighbours) -> None:
    product = {
        "id": neighbours.ids["product"],
        "variants": [{"id": neighbours.ids["variant"]}],
    }
    body = cart(product)
    reply = await neighbours.shop.shopper("POST", "/orders", body, store="other")
    assert (reply.status, reply.code) == (409, "PRODUCT_UNAVAILABLE")


@pytest.mark.parametrize(
    ("path", "more"),
    [("/inventory/adjust", {"adjustment": 1}), ("/inventory/set", {"stock": 1})],
)
async def test_a_variant_in_a_body(
    neighbours: Neighbours, path: str, more: dict[str, int]
) -> None:
    ids = {"productId": neighbours.own["id"], "variantId": neighbours.ids["variant"]}
    reply = await neighbours.shop.v1("POST", path, ids | more, key=neighbours.key)
    assert (reply.status, reply.code) == (404, "VARIANT_NOT_FOUND")


async def test_a_line_in_a_body(neighbours: Neighbours) -> None:
    shop, key = neighbours.shop, neighbours.key
    item = {"productId": neighbours.own["id"], "quantity": 1, "price": "1.00"}
    order = (await shop.v1("POST", "/orders", {"items": [item]}, key=key)).data
    body = {"items": [{"lineItemId": neighbours.ids["line"], "quantity": 1}]}
    reply = await shop.v1("POST", f"/orders/{order['id']}/fulfill", body, key=key)
    assert (reply.status, reply.code) == (422, "VALIDATION_ERROR")


async def test_a_collection_in_a_body(neighbours: Neighbours) -> None:
    """Nothing joins another store's collection, whatever the answer."""
    path = f"/products/{neighbours.own['id']}"
    body = {"collectionIds": [neighbours.ids["collection"]]}
    reply = await neighbours.shop.v1("PUT", path, body, key=neighbours.key)
    assert reply.status in {404, 422}
    shown = (await neighbours.shop.v1("GET", path, key=neighbours.key)).data
    assert shown["collectionIds"] == []


async def test_history_filtered_by_ids_of_another_store_is_empty(
    neighbours: Neighbours,
) -> None:
    for query in ("productId={product}", "variantId={variant}", "orderId={order}"):
        path = "/inventory/history?" + query.format(**neighbours.ids)
        assert (await neighbours.shop.v1("GET", path, key=neighbours.key)).data == []
        assert (await neighbours.shop.v1("GET", path)).data != []
