"""Tests of the list of stock: orders, pages, filters, and what each row shows."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backhaul.core.lifecycle import Cause
from backhaul.store.filters import Filter, Sort
from backhaul.store.stock_lists import StockPage, StockPlace
from backhaul.store.testing.command_scenes import ADJUSTMENT, adjusted, plan, sent
from backhaul.store.testing.mirror_scenes import (
    product_of,
    show,
    show_gone,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.testing.target_scenes import count, decided, hold

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.stock_lists import ListedStock
    from backhaul.store.testing.scenes import TestClock

STORES = ("main", "north")


async def page(
    store: Store,
    /,
    *,
    limit: int = 99,
    after: StockPlace | None = None,
    sort: Sort = Sort.USUAL,
    scanned: int | None = None,
    stores: tuple[str, ...] = STORES,
    **terms: Any,
) -> StockPage:
    """Return one page of the list."""
    place = None if after is None else str(after)
    wanted = Filter(**terms)
    return await store.read(
        lambda reader: reader.stock(wanted, stores, limit, place, sort, scanned)
    )


async def skus(store: Store, /, **how: Any) -> list[str]:
    """Return the stores and SKUs of one page, in the order of the list."""
    return [f"{row.store} {row.sku}" for row in (await page(store, **how)).rows]


async def row_of(store: Store, sku: str = "SKU-1") -> ListedStock:
    """Return the row of a SKU of the store `main`."""
    (row,) = (await page(store, sku=sku, store="main")).rows
    return row


async def show_five(store: Store) -> None:
    """Let events show four SKUs of a store and one of another; one has no stock."""
    for number, stock in ((1, 7), (2, 0), (3, 7), (4, None)):
        await show_product(store, f"prod_{number}")
        if stock is not None:
            await show_level(store, stock, number, product=f"prod_{number}")
    await show_product(store, "prod_2", name="north")
    await show_level(store, 3, product="prod_2", name="north")


async def whole_in_pages(store: Store, size: int, **how: Any) -> list[ListedStock]:
    """Return the rows of all pages of a size."""
    found: list[ListedStock] = []
    after = None
    while True:
        part = await page(store, limit=size, after=after, **how)
        found += part.rows
        assert len({row.place for row in found}) == len(found), "a row came twice"
        if len(part.rows) == size:
            after = part.rows[-1].place
        elif part.further is not None:
            after = part.further
        else:
            return found


class StockListsConformance(StoreConformance):
    """Tests of `Reader.stock`, and of the counts of its states."""

    async def test_variants_are_listed_by_sku_on_pages_of_any_size(
        self, store: Store
    ) -> None:
        await show_five(store)
        whole = (await page(store)).rows
        assert [f"{row.store} {row.sku}" for row in whole] == [
            *("main SKU-1", "main SKU-2", "north SKU-2", "main SKU-3", "main SKU-4")
        ]
        assert [row.stock for row in whole] == [7, 0, 3, 7, None]
        for size in (1, 2, 3):
            assert await whole_in_pages(store, size) == list(whole), size
        assert await skus(store, stores=("north",)) == ["north SKU-2"]
        assert await skus(store, store="north") == ["north SKU-2"]

    async def test_the_lowest_stock_comes_first_on_pages_of_any_size(
        self, store: Store
    ) -> None:
        await show_five(store)
        expected = ["main SKU-2", "north SKU-2", "main SKU-1", "main SKU-3"]
        assert await skus(store, sort=Sort.LOWEST) == expected
        whole = (await page(store, sort=Sort.LOWEST)).rows
        for size in (1, 2, 3):
            found = await whole_in_pages(store, size, sort=Sort.LOWEST)
            assert found == list(whole), size

    async def test_a_search_continues_where_a_page_ended_it(self, store: Store) -> None:
        await show_five(store)
        first = await page(store, words=("sku-3",), scanned=1)
        assert first.rows == []
        assert first.further is not None
        for sort in (Sort.USUAL, Sort.LOWEST):
            for scanned in (1, 2, 3):
                found = await whole_in_pages(
                    store, 9, words=("lamp",), below="8", scanned=scanned, sort=sort
                )
                expected = (await page(store, below="8", sort=sort)).rows
                assert found == list(expected), (sort, scanned)
        # An index answers a SKU, so a page searches all rows.
        assert (await page(store, sku="SKU-4", scanned=1)).further is None

    async def test_terms_select_variants(self, store: Store) -> None:
        await show_five(store)
        await count(store, 5, 10)
        terms: dict[str, tuple[dict[str, Any], list[str]]] = {
            "a SKU": ({"sku": "SKU-2"}, ["main SKU-2", "north SKU-2"]),
            "a SKU of a store": ({"sku": "SKU-2", "store": "main"}, ["main SKU-2"]),
            "a variant": ({"object": "var_3"}, ["main SKU-3"]),
            "a product": ({"object": "prod_2"}, ["main SKU-2", "north SKU-2"]),
            "both": ({"object": "prod_3", "sku": "SKU-2"}, []),
            "little": ({"below": "4"}, ["main SKU-2", "north SKU-2"]),
            "words": ({"words": ("LAMP", "sku-1")}, ["main SKU-1"]),
            "a connection": ({"connector": "erp"}, ["main SKU-1"]),
            "since": ({"since": version(3, b"").updated_at}, ["main SKU-3"]),
            "until": ({"until": version(1, b"").updated_at}, ["north SKU-2"]),
            "a state": ({"state": "waiting"}, ["main SKU-1"]),
            "a state and more": ({"state": "waiting", "below": "7"}, []),
        }
        found = {name: await skus(store, **wish) for name, (wish, _) in terms.items()}
        assert found == {name: expected for name, (_, expected) in terms.items()}

    async def test_a_row_shows_the_newest_count_and_its_state(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_product(store)
        await show_level(store, 8)
        assert (await row_of(store)).push is None
        older = await count(store, 9, 5)
        newer = await count(store, 7, 10)
        row = await row_of(store)
        assert (row.push, row.command) == ("waiting", newer)
        assert (row.counted, row.counted_by) == (7, "erp")
        assert await decided(store, clock.advance) == "adjusting"
        assert (await row_of(store)).push == "adjusting"
        assert older != newer
        assert await self.states(store) == {"adjusting": 1}

    async def test_a_held_count_is_found_by_its_state(
        self, store: Store, clock: TestClock
    ) -> None:
        await hold(store, clock.advance)
        assert (await row_of(store)).push == "held"
        assert await skus(store, state="held") == ["main SKU-1"]
        assert await self.states(store) == {"held": 1}

    async def test_an_adjustment_of_a_record_is_shown(self, store: Store) -> None:
        await show_product(store)
        await show_product(store, "prod_2")
        how: dict[str, Any] = {"target": "prod_1", "payload": ADJUSTMENT}
        planned = await plan(store, "adjust", **how)
        row = await row_of(store)
        assert (row.push, row.command) == ("adjusting", planned)
        assert await skus(store, state="adjusting") == ["main SKU-1"]
        other: dict[str, Any] = {"variant_id": "var_2", "delta": -1}
        for cause, state in (
            (Cause.UNKNOWN, "uncertain"),
            (Cause.UNDECIDABLE, "parked"),
        ):
            sent_ = await sent(
                store, cause, kind="adjust", target=f"prod_2{state}", payload=other
            )
            assert await skus(store, state=state) == ["main SKU-2"], state
            assert (await self.states(store))[state] == 1
        row = await row_of(store, "SKU-2")
        assert (row.push, row.command) == ("parked", sent_.id)

    async def test_a_row_shows_who_changed_the_stock_last(self, store: Store) -> None:
        await show_order(store, "ord_5")
        await show_product(store)
        await show_level(store, 9, 1, adjustment="adj_1", delta=-1, reason="DAMAGED")
        row = await row_of(store)
        assert (row.reason, row.source, row.order) == ("DAMAGED", None, None)
        command = await adjusted(store, "adj_2")
        await show_level(store, 7, 2, adjustment="adj_2", delta=-2)
        row = await row_of(store)
        assert (row.source, row.changed_by) == ("books", command.id)
        assert row.locator is not None
        assert row.locator.startswith("file:")
        assert (row.stock, row.since) == (7, version(2, b"").updated_at)

    async def test_a_variant_counts_once_and_a_deleted_one_not(
        self, store: Store
    ) -> None:
        await show_product(store, "prod_2")
        moved = product_of("prod_1", 5)
        (variant,) = product_of("prod_2").variants

        def write(mirror: MirrorWriter, _: int) -> None:
            shown = replace(moved, variants=(variant,))
            mirror.put_product("main", shown, "INR", version(5, b"moved"))

        await show(store, "product", "prod_1", write)
        await show_product(store, "prod_3")
        found = (await page(store, limit=2)).rows
        assert [row.product_id for row in found] == ["prod_1", "prod_3"]
        await show_gone(store, "product", "prod_2")
        await show_gone(store, "product", "prod_1")
        assert await skus(store) == ["main SKU-3"]

    async def test_a_place_that_is_none_is_the_beginning(self, store: Store) -> None:
        await show_product(store)
        for text in ("nonsense", "main var_1 many SKU-1", "a b c"):
            assert StockPlace.of(text) is None
        place = StockPlace("main", "var_1", -3, "SKU 1 of 2")
        assert StockPlace.of(str(place)) == place
        found = await store.read(
            lambda reader: reader.stock(Filter(), STORES, 9, "nonsense")
        )
        assert [row.sku for row in found.rows] == ["SKU-1"]

    async def states(self, store: Store) -> dict[str, int]:
        """Return the counts that are not zero."""
        found = await store.read(lambda reader: reader.state_counts("stock"))
        return {name: number for name, number in found.items() if number}
