"""Tests of the lists of products and of customers."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.catalogue_lists import ListPlace
from backhaul.store.testing.mirror_scenes import (
    show_customer,
    show_gone,
    show_level,
    show_order,
    show_product,
)
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.catalogue_lists import ListedCustomer, ListedProduct


async def products(
    store: Store, limit: int = 99, before: ListPlace | None = None
) -> list[ListedProduct]:
    """Return products as operators see them."""
    return await store.read(lambda reader: reader.products(limit, before))


async def customers(
    store: Store, limit: int = 99, before: ListPlace | None = None
) -> list[ListedCustomer]:
    """Return customers as operators see them."""
    return await store.read(lambda reader: reader.customers(limit, before))


class CatalogueListsConformance(StoreConformance):
    """Tests of the lists of products and of customers."""

    async def test_products_are_listed_page_by_page(self, store: Store) -> None:
        for number in (1, 2, 3):
            await show_product(store, f"prod_{number}")
        await show_product(store, "prod_1", name="north")
        await show_gone(store, "product", "prod_2")
        whole = await products(store)
        assert [(each.store, each.id) for each in whole] == [
            ("north", "prod_1"),
            ("main", "prod_3"),
            ("main", "prod_1"),
        ]
        first = await products(store, limit=2)
        place = ListPlace.of(str(first[-1].place))
        assert first + await products(store, before=place) == whole

    async def test_a_product_is_listed_with_its_stock_and_price(
        self, store: Store
    ) -> None:
        await show_product(store, "prod_1")
        await show_product(store, "prod_2")
        await show_level(store, 12, product="prod_2")
        second, first = await products(store)
        assert (second.title, second.status, second.variants) == ("Lamp", "active", 1)
        assert (second.stock, second.from_minor, second.currency) == (12, 100, "INR")
        assert first.stock is None

    async def test_customers_are_listed_with_their_orders(self, store: Store) -> None:
        await show_customer(store, "cus_1", "a@shop.example")
        await show_customer(store, "cus_2", "b@shop.example")
        for number in (1, 2):
            await show_order(store, f"ord_{number}", customer_id="cus_1")
        await show_order(store, "ord_3", name="north", customer_id="cus_1")
        found = await customers(store)
        assert [(each.id, each.name, each.email, each.orders) for each in found] == [
            ("cus_2", "Asha", "b@shop.example", 0),
            ("cus_1", "Asha", "a@shop.example", 2),
        ]
        assert await customers(store, before=found[0].place) == found[1:]
        assert ListPlace.of("nonsense") is None
