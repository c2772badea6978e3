"""Tests of near matches: what a name of a SKU, an order or a carrier may mean."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.resources import Shipment
from backhaul.store.testing.mirror_scenes import (
    product_of,
    show,
    show_level,
    show_order,
    version,
)
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter

SKUS = ("LAMP-02", "LAMP-20", "LAMP-XL", "TEA-250", "MUG")


async def near(store: Store, kind: str, name: str, limit: int = 5) -> list[str]:
    """Return the names of the near matches in the store `main`."""
    found = await store.read(
        lambda reader: reader.near_matches(kind, "main", name, limit)
    )
    return [each.name for each in found]


async def sell(store: Store, *skus: str, name: str = "main") -> None:
    """Mirror a product with a variant for each SKU."""
    product = product_of(variants=len(skus))
    variants = tuple(
        replace(variant, sku=sku)
        for variant, sku in zip(product.variants, skus, strict=True)
    )
    shown = replace(product, variants=variants)

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.put_product(name, shown, "INR", version(0, shown.document))
        mirror.add_change(name, "product", shown.id, "updated", event)

    await show(store, "product", shown.id, write, name=name)


class NearMatchesConformance(StoreConformance):
    """Tests of `Reader.near_matches`."""

    async def test_a_sku_with_one_wrong_character_is_found(self, store: Store) -> None:
        await sell(store, *SKUS)
        for typed, meant in (
            ("LAMP-2", "LAMP-02"),
            ("LAMP02", "LAMP-02"),
            ("lamp-02", "LAMP-02"),
            ("LMAP-02", "LAMP-02"),
            ("XTEA-250", "TEA-250"),
            ("TEA-25", "TEA-250"),
        ):
            assert meant in (await near(store, "sku", typed))[:2], typed

    async def test_skus_that_are_not_like_the_name_are_left_out(
        self, store: Store
    ) -> None:
        await sell(store, *SKUS)
        assert await near(store, "sku", "CHAIR") == []
        assert await near(store, "sku", "") == []
        assert len(await near(store, "sku", "LAMP-2", 1)) == 1

    async def test_a_sku_with_the_same_beginning_is_found(self, store: Store) -> None:
        await sell(store, *SKUS)
        assert "LAMP-XL" in await near(store, "sku", "LAMP-XXXL")

    async def test_skus_of_another_store_are_not_offered(self, store: Store) -> None:
        await sell(store, "LAMP-02", name="outlet")
        assert await near(store, "sku", "LAMP-2") == []

    async def test_a_match_says_what_it_is(self, store: Store) -> None:
        await sell(store, "LAMP-02")
        await show_level(store, 7)
        (found,) = await store.read(
            lambda reader: reader.near_matches("sku", "main", "LAMP-2")
        )
        assert found.title
        assert found.detail == "7 in stock"

    async def test_an_order_is_found_by_a_wrong_or_misread_character(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")  # 1001
        await show_order(store, "ord_999", external_id="POS-9")
        for typed in ("1o01", "#101", "10011", "1010", "order 1001"):
            assert "#1001" in await near(store, "order", typed), typed
        assert await near(store, "order", "POS-8") == ["#1999"]
        assert await near(store, "order", "777") == []

    async def test_known_carriers_are_those_of_parcels(self, store: Store) -> None:
        parcels = (
            Shipment("shp_1", "DHL", "T1", None),
            Shipment("shp_2", "BlueDart", "T2", None),
            Shipment("shp_3", None, "T3", None),
        )
        await show_order(store, "ord_1", shipments=parcels)
        assert await near(store, "carrier", "dhl express") == ["DHL", "BlueDart"]
