"""Checkout: the order of its refusals, what it lists, and the fees of methods."""

from typing import Any

import pytest

from scenes.merchant import address, buy, discount, scan_and_pay, zones
from scenes.reference_shop import Shop, cart


async def order_of_refusals(shop: Shop, body: dict[str, Any]) -> list[str]:
    """What is wrong, one thing after the other, as each is put right."""
    codes = []
    sizes = [{"title": "S", "price": "1"}, {"title": "M", "price": "1"}]
    several = await shop.product(variants=sizes)
    choice = {"productId": several["id"], "quantity": 1}
    missing = {"productId": "prod_none", "quantity": 1}
    good = body["items"]
    steps: list[dict[str, Any]] = [
        {"items": [choice, missing], "paymentMethod": "CUSTOM_QR"},
        {"items": [*good, missing], "paymentMethod": "CUSTOM_QR"},
        {"items": [*good, missing]},
        {"discountCode": "NONE", "shippingAddress": address(country="US")},
        {"shippingAddress": address(country="US")},
        {"items": [{**good[0], "quantity": 999}]},
        {},
    ]
    for step in steps:
        reply = await shop.shopper("POST", "/orders", {**body, **step})
        codes.append("" if reply.status == 201 else reply.code)
    return codes


async def test_refusals_come_in_order(shop: Shop) -> None:
    await zones(shop, {"countries": ["IN"]})
    body = cart(await shop.product())
    assert await order_of_refusals(shop, body) == [
        "VARIANT_REQUIRED",
        "PAYMENT_METHOD_UNAVAILABLE",
        "PRODUCT_UNAVAILABLE",
        "DISCOUNT_NOT_FOUND",
        "SHIPPING_UNAVAILABLE",
        "OUT_OF_STOCK",
        "",
    ]


async def test_every_missing_line_is_listed(shop: Shop) -> None:
    good, draft = await shop.product(), await shop.product(status="draft")
    body = cart(good)
    wrong = {"productId": good["id"], "variantId": "var_none", "quantity": 2}
    body["items"] += [*cart(draft)["items"], wrong]
    reply = await shop.shopper("POST", "/orders", body)
    assert (reply.status, reply.code) == (409, "PRODUCT_UNAVAILABLE")
    assert [one["pointer"] for one in reply.body["items"]] == ["/items/1", "/items/2"]
    assert {one["available"] for one in reply.body["items"]} == {0}


async def test_every_short_line_is_listed(shop: Shop) -> None:
    body = cart(await shop.product(stock=5), 5)
    for stock in (1, 2):
        body["items"] += cart(await shop.product(stock=stock), 3)["items"]
    reply = await shop.shopper("POST", "/orders", body)
    found = [
        (one["pointer"], one["requested"], one["available"])
        for one in reply.body["items"]
    ]
    assert found == [("/items/1", 3, 1), ("/items/2", 3, 2)]


@pytest.mark.parametrize(("method", "fee"), [("COD", "12.00"), ("CUSTOM_QR", "3.50")])
async def test_a_methods_fee_is_added(shop: Shop, method: str, fee: str) -> None:
    cod = {"enabled": True, "fee": "12"}
    custom_qr = {"enabled": True, "fee": "3.5"}
    await shop.settings(paymentSettings={"cod": cod, "customQr": custom_qr})
    await discount(shop, value="100")
    reply = await buy(
        shop, await shop.product(), paymentMethod=method, discountCode="save10"
    )
    assert reply.data["totals"]["paymentFee"] == fee
    assert reply.data["totals"]["total"] == fee


async def test_nothing_computed_earlier_is_trusted(shop: Shop) -> None:
    """Totals, prices and fees in the body are not even read."""
    await scan_and_pay(shop)
    body = cart(await shop.product(), 2)
    body |= {"totals": {"total": "0.01"}, "shipping": "0", "discount": "199"}
    body["items"][0] |= {"price": "0.01", "discount": "1"}
    reply = await shop.shopper("POST", "/orders", body)
    assert reply.data["totals"]["total"] == "200.00"
