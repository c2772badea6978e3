"""Reads are cached between two commits, and never longer."""

from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from backhaul_reference.platform.state.database import REVISION, Rows, open_writer
from backhaul_reference.platform.state.schema import VARIANT_COLUMNS
from backhaul_reference.platform.state.writer import Tx
from scenes.reference_shop import Shop, cart, open_shop

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


async def empty(shop: Shop, path: str) -> None:
    await shop.control("PUT", path + "/products", {"productIds": []})


async def unpublish(shop: Shop, path: str) -> None:
    await shop.control("POST", path + "/unpublish")


async def drop(shop: Shop, path: str) -> None:
    await shop.control("DELETE", path)


@pytest.mark.parametrize("change", [empty, unpublish, drop])
async def test_a_collections_page_shows_each_change_at_once(
    shop: Shop, change: Callable[[Shop, str], Awaitable[None]]
) -> None:
    held = {"title": "Lights", "productIds": [(await shop.product())["id"]]}
    made = (await shop.control("POST", "/stores/demo/collections", held)).data
    page = f"/products?collectionId={made['id']}"
    assert len((await shop.shopper("GET", page)).data) == 1
    await change(shop, f"/stores/demo/collections/{made['id']}")
    assert (await shop.shopper("GET", page)).data == []


async def test_a_page_is_read_as_the_quirks_say(shop: Shop) -> None:
    for quirks, status in ((["clamp-limit"], 200), ([], 422)):
        await shop.control("PUT", "/stores/demo/quirks", {"quirks": quirks})
        assert (await shop.shopper("GET", "/products?limit=900")).status == status


SHOWN = ("/products/lamp", "/collections", "/collections/lights")


async def shelve(shop: Shop) -> Any:
    product = await shop.product(stock=10)
    held = {"title": "Lights", "handle": "lights", "productIds": [product["id"]]}
    await shop.control("POST", "/stores/demo/collections", held)
    return product


@pytest.mark.parametrize("path", SHOWN)
async def test_pages_of_products_query_the_state_once(shop: Shop, path: str) -> None:
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
async def test_pages_of_products_show_each_change_at_once(
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


async def test_a_cached_value_is_queried_again_after_a_commit(shop: Shop) -> None:
    reader, asked = shop.running.platform.reader, []

    def count(rows: Rows) -> Any:
        asked.append(rows)
        return rows.value("SELECT COUNT(*) FROM product")

    answers = [reader.recall("products", count) for _ in range(3)]
    await shop.product()
    answers += [reader.recall("products", count) for _ in range(3)]
    assert answers == [0, 0, 0, 1, 1, 1]
    assert len(asked) == 2


async def test_a_cached_page_outlives_unrelated_changes(shop: Shop) -> None:
    reader, asked = shop.running.platform.reader, []
    product = await shop.product(stock=3)

    def count(rows: Rows) -> Any:
        asked.append(rows)
        return rows.value("SELECT SUM(stock > 0) FROM variant")

    answers = [reader.recall_page("in stock", count)]
    for quantity in (1, 1, 1):
        await shop.order(product, quantity)
        answers.append(reader.recall_page("in stock", count))
    assert answers == [1, 1, 1, 0]
    assert len(asked) == 2
    sent = {"productId": product["id"], "adjustment": 1}
    await shop.v1("POST", "/inventory/adjust", sent)
    assert reader.recall_page("in stock", count) == 1


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ("UPDATE product SET title = title", True),
        ("UPDATE collection SET title = title", True),
        ("UPDATE collection_product SET product_id = product_id", True),
        ("DELETE FROM collection_product", True),
        ("UPDATE variant SET price = price", True),
        ("UPDATE variant SET stock = 0 WHERE stock > 0", True),
        ("UPDATE variant SET stock = stock + 1, stock_ms = 1 WHERE stock > 0", False),
        ("UPDATE orders SET note = 'x'", False),
        ("UPDATE store SET name = 'x'", False),
    ],
)
async def test_only_visible_changes_raise_the_revision(
    tmp_path: Path, change: str, shown: bool
) -> None:
    async with open_shop(tmp_path, fixture="demo") as shop:

        def compare(tx: Tx) -> bool:
            before = tx.value(REVISION)
            assert tx.run(change) > 0
            return bool(tx.value(REVISION) > before)

        assert await shop.running.platform.writer.run(compare) is shown


def test_all_that_is_shown_of_a_variant_raises_the_revision(tmp_path: Path) -> None:
    with closing(open_writer(tmp_path / "state.db")) as connection:
        listed = connection.execute("PRAGMA table_info(variant)").fetchall()
    columns = {row["name"] for row in listed}
    assert columns == {*VARIANT_COLUMNS.split(", "), "stock", "stock_ms"}
