"""Discounts: which codes are valid, what they give, and how often."""

import asyncio
from typing import Any

import pytest

from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import discounts
from backhaul_reference.platform.state.writer import Tx
from scenes.merchant import ONE, buy, check, discount, zones
from scenes.reference_shop import CUSTOMER, Shop, cart

PAST, FUTURE = "2020-01-01T00:00:00Z", "2090-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("values", "shown", "amount"),
    [
        ({}, "10", "10.00"),
        ({"value": "12.5"}, "12.5", "12.50"),
        ({"value": 100}, "100", "100.00"),
        ({"value": "0.05"}, "0.05", "0.05"),
        ({"type": "fixed_amount", "value": "30"}, "30.00", "30.00"),
        ({"type": "FIXED_AMOUNT", "value": "130"}, "130.00", "100.00"),
        ({"type": "FREE_SHIPPING"}, "0", "80.00"),
        ({"startsAt": PAST, "endsAt": FUTURE}, "10", "10.00"),
        ({"minimumSubtotal": "100.00"}, "10", "10.00"),
    ],
)
async def test_a_valid_code_gives_its_discount(
    shop: Shop, values: dict[str, Any], shown: str, amount: str
) -> None:
    made = await discount(shop, **values)
    reply = await check(shop, " save10 ", shipping="80.00")
    assert reply.status == 200
    assert reply.body == {
        "valid": True,
        "discount": {"code": "SAVE10", "type": made["type"], "value": shown},
        "amount": amount,
    }


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"code": "OTHER"}, "NOT_FOUND"),
        ({"active": False}, "NOT_FOUND"),
        ({"startsAt": FUTURE}, "NOT_STARTED"),
        ({"endsAt": PAST}, "EXPIRED"),
        ({"minimumSubtotal": "100.01"}, "MINIMUM_NOT_MET"),
        ({"endsAt": PAST, "minimumSubtotal": "500"}, "EXPIRED"),
        ({"active": False, "endsAt": PAST}, "NOT_FOUND"),
    ],
)
async def test_why_a_code_does_not_hold(
    shop: Shop, values: dict[str, Any], reason: str
) -> None:
    """The same answer to the check and to the order, which is not placed."""
    await discount(shop, **values)
    product = await shop.product()
    for reply in (
        await check(shop, "SAVE10"),
        await buy(shop, product, discountCode="SAVE10"),
    ):
        assert (reply.status, reply.code) == (400, f"DISCOUNT_{reason}")
        assert (reply.body["reason"], reply.body["valid"]) == (reason, False)
    assert (await shop.state())["orders"] == []


async def test_used_up_comes_before_the_minimum(shop: Shop) -> None:
    await discount(shop, usageLimit=1, minimumSubtotal="100")
    product = await shop.product()
    assert (await buy(shop, product, discountCode="save10")).status == 201
    assert (await check(shop, "SAVE10", "1.00")).code == "DISCOUNT_USED_UP"


async def test_the_split_over_lines_sums_to_the_order(shop: Shop) -> None:
    await discount(shop, type="FIXED_AMOUNT", value="10.00")
    lamps = [await shop.product(price=price) for price in ("3.33", "3.33", "6.67")]
    body = cart(lamps[0], discountCode="SAVE10")
    body["items"] = [cart(lamp)["items"][0] for lamp in lamps]
    placed = (await shop.shopper("POST", "/orders", body)).data
    assert placed["totals"] == {
        "subtotal": "13.33",
        "discount": "10.00",
        "shipping": "0.00",
        "paymentFee": "0.00",
        "tax": "0.00",
        "total": "3.33",
    }
    assert [one["discount"] for one in placed["items"]] == ["2.50", "2.50", "5.00"]
    assert [one["total"] for one in placed["items"]] == ["0.83", "0.83", "1.67"]
    order = (await shop.v1("GET", f"/orders/{placed['id']}")).data
    assert order["discountCode"] == "SAVE10"
    assert order["totals"] == placed["totals"]


async def test_free_shipping_removes_the_freight(shop: Shop) -> None:
    await zones(shop, {"rates": [{"name": "R", "price": "80"}]})
    await discount(shop, type="FREE_SHIPPING")
    placed = (await buy(shop, await shop.product(), discountCode="SAVE10")).data
    totals = placed["totals"]
    assert (totals["shipping"], totals["discount"]) == ("0.00", "0.00")
    assert totals["total"] == "100.00"


async def test_freight_is_quoted_before_the_discount(shop: Shop) -> None:
    free = {"name": "F", "price": "0", "minSubtotal": "100"}
    await zones(shop, {"rates": [{"name": "R", "price": "80"}, free]})
    await discount(shop)
    placed = (await buy(shop, await shop.product(), discountCode="SAVE10")).data
    assert placed["totals"]["total"] == "90.00"


async def used(shop: Shop) -> int:
    return int((await shop.state())["discounts"][0]["usedCount"])


async def test_a_use_is_given_back_once(shop: Shop) -> None:
    await discount(shop, usageLimit=2, usageLimitPerCustomer=2)
    product = await shop.product()
    first = (await buy(shop, product, discountCode="SAVE10")).data
    await buy(shop, product, discountCode="SAVE10")
    assert await used(shop) == 2
    path = f"/orders/{first['id']}/cancel"
    replies = await asyncio.gather(*(shop.v1("POST", path, {}) for _ in range(8)))
    assert {one.status for one in replies} == {200}
    assert await used(shop) == 1
    assert (await buy(shop, product, discountCode="SAVE10")).status == 201
    assert (await buy(shop, product, discountCode="SAVE10")).status == 400


async def test_each_customer_has_a_limit_of_their_own(shop: Shop) -> None:
    await discount(shop, usageLimitPerCustomer=1)
    product = await shop.product()
    statuses = []
    for email in ("asha@example.com", "ASHA@Example.com", "ravi@example.com"):
        customer = {**CUSTOMER, "email": email}
        reply = await buy(shop, product, customer=customer, discountCode="SAVE10")
        statuses.append(reply.status)
    assert statuses == [201, 400, 201]
    assert (await check(shop, "SAVE10")).status == 200


async def test_refused_orders_use_nothing(shop: Shop) -> None:
    await discount(shop)
    product = await shop.product(stock=0)
    reply = await buy(shop, product, discountCode="SAVE10")
    assert reply.code == "OUT_OF_STOCK"
    assert await used(shop) == 0


@pytest.mark.parametrize(
    ("limits", "stock", "sold"),
    [
        ({"usageLimit": 10}, 100, 10),
        ({"usageLimitPerCustomer": 10}, 100, 10),
        ({"usageLimit": 20}, 7, 7),
        ({}, 100, 64),
    ],
)
async def test_sixty_four_shoppers_and_one_code(
    shop: Shop, limits: dict[str, int], stock: int, sold: int
) -> None:
    await discount(shop, **limits)
    product = await shop.product(stock=stock)
    replies = await asyncio.gather(
        *(buy(shop, product, discountCode="SAVE10") for _ in range(64))
    )
    statuses = [reply.status for reply in replies]
    assert statuses.count(201) == sold
    assert set(statuses) <= {201, 400, 409}
    state = await shop.state()
    assert state["discounts"][0]["usedCount"] == sold == len(state["orders"])
    assert state["levels"][0]["stock"] == stock - sold


async def test_cancels_race_with_orders(shop: Shop) -> None:
    """However they interleave, the uses counted are those of the orders that live."""
    await discount(shop, usageLimit=16)
    product = await shop.product(stock=1000)
    placed = [await buy(shop, product, discountCode="SAVE10") for _ in range(16)]
    cancels = [
        shop.v1("POST", f"/orders/{one.data['id']}/cancel", {}) for one in placed[:8]
    ]
    buys = [buy(shop, product, discountCode="SAVE10") for _ in range(32)]
    await asyncio.gather(*cancels, *buys)
    state = await shop.state()
    alive = [one for one in state["orders"] if one["status"] != "CANCELLED"]
    assert len(alive) == state["discounts"][0]["usedCount"] <= 16


async def test_discounts_are_kept_and_changed(shop: Shop) -> None:
    made = await discount(shop, code=" Save10 ", minimumSubtotal="5", usageLimit=3)
    assert made == {
        "id": made["id"], "code": "Save10", "type": "PERCENTAGE", "value": "10",
        "minimumSubtotal": "5.00", "usageLimit": 3, "usageLimitPerCustomer": None,
        "usedCount": 0, "startsAt": None, "endsAt": None, "active": True,
    }  # fmt: skip
    path = f"{ONE}/discounts/{made['id']}"
    body = {"value": "20", "usageLimit": None, "endsAt": FUTURE}
    changed = (await shop.control("PUT", path, body)).data
    end = "2090-01-01T00:00:00.000Z"
    assert changed == {**made, "value": "20", "usageLimit": None, "endsAt": end}
    body = {"type": "FIXED_AMOUNT", "value": "7"}
    assert (await shop.control("PUT", path, body)).data["value"] == "7.00"
    reply = await shop.control("PUT", path, {"type": "PERCENTAGE"})
    assert reply.body["errors"][0]["pointer"] == "/value"
    assert (await shop.control("GET", path)).data["type"] == "FIXED_AMOUNT"
    assert (await shop.control("DELETE", path)).status == 200
    assert (await shop.control("GET", path)).code == "DISCOUNT_NOT_FOUND"
    assert (await check(shop, "SAVE10")).code == "DISCOUNT_NOT_FOUND"


async def test_codes_are_unique_whatever_their_case(shop: Shop) -> None:
    await discount(shop, code="straße")
    other = await discount(shop)
    body = {"code": "STRASSE", "type": "FREE_SHIPPING"}
    reply = await shop.control("POST", f"{ONE}/discounts", body)
    assert (reply.status, reply.code) == (409, "CODE_TAKEN")
    path = f"{ONE}/discounts/{other['id']}"
    reply = await shop.control("PUT", path, {"code": "Strasse"})
    assert (reply.status, reply.code) == (409, "CODE_TAKEN")
    assert (await check(shop, "STRASSE")).status == 200


@pytest.mark.parametrize(
    ("values", "pointer", "code"),
    [
        ({"value": "0"}, "/value", "TOO_SMALL"),
        ({"value": "100.01"}, "/value", "TOO_BIG"),
        ({"value": "1.234"}, "/value", "BAD_MONEY"),
        ({"value": "-1"}, "/value", "BAD_MONEY"),
        ({"value": None}, "/value", "REQUIRED"),
        ({"type": "FIXED_AMOUNT", "value": "0"}, "/value", "TOO_SMALL"),
        ({"type": "BOGO"}, "/type", "NOT_ALLOWED"),
        ({"code": "  "}, "/code", "TOO_SHORT"),
        ({"usageLimit": 0}, "/usageLimit", "TOO_SMALL"),
        ({"usageLimitPerCustomer": True}, "/usageLimitPerCustomer", "WRONG_TYPE"),
        ({"startsAt": "soon"}, "/startsAt", "BAD_FORMAT"),
        ({"startsAt": FUTURE, "endsAt": PAST}, "/endsAt", "OUT_OF_RANGE"),
        ({"minimumSubtotal": "x"}, "/minimumSubtotal", "BAD_MONEY"),
    ],
)
async def test_bad_discounts(
    shop: Shop, values: dict[str, Any], pointer: str, code: str
) -> None:
    body = {"code": "C", "type": "PERCENTAGE", "value": "10", **values}
    reply = await shop.control("POST", f"{ONE}/discounts", body)
    assert reply.status == 422
    errors = [(one["pointer"], one["code"]) for one in reply.body["errors"]]
    assert errors == [(pointer, code)]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/code", "/cart"}),
        ({"code": "", "cart": {}}, {"/code", "/cart/subtotal"}),
        ({"code": "C", "cart": {"subtotal": "1", "items": [{}]}},
         {"/cart/items/0/productId", "/cart/items/0/quantity", "/cart/items/0/price"}),
        ({"code": "C", "cart": {"subtotal": "1.001", "shipping": True}},
         {"/cart/subtotal", "/cart/shipping"}),
    ],
)  # fmt: skip
async def test_bad_checks(shop: Shop, body: Any, pointers: set[str]) -> None:
    reply = await shop.shopper("POST", "/discounts/validate", body)
    assert reply.status == 422
    assert {one["pointer"] for one in reply.body["errors"]} == pointers


async def test_the_last_use_is_decided_when_it_is_claimed(shop: Shop) -> None:
    """A check made earlier is worth nothing, and each use is given back once."""
    made = await discount(shop, usageLimit=1)
    writer = shop.running.platform.writer

    def use(tx: Tx, order_id: str) -> None:
        discounts.use(tx, stale, order_id, "a@x.example")

    stale = await writer.run(
        lambda tx: tx.all("SELECT * FROM discount WHERE id = ?", (made["id"],))[0]
    )
    await writer.run(lambda tx: use(tx, "ord_1"))
    with pytest.raises(Problem, match="DISCOUNT_USED_UP"):
        await writer.run(lambda tx: use(tx, "ord_2"))
    assert await used(shop) == 1
    for _ in range(2):
        await writer.run(lambda tx: discounts.give_back(tx, "ord_1"))
    assert await used(shop) == 0
