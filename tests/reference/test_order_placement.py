"""Placing an order: which are accepted, what they cost, and what they reserve."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from scenes.reference_shop import ADDRESS, CUSTOMER, Shop, cart, open_shop

OFF = {"enabled": False}
ON = {"enabled": True, "fee": "20.00", "instructions": "Scan"}


async def test_prices_come_from_the_catalogue(shop: Shop) -> None:
    product = await shop.product()
    body = cart(product, 2)
    body["items"][0]["price"] = "0.01"
    reply = await shop.shopper("POST", "/orders", body)
    assert reply.status == 201
    assert reply.data["totals"]["total"] == "200.00"
    assert len(reply.data["trackingToken"]) == 43
    assert reply.headers["Cache-Control"] == "no-store"


async def test_placing_an_order_notifies_all_receivers_in_order(shop: Shop) -> None:
    product = await shop.product()
    before = await shop.sequence()
    await shop.order(product)
    await shop.order(product)
    assert await shop.topics_since(before) == [
        "customers/create",
        "inventory/level_update",
        "orders/create",
        "inventory/level_update",
        "orders/create",
    ]


@pytest.mark.parametrize(
    ("cod", "qr", "method", "status"),
    [
        (True, False, "COD", 201),
        (False, False, "COD", 201),
        (False, True, "COD", 409),
        (True, True, "CUSTOM_QR", 201),
        (True, False, "CUSTOM_QR", 409),
        (False, False, "CUSTOM_QR", 409),
    ],
)
async def test_payment_methods(
    shop: Shop, cod: bool, qr: bool, method: str, status: int
) -> None:
    settings = {"cod": ON if cod else OFF, "customQr": ON if qr else OFF}
    await shop.settings(paymentSettings=settings)
    product = await shop.product()
    reply = await shop.shopper("POST", "/orders", cart(product, paymentMethod=method))
    assert reply.status == status
    if status == 409:
        assert reply.code == "PAYMENT_METHOD_UNAVAILABLE"
        assert reply.body["acceptedMethods"] == (["CUSTOM_QR"] if qr else ["COD"])


async def test_scan_and_pay_shows_the_due_amount_until_paid(shop: Shop) -> None:
    await shop.settings(paymentSettings={"customQr": {**ON, "qr": "https://q.example"}})
    product = await shop.product()
    body = cart(product, paymentMethod="CUSTOM_QR")
    placed = (await shop.shopper("POST", "/orders", body)).data
    assert placed["payment"]["amountDue"] == "120.00"
    await shop.control("POST", f"/stores/demo/orders/{placed['id']}/mark-paid")
    path = f"/orders/track/{placed['trackingToken']}"
    assert (await shop.shopper("GET", path)).data["payment"] is None


async def test_tracking_view_says_nothing_personal(shop: Shop) -> None:
    product = await shop.product()
    placed = (await shop.shopper("POST", "/orders", cart(product))).data
    path = f"/orders/track/{placed['trackingToken']}"
    reply = await shop.shopper("GET", path)
    text = str(reply.body)
    assert not any(word in text for word in ("asha", "MG Road", "ord_", "prod_"))
    assert reply.headers["X-Robots-Tag"] == "noindex, nofollow"
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    wrong = [await shop.shopper("GET", f"/orders/track/{t}") for t in ("x" * 43, "%00")]
    assert {one.code for one in wrong} == {"ORDER_NOT_FOUND"}


@pytest.mark.parametrize(
    ("mode", "status"), [("REQUIRED", 401), ("OPTIONAL", 201), ("GUEST_ONLY", 201)]
)
async def test_signed_in_customers_only(shop: Shop, mode: str, status: int) -> None:
    product = await shop.product()
    await shop.settings(customerAccounts={"mode": mode})
    reply = await shop.shopper("POST", "/orders", cart(product))
    assert reply.status == status
    if status == 401:
        # Before validation, so that it is the answer to a broken body too.
        reply = await shop.shopper("POST", "/orders", {})
        assert reply.code == "LOGIN_REQUIRED"
        assert reply.headers["WWW-Authenticate"] == "CustomerSession"


async def test_all_flaws_are_reported_at_once(shop: Shop) -> None:
    body = {
        "paymentMethod": "CARD",
        "items": [{"productId": "p", "quantity": 0}],
        "customer": {"name": "A", "email": "no"},
        "shippingAddress": {"city": "Pune", "country": "India"},
    }
    reply = await shop.shopper("POST", "/orders", body)
    assert reply.status == 422
    assert {(one["pointer"], one["code"]) for one in reply.body["errors"]} == {
        ("/paymentMethod", "NOT_ALLOWED"),
        ("/items/0/quantity", "TOO_SMALL"),
        ("/customer/email", "BAD_FORMAT"),
        ("/shippingAddress/address1", "REQUIRED"),
        ("/shippingAddress/country", "BAD_FORMAT"),
    }


async def test_a_choice_of_variant_is_required(shop: Shop) -> None:
    sizes = [{"title": "S", "price": "1"}, {"title": "M", "price": "1"}]
    product = await shop.product(variants=sizes)
    body = cart(product)
    del body["items"][0]["variantId"]
    reply = await shop.shopper("POST", "/orders", body)
    assert (reply.status, reply.code) == (422, "VARIANT_REQUIRED")


async def test_hidden_and_absent_products_look_alike(shop: Shop) -> None:
    draft = await shop.product(status="draft")
    replies = []
    for product_id in (draft["id"], "prod_nothing"):
        body = cart(draft)
        body["items"] = [{"productId": product_id, "quantity": 1}]
        reply = await shop.shopper("POST", "/orders", body)
        assert (reply.status, reply.code) == (409, "PRODUCT_UNAVAILABLE")
        replies.append([one.keys() for one in reply.body["items"]])
    assert replies[0] == replies[1]


async def test_two_lines_of_one_variant_count_together(shop: Shop) -> None:
    product = await shop.product(stock=3)
    body = cart(product, 2)
    body["items"] *= 2
    reply = await shop.shopper("POST", "/orders", body)
    assert (reply.status, reply.code) == (409, "OUT_OF_STOCK")
    assert [one["requested"] for one in reply.body["items"]] == [4, 4]
    assert (await shop.state())["levels"][0]["stock"] == 3


async def test_a_refused_order_leaves_nothing(shop: Shop) -> None:
    plenty, short = await shop.product(10), await shop.product(0)
    before = await shop.state()
    body = cart(plenty)
    body["items"] += cart(short)["items"]
    reply = await shop.shopper("POST", "/orders", body)
    assert reply.code == "OUT_OF_STOCK"
    assert await shop.state() == before


async def test_unknown_discount_refuses_the_order(shop: Shop) -> None:
    product = await shop.product()
    reply = await shop.shopper("POST", "/orders", cart(product, discountCode="X"))
    assert (reply.status, reply.body["reason"]) == (400, "NOT_FOUND")


async def test_sixty_four_shoppers_and_ten_lamps(shop: Shop) -> None:
    product = await shop.product(stock=10)
    replies = await asyncio.gather(
        *(shop.shopper("POST", "/orders", cart(product)) for _ in range(64))
    )
    statuses = sorted(reply.status for reply in replies)
    assert statuses == [201] * 10 + [409] * 54
    state = await shop.state()
    assert state["levels"][0]["stock"] == 0
    assert len(state["orders"]) == 10
    assert sum(row["adjustment"] for row in state["history"]) == 0


async def test_continue_policy_sells_below_zero(shop: Shop) -> None:
    product = await shop.product(
        variants=[{"price": "1", "stock": 1, "inventoryPolicy": "continue"}]
    )
    await shop.order(product, 3)
    assert (await shop.state())["levels"][0]["stock"] == -2


async def test_customers_are_known_by_email(shop: Shop) -> None:
    product = await shop.product()
    await shop.order(product)
    loud = {**CUSTOMER, "email": "ASHA@example.com"}
    await shop.shopper("POST", "/orders", cart(product, customer=loud))
    customers = (await shop.v1("GET", "/customers")).data
    assert [one["ordersCount"] for one in customers] == [2]
    assert customers[0]["totalSpent"] == "200.00"
    assert customers[0]["version"] == 1


async def test_demo_fixture_holds_many_orders(tmp_path: Path) -> None:
    async with open_shop(tmp_path, fixture="demo") as shop:
        listed = (await shop.shopper("GET", "/products?limit=100")).data
        assert len(listed) == 24
        products = [one for one in listed if one["available"]]
        replies = await asyncio.gather(
            *(
                shop.shopper("POST", "/orders", cart(products[n % 24], 3))
                for n in range(240)
            )
        )
        assert {reply.status for reply in replies} == {201}
        _check_ledger(await shop.state())


def _check_ledger(state: Any) -> None:
    sums: dict[str, int] = {}
    for row in state["history"]:
        sums[row["variantId"]] = sums.get(row["variantId"], 0) + row["adjustment"]
    assert sums == {one["variantId"]: one["stock"] for one in state["levels"]}


async def test_shipping_decides_by_address(tmp_path: Path) -> None:
    async with open_shop(tmp_path, fixture="demo") as shop:
        product = (await shop.shopper("GET", "/products/neem-soap")).data
        totals = []
        for country in ("in", "FR"):
            address = {**ADDRESS, "country": country}
            body = cart(product, shippingAddress=address)
            reply = await shop.shopper("POST", "/orders", body)
            totals.append(reply.data["totals"]["shipping"])
        assert totals == ["49.00", "1499.00"]
