"""What is read: remembered between two commits, and never a moment longer."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from backhaul_reference.state.database import Rows
from support.reference_shop import Shop, cart

Change = Callable[[Shop, Any], Awaitable[Any]]


async def sell_the_last(shop: Shop, product: Any) -> None:
    await shop.shopper("POST", "/orders", cart(product, 10))


async def count_stock(shop: Shop, product: Any) -> None:
    sent = {"productId": product["id"], "stock": 0}
    await shop.v1("POST", "/inventory/set", sent)


async def rename(shop: Shop, product: Any) -> None:
    await shop.v1("PUT", f"/products/{product['id']}", {"title": "Lantern"})


async def hide(shop: Shop, product: Any) -> None:
    await shop.v1("PUT", f"/products/{product['id']}", {"status": "draft"})


async def delete(shop: Shop, product: Any) -> None:
    await shop.v1("DELETE", f"/products/{product['id']}")


async def add(shop: Shop, product: Any) -> None:
    await shop.product(title="Second")


async def read_otherwise(shop: Shop, product: Any) -> None:
    await shop.control("PUT", "/stores/demo/quirks", {"quirks": ["number-money"]})


async def reset(shop: Shop, product: Any) -> None:
    await shop.control("POST", "/reset")


CHANGES = (sell_the_last, count_stock, rename, hide, delete, add, read_otherwise, reset)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_page_shows_each_change_at_once(shop: Shop, change: Change) -> None:
    product = await shop.product(stock=10)
    before = (await shop.shopper("GET", "/products")).body
    await change(shop, product)
    after = (await shop.shopper("GET", "/products")).body
    assert after != before
    # A query that was never asked cannot have been remembered.
    anew = (await shop.shopper("GET", "/products?x=1")).body
    assert after == anew


SHOWN = ("/products/lamp", "/collections", "/collections/lights")


async def shelve(shop: Shop) -> Any:
    product = await shop.product(stock=10)
    held = {"title": "Lights", "handle": "lights", "productIds": [product["id"]]}
    await shop.control("POST", "/stores/demo/collections", held)
    return product


@pytest.mark.parametrize("path", SHOWN)
async def test_what_shows_products_is_asked_of_the_state_once(
    shop: Shop, path: str
) -> None:
    await shelve(shop)
    before = await shop.shopper("GET", path)
    asked = list[str]()
    reader = shop.running.platform.reader
    reader.connection.set_trace_callback(asked.append)
    again = await shop.shopper("GET", path)
    reader.connection.set_trace_callback(None)
    assert (again.status, again.body) == (200, before.body)
    assert [one for one in asked if "SELECT" in one] == []


@pytest.mark.parametrize("path", SHOWN)
async def test_what_shows_products_shows_each_change_at_once(
    shop: Shop, path: str
) -> None:
    product = await shelve(shop)
    before = (await shop.shopper("GET", path)).body
    await shop.v1("PUT", f"/products/{product['id']}", {"status": "draft"})
    after = (await shop.shopper("GET", path)).body
    assert after != before
    # A query that was never asked cannot have been remembered.
    anew = (await shop.shopper("GET", path + "?x=1")).body
    assert [after.get("data"), after.get("code")] == [
        anew.get("data"),
        anew.get("code"),
    ]


async def test_a_store_that_closes_is_closed_at_once(shop: Shop) -> None:
    assert (await shop.shopper("GET", "/products")).status == 200
    await shop.settings(active=False)
    assert (await shop.shopper("GET", "/products")).status == 404
    assert (await shop.v1("GET", "/products")).status == 403


async def test_a_key_that_is_revoked_is_refused_at_once(shop: Shop) -> None:
    made = (await shop.control("POST", "/stores/demo/keys", {})).data
    assert (await shop.v1("GET", "/products", key=made["key"])).status == 200
    await shop.control("DELETE", f"/stores/demo/keys/{made['id']}")
    assert (await shop.v1("GET", "/products", key=made["key"])).status == 401


async def test_what_was_recalled_is_asked_again_after_a_commit(shop: Shop) -> None:
    reader, asked = shop.running.platform.reader, []

    def count(rows: Rows) -> Any:
        asked.append(rows)
        return rows.value("SELECT COUNT(*) FROM product")

    answers = [reader.recall("products", count) for _ in range(3)]
    await shop.product()
    answers += [reader.recall("products", count) for _ in range(3)]
    assert answers == [0, 0, 0, 1, 1, 1]
    assert len(asked) == 2
