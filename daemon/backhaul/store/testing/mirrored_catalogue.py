"""Tests of products, variants, stock levels and customers in the mirror."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backhaul.core.fold import Version
from backhaul.core.resources import Customer, Deletion, Level, Product, Variant
from backhaul.store.testing.event_scenes import NOON, in_fold
from backhaul.store.testing.mirror_scenes import (
    match_with,
    rows_of,
    show_customer,
    show_level,
    version,
)
from backhaul.store.testing.scenes import MirrorTests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.testing.scenes import OpenStore

LATER = "2026-03-01T12:30:00.000Z"
GTIN = "4006381333931"
SMALL = Variant("var_1", "SKU-1", GTIN, "small", 1_500)
LARGE = Variant("var_2", "SKU-2", None, None, None)
PRODUCT = Product("prod_1", "lamp", "Lamp", "active", "E-1", NOON, (SMALL,), (), b"{}")
VARIANT_COLUMNS = ("id", "product_id", "sku", "barcode", "title", "price_minor")


async def put(
    store: Store,
    second: int = 0,
    *variants: Variant,
    id_: str = "prod_1",
    name: str = "main",
    confirmed_at: str = "",
    **members: Any,
) -> None:
    """Write a product with these variants, as of so many seconds after noon."""
    at = version(second, b"").updated_at
    shown = replace(PRODUCT, id=id_, updated_at=at, variants=variants, **members)
    written = replace(version(second, b""), confirmed_at=confirmed_at)
    await in_fold(
        store, lambda mirror, _: mirror.put_product(name, shown, "EUR", written), name
    )


async def delete(store: Store, second: int, **members: Any) -> None:
    """Delete product `prod_1` as of so many seconds after noon."""
    at = version(second, b"").updated_at
    gone = Deletion("prod_1", at, **members)
    await in_fold(
        store,
        lambda mirror, _: mirror.delete_product("main", gone, version(second, b"")),
    )


async def was_deleted(
    store: Store,
    second: int,
    variant: str = "var_1",
    product: str = "prod_1",
    name: str = "main",
) -> bool:
    """Return whether a variant was deleted at that second or later."""
    at = version(second, b"").updated_at
    return await in_fold(
        store, lambda mirror, _: mirror.deleted_since(name, product, variant, at)
    )


async def with_sku(store: Store, sku: str) -> list[tuple[str, str]]:
    """Return the product and id of every variant with a SKU or GTIN."""
    return await match_with(store, lambda mirror: mirror.variants_with_sku("main", sku))


async def level_version(store: Store, name: str, variant: str) -> Version | None:
    """Return the mirrored version of a level as a fold sees it."""
    return await in_fold(
        store, lambda mirror, _: mirror.current_level_version(name, variant)
    )


def levels(store: Store) -> list[tuple[Any, ...]]:
    """Return product, variant and stock of every level."""
    return rows_of(store, "inventory_levels", "product_id", "variant_id", "stock")


def variants(store: Store) -> list[tuple[Any, ...]]:
    """Return product and id of every variant."""
    return rows_of(store, "variants", "product_id", "id")


class ProductMirrorConformance(MirrorTests):
    """Tests of products and variants in `MirrorWriter` and the published tables."""

    async def test_a_product_has_all_its_columns(self, store: Store) -> None:
        bare: dict[str, Any] = {
            "handle": None,
            "title": "",
            "status": "draft",
            "external_id": None,
        }
        columns = ("handle", "title", "status", "external_id", "updated_at")
        for second in (0, 2):
            await put(store, second)
            (row,) = rows_of(store, "products", *columns, "deleted_at", id="prod_1")
            at = version(second, b"").updated_at
            assert row == ("lamp", "Lamp", "active", "E-1", at, None)
            await put(store, second + 1, **bare)
            (row,) = rows_of(store, "products", *columns, store="main")
            at = version(second + 1, b"").updated_at
            assert row == (*bare.values(), at)

    async def test_variants_have_all_their_columns(self, store: Store) -> None:
        await put(store, 3, SMALL, LARGE)
        at = version(3, b"").updated_at
        columns = (*VARIANT_COLUMNS, "currency", "updated_at")
        assert rows_of(store, "variants", *columns) == [
            ("var_1", "prod_1", "SKU-1", GTIN, "small", 1_500, "EUR", at),
            ("var_2", "prod_1", "SKU-2", None, None, None, "EUR", at),
        ]

    async def test_the_variants_become_those_of_the_last_event(
        self, store: Store
    ) -> None:
        await put(store, 1, SMALL, LARGE)
        await put(store, 2, SMALL, id_="prod_2")
        await put(store, 3, SMALL, name="other")
        changed = replace(LARGE, sku="SKU-3", price_minor=9)
        await put(store, 4, changed)
        assert variants(store) == [
            *(("prod_1", "var_2"), ("prod_2", "var_1"), ("prod_1", "var_1")),
        ]
        (row,) = rows_of(store, "variants", "sku", "price_minor", id="var_2")
        assert row == ("SKU-3", 9)
        assert await with_sku(store, "SKU-2") == []

    async def test_a_lost_variant_loses_its_level(self, store: Store) -> None:
        await put(store, 1, SMALL, LARGE)
        await show_level(store, 5, 2)
        await put(store, 3, LARGE)
        assert levels(store) == []

    async def test_a_level_that_is_newer_than_the_loss_of_its_variant_stays(
        self, store: Store
    ) -> None:
        await put(store, 1, SMALL)
        await show_level(store, 5, 9)
        await put(store, 3)
        assert levels(store) == [("prod_1", "var_1", 5)]
        seen_at = version(9, b"").seen_at
        await put(store, 4, confirmed_at=seen_at)
        assert levels(store) == []

    async def test_the_levels_of_other_products_and_stores_stay(
        self, store: Store
    ) -> None:
        await put(store, 1, SMALL)
        await show_level(store, 5, 2, product="prod_2")
        await show_level(store, 6, 2, name="other")
        await put(store, 3)
        assert levels(store) == [("prod_2", "var_2", 5), ("prod_1", "var_1", 6)]

    async def test_a_deleted_product_leaves_a_tombstone(self, store: Store) -> None:
        await put(store, 1, SMALL)
        await put(store, 1, LARGE, id_="prod_2")
        await put(store, 1, SMALL, name="other")
        await show_level(store, 5, 2)
        await show_level(store, 6, 2, name="other")
        await delete(store, 3, handle="old", title="Old", external_id="E-9")
        columns = ("handle", "title", "status", "external_id", "deleted_at")
        (row,) = rows_of(store, "products", *columns, store="main", id="prod_1")
        at = version(3, b"").updated_at
        assert row == ("old", "Old", "deleted", "E-9", at)
        assert variants(store) == [("prod_2", "var_2"), ("prod_1", "var_1")]
        assert levels(store) == [("prod_1", "var_1", 6)]
        assert await store.mirror.count("product", "main") == 1
        found = await in_fold(
            store, lambda m, _: m.current_version("product", "main", "prod_1")
        )
        assert found == version(3, b"")

    async def test_a_deletion_is_the_same_after_any_past(self, store: Store) -> None:
        """Nothing of the product's last event is left in its tombstone."""
        await put(store, 1, SMALL)
        await delete(store, 3)
        columns = ("handle", "title", "external_id", "document")
        assert rows_of(store, "products", *columns) == [(None, "", None, "{}")]

    async def test_a_product_that_returns_is_not_deleted(self, store: Store) -> None:
        await delete(store, 1)
        assert await store.mirror.count("product", "main") == 0
        await put(store, 2, SMALL)
        assert rows_of(store, "products", "status", "deleted_at") == [("active", None)]
        assert variants(store) == [("prod_1", "var_1")]
        assert await store.mirror.count("product", "main") == 1

    async def test_a_variant_was_deleted_if_its_product_lost_it_later(
        self, store: Store
    ) -> None:
        assert not await was_deleted(store, 1)
        await put(store, 5, SMALL)
        assert not await was_deleted(store, 1)
        await put(store, 7)
        assert await was_deleted(store, 1)
        assert await was_deleted(store, 7)
        assert not await was_deleted(store, 8)
        assert not await was_deleted(store, 1, product="prod_2")
        assert not await was_deleted(store, 1, name="other")
        await delete(store, 9)
        assert await was_deleted(store, 60)

    async def test_a_variant_of_another_product_was_deleted_here(
        self, store: Store
    ) -> None:
        await put(store, 5)
        await put(store, 6, SMALL, id_="prod_2")
        assert await was_deleted(store, 1)
        assert not await was_deleted(store, 1, product="prod_2")

    async def test_a_variant_of_two_products_is_of_the_one_that_changed_last(
        self, store: Store
    ) -> None:
        await put(store, 5, SMALL, id_="prod_2")
        await put(store, 3, SMALL)
        await show_level(store, 4, 6)
        for name in ("SKU-1", GTIN):
            assert await with_sku(store, name) == [("prod_2", "var_1")]
        shown = await store.read(lambda reader: reader.find_objects("sku", "SKU-1"))
        assert [one.facts["product_id"] for one in shown] == ["prod_2"]
        one = await store.read(lambda reader: reader.object("sku", "main", "var_1"))
        assert one is not None
        assert one.facts["product_id"] == "prod_2"
        assert rows_of(store, "stock", "sku", "stock") == [("SKU-1", 4)]
        await put(store, 5, SMALL, id_="prod_3")
        assert await with_sku(store, "SKU-1") == [("prod_3", "var_1")]


class LevelAndCustomerMirrorConformance(MirrorTests):
    """Tests of stock levels and customers in `MirrorWriter`."""

    async def test_a_level_is_the_last_one_written(
        self, store: Store, open_store: OpenStore
    ) -> None:
        await show_level(store, 5, 1)
        await show_level(store, -2, 2)
        await show_level(store, 9, 3, name="other")
        columns = ("store", "product_id", "variant_id", "stock", "updated_at")
        assert rows_of(store, "inventory_levels", *columns) == [
            ("main", "prod_1", "var_1", -2, version(2, b"").updated_at),
            ("other", "prod_1", "var_1", 9, version(3, b"").updated_at),
        ]
        again = await open_store()
        expected = version(2, b"-2")
        assert await again.mirror.versions("level", "main", ["var_1"]) == {
            "var_1": expected
        }
        for name, variant, found in (
            ("main", "var_1", expected),
            ("main", "var_2", None),
            ("third", "var_1", None),
        ):
            assert await level_version(again, name, variant) == found

    async def test_a_level_may_move_to_another_product(self, store: Store) -> None:
        await show_level(store, 5, 1)
        level = Level("prod_2", "var_1", 4)
        await in_fold(store, lambda m, _: m.put_level("main", level, version(2, b"")))
        assert levels(store) == [("prod_2", "var_1", 4)]

    async def test_a_level_is_confirmed_by_its_variant(self, store: Store) -> None:
        await show_level(store, 5, 1)
        await show_level(store, 5, 1, product="prod_2")
        await in_fold(store, lambda m, _: m.confirm("level", "main", "var_1", LATER))
        found = await store.mirror.versions("level", "main", ["var_1", "var_2"])
        assert {id_: each.confirmed_at for id_, each in found.items()} == {
            "var_1": LATER,
            "var_2": "",
        }

    async def test_a_customer_has_all_its_columns(self, store: Store) -> None:
        columns = ("name", "email", "phone", "updated_at")
        asha = ("Asha", "Asha@Example.com", "+91 1", NOON)
        for second, members in enumerate((asha, (None, None, None, LATER), asha)):
            await put_customer(store, second, *members)
            assert rows_of(store, "customers", *columns, id="cus_1") == [members]

    async def test_a_removed_customer_leaves_a_tombstone(self, store: Store) -> None:
        await show_customer(store, "cus_1", "a@b.example")
        await show_customer(store, "cus_2", "b@b.example")
        await show_customer(store, "cus_1", "a@b.example", name="other")
        gone = version(5, b"gone")
        await in_fold(store, lambda m, _: m.remove("customer", "main", "cus_1", gone))
        assert rows_of(store, "customers", "store", "id") == [
            *(("main", "cus_2"), ("other", "cus_1")),
        ]
        assert await store.mirror.count("customer", "main") == 1
        found = await in_fold(
            store, lambda m, _: m.current_version("customer", "main", "cus_1")
        )
        assert found == gone

    async def test_versions_are_those_of_the_kind_and_the_store(
        self, store: Store
    ) -> None:
        written = Version(NOON, 3, True, NOON, b"\x01" * 32, 2, "")
        shown = replace(PRODUCT, variants=())

        def write(mirror: MirrorWriter, _: int) -> None:
            mirror.put_product("main", shown, "EUR", written)

        await in_fold(store, write)
        await show_customer(store, "cus_1", "a@b.example")
        ids: Sequence[str] = ["prod_1", "cus_1", "var_1"]
        assert await store.mirror.versions("product", "main", ids) == {
            "prod_1": written
        }
        customers = await store.mirror.versions("customer", "main", ids)
        assert list(customers) == ["cus_1"]
        assert await store.mirror.versions("product", "other", ids) == {}
        assert await store.mirror.versions("product", "main", []) == {}


async def put_customer(
    store: Store,
    second: int,
    who: str | None,
    email: str | None,
    phone: str | None,
    updated_at: str,
) -> None:
    """Write customer `cus_1`."""
    shown = Customer("cus_1", who, email, phone, updated_at, b"{}")
    written = replace(version(second, b""), updated_at=updated_at)
    await in_fold(store, lambda m, _: m.put_customer("main", shown, written))
