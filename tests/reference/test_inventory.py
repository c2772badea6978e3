"""Stock: adjusted, set, expected, and the ledger of its movements."""

import asyncio
from typing import Any

import pytest

from scenes.reference_shop import Shop

SIZES = [
    {"title": "S", "sku": "L-S", "price": "1", "stock": 5},
    {"title": "M", "sku": "L-M", "price": "1", "stock": 7},
]


async def adjust(shop: Shop, product: Any, adjustment: int, **more: Any) -> Any:
    body = {"productId": product["id"], "adjustment": adjustment, **more}
    return await shop.v1("POST", "/inventory/adjust", body)


async def stocks(shop: Shop, product: Any) -> list[int]:
    levels = (await shop.v1("GET", f"/inventory/{product['id']}")).data
    return [level["stock"] for level in levels]


async def test_an_adjustment_moves_every_variant(shop: Shop) -> None:
    product = await shop.product(variants=SIZES)
    before = await shop.sequence()
    done = (await adjust(shop, product, -2, note="counted")).data
    assert [one["stock"] for one in done["levels"]] == [3, 5]
    assert await shop.topics_since(before) == ["inventory/level_update"]
    rows = (await shop.v1("GET", "/inventory/history?reason=manual_adjustment")).data
    assert {row["adjustmentId"] for row in rows} == {done["adjustmentId"]}
    assert [row["note"] for row in rows] == ["counted", "counted"]
    assert rows[0]["source"]["type"] == "API_KEY"


async def test_a_named_variant_moves_alone(shop: Shop) -> None:
    product = await shop.product(variants=SIZES)
    variant = product["variants"][1]["id"]
    await adjust(shop, product, 1, variantId=variant)
    assert await stocks(shop, product) == [5, 8]


async def test_all_variants_or_none(shop: Shop) -> None:
    product = await shop.product(variants=SIZES)
    before = await shop.state()
    reply = await adjust(shop, product, -6)
    assert (reply.status, reply.code) == (409, "INSUFFICIENT_STOCK")
    assert await shop.state() == before


async def test_set_and_expected_stock(shop: Shop) -> None:
    product = await shop.product(stock=4)
    body = {"productId": product["id"], "stock": 9, "expectedStock": 3}
    reply = await shop.v1("POST", "/inventory/set", body)
    assert (reply.status, reply.code) == (409, "STOCK_CHANGED")
    body["expectedStock"] = 4
    done = (await shop.v1("POST", "/inventory/set", body)).data
    assert done["levels"][0]["adjustment"] == 5
    before = await shop.sequence()
    del body["expectedStock"]
    again = (await shop.v1("POST", "/inventory/set", body)).data
    assert again["levels"][0]["adjustment"] == 0
    assert await shop.topics_since(before) == []


@pytest.mark.parametrize(
    "change",
    [
        {"adjustment": 0},
        {"adjustment": True},
        {"adjustment": 1.5},
        {"adjustment": 10**30},
        {"adjustment": 1, "reason": "ORDER_PLACED"},
        {"adjustment": 1, "reason": "WHIM"},
        {"adjustment": 1, "note": "a\x00b"},
        {"adjustment": "1"},
        {},
    ],
)
async def test_an_invalid_adjustment_is_refused(
    shop: Shop, change: dict[str, Any]
) -> None:
    product = await shop.product()
    body = {"productId": product["id"], **change}
    reply = await shop.v1("POST", "/inventory/adjust", body)
    assert (reply.status, reply.code) == (422, "VALIDATION_ERROR")


async def test_unknown_things(shop: Shop) -> None:
    product = await shop.product()
    unknown = await adjust(shop, {"id": "prod_x"}, 1)
    assert (unknown.status, unknown.code) == (404, "PRODUCT_NOT_FOUND")
    unknown = await adjust(shop, product, 1, variantId="var_x")
    assert (unknown.status, unknown.code) == (404, "VARIANT_NOT_FOUND")
    assert (await shop.v1("GET", "/inventory/prod_x")).status == 404


async def test_racing_adjustments_never_go_below_zero(shop: Shop) -> None:
    product = await shop.product(stock=10)
    replies = await asyncio.gather(*(adjust(shop, product, -1) for _ in range(64)))
    assert sorted(reply.status for reply in replies) == [200] * 10 + [409] * 54
    assert await stocks(shop, product) == [0]


async def test_concurrent_adjustments_with_one_expected_stock_apply_once(
    shop: Shop,
) -> None:
    product = await shop.product(stock=10)
    replies = await asyncio.gather(
        *(adjust(shop, product, -1, expectedStock=10) for _ in range(32))
    )
    assert sorted(reply.status for reply in replies) == [200] + [409] * 31


async def test_history_filters_and_order(shop: Shop) -> None:
    product = await shop.product(stock=3)
    order = await shop.order(product)
    await adjust(shop, product, 5)
    listed = (await shop.v1("GET", "/inventory/history")).data
    assert [row["reason"] for row in listed] == [
        "MANUAL_ADJUSTMENT",
        "ORDER_PLACED",
        "INITIAL_STOCK",
    ]
    by_order = await shop.v1("GET", f"/inventory/history?orderId={order['id']}")
    assert [row["adjustment"] for row in by_order.data] == [-1]
    assert [row["stockAfter"] for row in (await shop.state())["history"]] == [3, 2, 7]
