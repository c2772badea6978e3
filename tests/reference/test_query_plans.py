"""Query plans: statements that must not read whole tables."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from backhaul_reference.platform.state.writer import Tx
from scenes.reference_shop import Shop


@asynccontextmanager
async def traced(shop: Shop) -> AsyncIterator[list[str]]:
    """The statements that write and those that only read, as they are run."""
    platform, found = shop.running.platform, list[str]()

    def watch(tx: Tx) -> None:
        for connection in (tx.connection, platform.reader.connection):
            connection.set_trace_callback(found.append)

    await platform.writer.run(watch)
    yield found
    platform.reader.connection.set_trace_callback(None)


def plan(shop: Shop, statement: str) -> list[str]:
    rows = shop.running.platform.reader.connection
    return [row["detail"] for row in rows.execute(f"EXPLAIN QUERY PLAN {statement}")]


async def test_removing_a_variant_does_not_read_every_line_sold(shop: Shop) -> None:
    sizes = [{"title": one, "price": "1", "stock": 5} for one in ("S", "M")]
    product = await shop.product(variants=sizes)
    order = await shop.order(product)
    kept = {"id": product["variants"][1]["id"]}
    async with traced(shop) as statements:
        path = f"/products/{product['id']}"
        assert (await shop.v1("PUT", path, {"variants": [kept]})).status == 200
    unlinking = [one for one in statements if "order_item" in one]
    assert len(unlinking) == 2
    for one in unlinking:
        assert "order_item_product" in plan(shop, one)[0]
    (item,) = (await shop.v1("GET", f"/orders/{order['id']}")).data["items"]
    assert (item["productId"], item["variantId"]) == (product["id"], None)


async def test_the_history_is_read_from_its_newest(shop: Shop) -> None:
    product = await shop.product()
    order = await shop.order(product)
    for query, count, index in (
        ("", 2, "history_store (store_id=?)"),
        (f"?orderId={order['id']}", 1, "history_order (store_id=? AND order_id=?)"),
        (f"?productId={product['id']}", 2, "history_product (store_id=? AND product"),
    ):
        async with traced(shop) as statements:
            found = await shop.v1("GET", f"/inventory/history{query}")
        assert len(found.data) == count
        plans = [plan(shop, one) for one in statements if "FROM history" in one]
        assert len(plans) == 2
        for (only,) in plans:  # and no step that sorts
            assert index in only
