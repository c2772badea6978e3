"""Every refusal in the endpoint table is reachable: status, code, problem document."""

import io
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from backhaul_reference.platform.state.database import Rows, open_writer
from backhaul_reference.platform.state.schema import TABLES
from backhaul_reference.platform.state.unique_values import TAKEN
from scenes.reference_shop import Reply, Shop, open_shop

Refused = Callable[[Shop], Awaitable[Reply]]
JSON = {"Content-Type": "application/json"}
MEMBERS = {
    *("type", "title", "status", "detail", "instance", "code", "requestId", "errors"),
}


def v1(method: str, path: str, json: Any = None, **sent: Any) -> Refused:
    async def ask(shop: Shop) -> Reply:
        return await shop.v1(method, path, json, **sent)

    return ask


async def product_put(shop: Shop, **values: Any) -> Reply:
    await shop.product(title="First", handle="first", sku="F", externalId="E")
    second = await shop.product(title="Second")
    return await shop.v1("PUT", f"/products/{second['id']}", values)


def put(**values: Any) -> Refused:
    async def ask(shop: Shop) -> Reply:
        return await product_put(shop, **values)

    return ask


async def sku_put(shop: Shop) -> Reply:
    return await product_put(shop, variants=[{"sku": "F", "price": "1.00"}])


def twice(path: str, body: Any) -> Refused:
    async def ask(shop: Shop) -> Reply:
        assert (await shop.v1("POST", path, body)).status == 201
        return await shop.v1("POST", path, body)

    return ask


def stock(**values: Any) -> Refused:
    async def ask(shop: Shop) -> Reply:
        product = await shop.product(stock=1)
        path = "/inventory/set" if "stock" in values else "/inventory/adjust"
        return await shop.v1("POST", path, {"productId": product["id"], **values})

    return ask


async def short_order(shop: Shop) -> Reply:
    product = await shop.product(stock=1)
    item = {"productId": product["id"], "quantity": 2, "price": "1.00"}
    return await shop.v1("POST", "/orders", {"items": [item]})


async def inactive(shop: Shop) -> Reply:
    await shop.settings(active=False)
    return await shop.v1("GET", "/store")


async def reused_key(shop: Shop) -> Reply:
    for title in ("A", "B"):
        body = {"title": title, "price": "1.00"}
        key = {"Idempotency-Key": "k"}
        reply = await shop.v1("POST", "/products", body, headers=key)
    return reply


def after(*steps: tuple[str, Any]) -> Refused:
    async def ask(shop: Shop) -> Reply:
        order = await shop.order(await shop.product())
        for step, body in steps:
            reply = await shop.v1("POST", f"/orders/{order['id']}/{step}", body)
        return reply

    return ask


async def unconfirmed(shop: Shop) -> Reply:
    await shop.settings(codConfirmation=True)
    return await after(("fulfill", None))(shop)


async def too_many_items(shop: Shop) -> Reply:
    order = await shop.order(await shop.product())
    items = [{"lineItemId": order["items"][0]["id"], "quantity": 2}]
    return await shop.v1("POST", f"/orders/{order['id']}/fulfill", {"items": items})


async def too_large(shop: Shop) -> Reply:
    body = io.BytesIO(b" " * 2**21)
    return await shop.v1("POST", "/products", data=body, headers=JSON)


PRODUCT = {"title": "Lamp", "price": "1.00"}
LINE = {"title": "Custom", "quantity": 1, "price": "1.00"}
RECORDED = {"items": [LINE], "externalId": "e"}
BUYER = {"email": "a@b.example"}
TABLE: list[tuple[Refused, int, str]] = [
    (v1("GET", "/nothing"), 404, "NOT_FOUND"),
    (v1("PATCH", "/products"), 405, "METHOD_NOT_ALLOWED"),
    (too_large, 413, "BODY_TOO_LARGE"),
    (v1("POST", "/products", data=b"x"), 415, "UNSUPPORTED_MEDIA_TYPE"),
    (v1("POST", "/products", data=b"{", headers=JSON), 400, "INVALID_JSON"),
    (v1("POST", "/products", data=b"[]", headers=JSON), 400, "INVALID_JSON"),
    (v1("POST", "/products", {}), 422, "VALIDATION_ERROR"),
    (v1("GET", "/store", key="svc_live_x"), 401, "API_KEY_INVALID"),
    (
        v1("GET", "/store", headers={"X-Service-Access-Token": "svc_live_x"}),
        400,
        "AMBIGUOUS_CREDENTIALS",
    ),
    (inactive, 403, "STORE_INACTIVE"),
    (reused_key, 422, "IDEMPOTENCY_KEY_REUSED"),
    *(
        (v1("GET", f"{path}?{query}"), 422, "VALIDATION_ERROR")
        for path in ("/products", "/orders", "/inventory", "/customers", "/webhooks")
        for query in ("page=0", "limit=101")
    ),
    (v1("GET", "/orders?status=LOST"), 422, "VALIDATION_ERROR"),
    (v1("GET", "/products/x"), 404, "PRODUCT_NOT_FOUND"),
    (v1("PUT", "/products/x", {}), 404, "PRODUCT_NOT_FOUND"),
    (v1("DELETE", "/products/x"), 404, "PRODUCT_NOT_FOUND"),
    (twice("/products", {**PRODUCT, "handle": "h"}), 409, "HANDLE_TAKEN"),
    (twice("/products", {**PRODUCT, "sku": "s"}), 409, "SKU_TAKEN"),
    (twice("/products", {**PRODUCT, "externalId": "e"}), 409, "DUPLICATE_EXTERNAL_ID"),
    (put(handle="first"), 409, "HANDLE_TAKEN"),
    (put(externalId="E"), 409, "DUPLICATE_EXTERNAL_ID"),
    (sku_put, 409, "SKU_TAKEN"),
    (put(stock=1), 422, "READ_ONLY"),
    (v1("GET", "/orders/x"), 404, "ORDER_NOT_FOUND"),
    (v1("POST", "/orders/x/fulfill"), 404, "ORDER_NOT_FOUND"),
    (v1("POST", "/orders/x/cancel"), 404, "ORDER_NOT_FOUND"),
    (
        twice("/orders", {"items": [LINE], "externalId": "e"}),
        409,
        "DUPLICATE_EXTERNAL_ID",
    ),
    (short_order, 409, "OUT_OF_STOCK"),
    (unconfirmed, 409, "ORDER_AWAITING_CONFIRMATION"),
    (
        after(("fulfill", None), ("fulfill", {"trackingNumber": "1"})),
        409,
        "ORDER_ALREADY_FULFILLED",
    ),
    (too_many_items, 409, "QUANTITY_NOT_FULFILLABLE"),
    (
        after(("cancel", None), ("cancel", {"restock": True})),
        409,
        "ORDER_ALREADY_CANCELLED",
    ),
    (v1("GET", "/inventory/x"), 404, "PRODUCT_NOT_FOUND"),
    (
        v1("POST", "/inventory/adjust", {"productId": "x", "adjustment": 1}),
        404,
        "PRODUCT_NOT_FOUND",
    ),
    (stock(adjustment=1, variantId="x"), 404, "VARIANT_NOT_FOUND"),
    (stock(adjustment=-2), 409, "INSUFFICIENT_STOCK"),
    (stock(adjustment=1, expectedStock=7), 409, "STOCK_CHANGED"),
    (stock(stock=5, expectedStock=7), 409, "STOCK_CHANGED"),
    (stock(stock=5, variantId="x"), 404, "VARIANT_NOT_FOUND"),
    (stock(adjustment=1, reason="ORDER_PLACED"), 422, "VALIDATION_ERROR"),
    (v1("GET", "/customers/x"), 404, "CUSTOMER_NOT_FOUND"),
    (twice("/customers", BUYER), 409, "EMAIL_TAKEN"),
    (v1("PUT", "/customers/x", {}), 404, "CUSTOMER_NOT_FOUND"),
    (v1("DELETE", "/customers/x"), 404, "CUSTOMER_NOT_FOUND"),
    (v1("GET", "/webhooks/x"), 404, "WEBHOOK_NOT_FOUND"),
    (v1("GET", "/webhooks/x/deliveries/y"), 404, "WEBHOOK_NOT_FOUND"),
    (v1("POST", "/webhooks", {"address": "x", "topics": []}), 422, "VALIDATION_ERROR"),
]


@pytest.mark.parametrize(
    ("refused", "status", "code"),
    TABLE,
    ids=[f"{number}-{code}" for number, (_, _, code) in enumerate(TABLE)],
)
async def test_the_refusal_can_be_reached(
    shop: Shop, refused: Refused, status: int, code: str
) -> None:
    reply = await refused(shop)
    assert (reply.status, reply.code) == (status, code)
    assert reply.headers["Content-Type"].startswith("application/problem+json")
    assert set(reply.body) >= MEMBERS
    assert reply.headers["X-Request-Id"] == reply.body["requestId"]


async def test_a_failure_of_ours_is_a_problem_too(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await shop.running.platform.writer.run(
            lambda tx: tx.run("ALTER TABLE customer RENAME TO gone")
        )
        reply = await shop.v1("GET", "/customers")
        assert (reply.status, reply.code) == (500, "INTERNAL_ERROR")


def test_a_value_that_is_refused_as_in_use_is_unique(tmp_path: Path) -> None:
    with closing(open_writer(tmp_path / "state.db")) as connection:
        rows = Rows(connection)
        unique = {
            f"{table}.{column['name']}"
            for table in TABLES
            for index in rows.all(f"PRAGMA index_list({table})")
            if index["unique"]
            for column in rows.all(f"PRAGMA index_info({index['name']})")
        }
    assert TAKEN.keys() <= unique
