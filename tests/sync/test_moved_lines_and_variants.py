"""A full sync repairs lines and variants that took the place of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenes import payloads
from scenes.damaged_rows import delete_rows, overwrite
from scenes.databases import fold_all
from scenes.scripted_platform import document
from scenes.stored import rows_of, values_of
from sync.conftest import reconciling

if TYPE_CHECKING:
    from sync.conftest import Place

ORDER = payloads.order(items=[payloads.item("li_0"), payloads.item("li_1")])


def listed(*shown: payloads.Document) -> bytes:
    return document({"data": shown, "meta": {"total": len(shown), "hasMore": False}})


def level(product_id: str, variant_id: str) -> payloads.Document:
    shown = {"productId": product_id, "variantId": variant_id, "stock": 12}
    return shown | {"updatedAt": payloads.instant(1)}


async def test_an_order_found_without_a_line_by_an_upgrade_gets_it_back(
    place: Place,
) -> None:
    """The mirrored order is marked as different from any that the platform shows."""
    await place.store.inbox.append(payloads.read("orders/read", ORDER))
    await fold_all(place.store)
    delete_rows(place.store.place, "order_items", id="li_1")
    overwrite(place.store.place, "orders", {"digest": b""})
    await place.clock.sleep(60)
    place.platform.respond("/orders", listed(ORDER))
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.read_lists("full", ["orders"])
    assert (ended.stale, ended.unrepaired) == (1, 0)
    assert values_of(place.store.place, "order_items", "id") == ["li_0", "li_1"]


async def test_the_stock_of_a_variant_moves_with_it(place: Place) -> None:
    """The same holds if only full syncs show the move."""
    variant = payloads.variant()
    before = payloads.product("prod_1", 1, variants=[variant])
    place.platform.respond("/products", listed(before))
    place.platform.respond("/inventory", listed(level("prod_1", "var_1")))
    async with reconciling(place) as reconciler:
        await reconciler.read_lists("full", ["products", "levels"])
    await place.clock.sleep(60)
    other = payloads.product("prod_2", 3, variants=[variant])
    place.platform.respond(
        "/products", listed(payloads.product("prod_1", 4, variants=[]), other)
    )
    place.platform.respond("/inventory", listed(level("prod_2", "var_1")))
    async with reconciling(place) as reconciler:
        await reconciler.read_lists("full", ["products"])
        await reconciler.read_lists("full", ["levels"])
    found = rows_of(place.store.place, "stock", "product_id", "sku", "stock")
    assert found == [("prod_2", "LS-S", 12)]
