"""Fixtures: what each store is filled with, and how it is reset."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from backhaul_reference.fixtures import large
from backhaul_reference.platform.state.schema import TABLES
from scenes.reference_shop import Receiver, Shop, open_shop, subscribe

MADE = ("products", "orders", "customers", "levels", "history")


async def fixture(shop: Shop, name: str, store: str = "demo") -> Any:
    return await shop.control("POST", f"/stores/{store}/fixtures/{name}")


async def counts(shop: Shop, subdomain: str) -> dict[str, int]:
    state = (await shop.control("GET", f"/stores/{subdomain}/state")).body
    return {
        name: len(state[name])
        for name in ("products", "orders", "customers", "history")
    }


async def test_stores_come_with_their_key_and_fixture(shop: Shop) -> None:
    body = {"subdomain": "second", "fixture": "demo", "storeName": "Second"}
    made = await shop.control("POST", "/stores", body)
    assert made.status == 201
    assert (made.data["storeName"], made.data["fixture"]) == ("Second", "demo")
    key = made.data["apiKey"]
    assert (await shop.v1("GET", "/products", key=key)).body["meta"]["total"] == 24
    assert (await shop.v1("GET", "/products")).data == []
    taken = await shop.control("POST", "/stores", body)
    assert (taken.status, taken.code) == (409, "SUBDOMAIN_TAKEN")


async def test_a_reset_touches_one_store(shop: Shop, receiver: Receiver) -> None:
    body = {"subdomain": "second", "fixture": "demo"}
    key = (await shop.control("POST", "/stores", body)).data["apiKey"]
    products = (await shop.v1("GET", "/products", key=key)).data
    await subscribe(shop, receiver)
    order = await shop.order(await shop.product())
    await shop.v1("POST", f"/orders/{order['id']}/fulfill")
    await receiver.until(await shop.sequence())
    before = await shop.state()
    await shop.v1("DELETE", f"/products/{products[0]['id']}", key=key)
    await shop.control("PUT", "/stores/second/settings", {"codConfirmation": True})
    assert (await shop.control("POST", "/stores/second/reset")).status == 200
    assert {**await shop.state(), "webhooks": 0, "deliveries": 0} == {
        **before,
        "webhooks": 0,
        "deliveries": 0,
    }
    again = await shop.v1("GET", "/products", key=key)
    assert again.body["meta"]["total"] == 24
    assert again.data[0]["id"] != products[0]["id"]
    settings = (await shop.control("GET", "/stores/second")).data
    assert settings["codConfirmation"] is False
    assert again.data[-1]["createdAt"] > products[0]["createdAt"]


async def test_a_reset_leaves_nothing_behind(shop: Shop, receiver: Receiver) -> None:
    """Every table is as full as it was when the store was new."""

    def sizes() -> dict[str, int]:
        read = shop.running.platform.reader.read
        return read(
            lambda rows: {
                table: rows.value(f"SELECT COUNT(*) FROM {table}")  # noqa: S608  - our own names
                for table in TABLES
            }
        )

    new = sizes()
    await subscribe(shop, receiver)
    order = await shop.order(await shop.product())
    await shop.v1("POST", f"/orders/{order['id']}/fulfill")
    await shop.v1("POST", "/customers", {"email": "a@b.example"})
    await receiver.until(await shop.sequence())
    assert sizes() != new
    await shop.control("POST", "/stores/demo/reset")
    assert sizes() == new
    assert (await shop.order(await shop.product()))["number"] == 1001


async def test_stores_are_reset_side_by_side(shop: Shop) -> None:
    async def life(number: int) -> None:
        name = f"store-{number}"
        made = await shop.control("POST", "/stores", {"subdomain": name})
        key = made.data["apiKey"]
        for _ in range(3):
            body = {"title": name, "price": "1.00"}
            await shop.v1("POST", "/products", body, key=key)
            listed = (await shop.v1("GET", "/products", key=key)).data
            assert [one["title"] for one in listed] == [name]
            await shop.control("POST", f"/stores/{name}/reset")
            assert (await shop.v1("GET", "/products", key=key)).data == []

    await asyncio.gather(*(life(number) for number in range(8)))


async def test_fixtures_are_chosen_by_name(shop: Shop) -> None:
    assert (await fixture(shop, "demo")).data["fixture"] == "demo"
    assert (await counts(shop, "demo"))["products"] == 24
    await shop.control("POST", "/stores/demo/reset")
    assert (await counts(shop, "demo"))["products"] == 24
    await fixture(shop, "empty")
    assert set((await counts(shop, "demo")).values()) == {0}
    unknown = await fixture(shop, "huge")
    assert (unknown.status, unknown.code) == (404, "FIXTURE_NOT_FOUND")
    assert (await fixture(shop, "demo", "nobody")).status == 404


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PRODUCTS", 40), ("CUSTOMERS", 20), ("ORDERS", 300)):
        monkeypatch.setattr(large, name, value)


async def test_the_large_one_is_the_same_each_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    await fixture(shop, "large")
    first = await shop.state()
    await fixture(shop, "large")
    second = await shop.state()
    assert [second[name] for name in MADE] == [first[name] for name in MADE]
    await shop.control("POST", "/stores", {"subdomain": "b", "fixture": "large"})
    other = (await shop.control("GET", "/stores/b/state")).body
    assert len(other["orders"]) == 300
    assert not {one["id"] for one in other["orders"]} & {
        one["id"] for one in first["orders"]
    }


def minor(text: str) -> int:
    return int(text.replace(".", ""))


def spent_by_orders(state: Any) -> Counter[str]:
    spent: Counter[str] = Counter()
    for order in state["orders"]:
        if order["status"] != "CANCELLED":
            spent[order["customer"]["id"]] += minor(order["totals"]["total"])
    return spent


async def test_the_large_one_keeps_the_books(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    await fixture(shop, "large")
    state = await shop.state()
    sums: Counter[str] = Counter()
    for row in state["history"]:
        assert row["stockAfter"] == row["stockBefore"] + row["adjustment"]
        sums[row["variantId"]] += row["adjustment"]
    assert sums == {one["variantId"]: one["stock"] for one in state["levels"]}
    statuses = Counter(order["status"] for order in state["orders"])
    assert set(statuses) == {"PENDING", "COMPLETED", "CANCELLED"}
    assert spent_by_orders(state) == {
        one["id"]: minor(one["totalSpent"])
        for one in state["customers"]
        if minor(one["totalSpent"])
    }
    order = next(one for one in state["orders"] if one["status"] == "PENDING")
    path = f"/orders/{order['id']}"
    assert (await shop.v1("POST", path + "/fulfill")).status == 200
    assert (await shop.v1("POST", path + "/cancel", {"restock": True})).status == 200
    assert (await shop.order(await shop.product()))["number"] == 1301
    assert (await shop.v1("GET", "/products?search=p00007-s")).body["meta"][
        "total"
    ] == 1


async def test_the_large_fixture_is_loaded_whole(tmp_path: Path) -> None:
    async with open_shop(tmp_path, fixture="large") as shop:
        products = await shop.v1("GET", "/products?limit=100&page=100")
        assert (len(products.data), products.body["meta"]["total"]) == (100, 10_000)
        orders = await shop.v1("GET", "/orders?status=PENDING")
        assert orders.body["meta"]["total"] > 1_000
        assert (await shop.v1("GET", "/orders")).body["meta"]["total"] == 100_000
