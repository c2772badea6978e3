"""The demo shop: a realistic catalogue, and orders in every state."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backhaul_reference.fixtures import demo_shop
from scenes.merchant import check, outbox
from scenes.reference_shop import Shop, open_shop


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data", fixture="demo") as opened:
        yield opened


@pytest.fixture
async def state(shop: Shop) -> Any:
    return await shop.state()


def seen(orders: Any, name: str) -> set[str]:
    return {order[name] for order in orders}


def test_there_are_orders_in_every_state(state: Any) -> None:
    orders = state["orders"]
    assert seen(orders, "status") == {"PENDING", "CONFIRMED", "COMPLETED", "CANCELLED"}
    assert seen(orders, "financialStatus") == {"PENDING", "PAID", "REFUNDED", "VOIDED"}
    assert seen(orders, "fulfillmentStatus") == {
        *("UNFULFILLED", "PARTIALLY_FULFILLED", "FULFILLED", "RESTOCKED")
    }
    waiting = [one for one in orders if one["confirmation"]["required"]]
    assert {one["confirmation"]["confirmedAt"] is None for one in waiting} == {
        *(True, False)
    }
    reports = [one for one in orders if one["payment"]["report"]]
    assert {one["financialStatus"] for one in reports} >= {"PENDING", "PAID"}
    assert len({one["discountCode"] for one in orders}) > 3


def test_the_past_is_behind_us_and_in_order(state: Any) -> None:
    placed = [order["placedAt"] for order in state["orders"]]
    numbers = [order["number"] for order in state["orders"]]
    assert placed == sorted(placed)
    assert numbers == [*range(1001 - len(numbers), 1001)]
    assert max(one["createdAt"] for one in state["products"]) < placed[0]
    days = {moment[:10] for moment in placed}
    assert len(days) > 8


async def test_the_stock_is_as_on_the_first_day(shop: Shop, state: Any) -> None:
    assert {level["stock"] for level in state["levels"]} == {demo_shop.STOCK}
    sums: Counter[str] = Counter()
    for row in state["history"]:
        assert row["stockAfter"] == row["stockBefore"] + row["adjustment"]
        sums[row["variantId"]] += row["adjustment"]
    assert set(sums.values()) == {demo_shop.STOCK}
    assert (await shop.order(state["products"][0]))["number"] == 1001


async def test_no_mail_is_sent_about_past_orders(shop: Shop, tmp_path: Path) -> None:
    assert {one["status"] for one in await outbox(shop)} == {"SENT"}
    assert not (tmp_path / "data" / "mails").exists()


async def test_every_buyer_can_still_follow_their_order(shop: Shop, state: Any) -> None:
    tokens = shop.running.platform.tokens
    for order in state["orders"]:
        path = f"/orders/track/{tokens.token(order['id'])}"
        assert (await shop.shopper("GET", path)).data["name"] == order["name"]


async def test_collections_and_menus_lead_to_products(shop: Shop) -> None:
    listed = (await shop.shopper("GET", "/collections")).data
    assert {one["type"] for one in listed} == {"MANUAL", "AUTOMATIC"}
    assert "winter" not in {one["handle"] for one in listed}
    assert all(one["productCount"] for one in listed)
    menus = (await shop.shopper("GET", "/navigation")).data
    main, footer = menus["main-menu"]["items"], menus["footer"]["items"]
    links = [one["url"] for item in main for one in (item, *item["children"])]
    assert len(links) == 8
    for link in links:
        assert (await shop.shopper("GET", link)).data["products"]
    assert [one["url"] for one in footer] == ["/", "mailto:hello@demo.example"]


@pytest.mark.parametrize(
    ("code", "subtotal", "answer"),
    [
        ("welcome10", "100.00", "10.00"),
        ("FESTIVE200", "1500.00", "200.00"),
        ("SHIPFREE", "500.00", "49.00"),
        ("FESTIVE200", "1499.99", "DISCOUNT_MINIMUM_NOT_MET"),
        ("FIRSTONE", "100.00", "DISCOUNT_USED_UP"),
        ("MONSOON20", "100.00", "DISCOUNT_EXPIRED"),
        ("NEWYEAR15", "100.00", "DISCOUNT_NOT_STARTED"),
    ],
)
async def test_discounts(shop: Shop, code: str, subtotal: str, answer: str) -> None:
    body = (await check(shop, code, subtotal, shipping="49.00")).body
    assert answer in (body.get("amount"), body.get("code"))


async def test_a_reset_creates_the_same_past(shop: Shop, state: Any) -> None:
    await shop.control("POST", "/stores/demo/reset")
    again = await shop.state()
    for name in ("name", "status", "totals", "discountCode"):
        assert [one[name] for one in again["orders"]] == [
            one[name] for one in state["orders"]
        ]


async def test_a_fresh_one_has_no_past(shop: Shop, state: Any) -> None:
    body = {"subdomain": "new", "fixture": "fresh", "codConfirmation": True}
    off = {"cod": {"enabled": True}, "customQr": {"enabled": False}}
    made = await shop.control("POST", "/stores", {**body, "paymentSettings": off})
    assert made.data["paymentSettings"]["customQr"]["enabled"] is False
    assert made.data["codConfirmation"] is True
    fresh = (await shop.control("GET", "/stores/new/state")).body
    assert (fresh["orders"], fresh["customers"]) == ([], [])
    names = [one["title"] for one in fresh["products"]]
    assert names == [one["title"] for one in state["products"]]
    assert {level["stock"] for level in fresh["levels"]} == {demo_shop.STOCK}
