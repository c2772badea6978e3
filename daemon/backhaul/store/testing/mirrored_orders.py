"""Tests of orders in the mirror: columns, lines, parcels, versions, tombstones."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from backhaul.core.fold import Version
from backhaul.core.resources import Item, Shipment
from backhaul.store.inbox import Folded
from backhaul.store.testing.event_scenes import (
    NOON,
    append,
    fold_all_with,
    in_fold,
)
from backhaul.store.testing.mirror_scenes import (
    match_with,
    order,
    rows_of,
    show_customer,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.scenes import MirrorTests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.resources import Order
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.testing.scenes import OpenStore, TestClock

LATER = "2026-03-01T12:30:00.000Z"
AHEAD = "2026-03-01T13:30:00.000Z"
PARCEL = Shipment("shp_1", "BlueDart", "T-1", NOON)
WHOLE: dict[str, Any] = {
    "number": 1001,
    "name": "#1001",
    "external_id": "POS-1",
    "awaiting_confirmation": True,
    "status": "CANCELLED",
    "financial_status": "REFUNDED",
    "fulfillment_status": "FULFILLED",
    "placed_at": NOON,
    "cancelled_at": LATER,
    "total_minor": 12_345,
    "currency": "EUR",
    "customer_id": "cus_1",
}
CHANGES: dict[str, Any] = {
    **WHOLE,
    "number": None,
    "name": None,
    "external_id": None,
    "awaiting_confirmation": False,
    "status": "PENDING",
    "financial_status": "PAID",
    "fulfillment_status": "UNFULFILLED",
    "placed_at": None,
    "cancelled_at": None,
    "total_minor": None,
    "currency": "INR",
    "customer_id": None,
}
LINES = ("id", "product_id", "variant_id", "sku", "title", "quantity")
SEEDS = range(40)


def line(id_: str, quantity: int = 1, sku: str | None = "SKU") -> Item:
    """Return an order line."""
    return Item(id_, "prod_1", "var_1", sku, "Lamp", quantity, 0, 50)


def lines_at_random(chance: random.Random) -> tuple[Item, ...]:
    """Return some of four lines, with quantities and SKUs by chance."""
    ids = chance.sample("abcd", chance.randint(0, 4))
    return tuple(
        line(id_, chance.randint(1, 3), chance.choice(["x", "y", None])) for id_ in ids
    )


def lines_of(store: Store, name: str = "main") -> list[tuple[Any, ...]]:
    """Return order, id, quantity and SKU of all lines of a store."""
    columns = ("order_id", "id", "quantity", "sku")
    return rows_of(store, "order_items", *columns, store=name)


def ids_of(store: Store, table: str, parent: str = "order_id") -> list[tuple[Any, ...]]:
    """Return the parent and id of each row of a table."""
    return rows_of(store, table, parent, "id")


async def current(
    store: Store, kind: str, object_id: str, name: str = "main"
) -> Version | None:
    """Return the mirrored version of an object as a fold sees it."""
    return await in_fold(
        store, lambda mirror, _: mirror.current_version(kind, name, object_id)
    )


async def put(store: Store, shown: Order, written: Version) -> None:
    """Write an order."""
    await in_fold(store, lambda mirror, _: mirror.put_order("main", shown, written))


async def stored_document(
    store: Store, id_: str = "ord_1", name: str = "main"
) -> dict[str, Any]:
    """Return the document of an order as a fold sees it."""
    return await in_fold(store, lambda mirror, _: mirror.order_document(name, id_))


async def confirm(store: Store, kind: str, id_: str) -> None:
    """Record a confirming read that began at noon."""
    await in_fold(store, lambda mirror, _: mirror.confirm(kind, "main", id_, NOON))


async def remove(
    store: Store, kind: str, object_id: str, second: int = 9, name: str = "main"
) -> None:
    """Delete an object from the mirror."""
    gone = version(second, b"gone")
    await in_fold(
        store, lambda mirror, _: mirror.remove(kind, name, object_id, gone), name
    )


class OrderMirrorConformance(MirrorTests):
    """Tests of orders in `MirrorWriter`, `Mirror` and the published tables."""

    async def test_an_order_has_all_its_columns(self, store: Store) -> None:
        for second, members in enumerate((WHOLE, CHANGES, WHOLE)):
            shown = order("ord_1", second, **members)
            await put(store, shown, version(second, b""))
            (row,) = rows_of(store, "orders", "store", "id", *members, "updated_at")
            at = version(second, b"").updated_at
            assert row == ("main", "ord_1", *members.values(), at)

    async def test_lines_and_parcels_have_all_their_columns(self, store: Store) -> None:
        item = Item("li_1", "prod_7", "var_8", "SKU-9", "Lamp", 3, 2, 5_000)
        bare = Item("li_2", None, None, None, "", 1, 0, None)
        parcels = (PARCEL, Shipment("shp_2", None, None, None))
        await show_order(store, "ord_1", items=(item, bare), shipments=parcels)
        lines = rows_of(
            store, "order_items", *LINES, "fulfilled_quantity", "unit_price_minor"
        )
        assert lines == [
            ("li_1", "prod_7", "var_8", "SKU-9", "Lamp", 3, 2, 5_000),
            ("li_2", None, None, None, "", 1, 0, None),
        ]
        columns = ("id", "tracking_company", "tracking_number", "shipped_at")
        assert rows_of(store, "shipments", *columns) == [
            ("shp_1", "BlueDart", "T-1", NOON),
            ("shp_2", None, None, None),
        ]

    async def test_the_document_is_the_last_one(self, store: Store) -> None:
        await show_order(store, "ord_1", customer={"name": "Ünicode \u2028 \U0001f4a1"})
        await show_order(store, "ord_2", 1)
        found = await stored_document(store)
        assert found["customer"] == {"name": "Ünicode \u2028 \U0001f4a1"}
        await show_order(store, "ord_1", 2)
        found = await stored_document(store)
        assert found["customer"] is None
        (stored,) = rows_of(store, "orders", "document", id="ord_1")
        assert json.loads(stored[0]) == found
        assert await stored_document(store, "ord_9") == {}
        assert await stored_document(store, name="other") == {}

    async def test_the_same_id_in_two_stores_is_two_orders(self, store: Store) -> None:
        await show_order(store, "ord_1", shipments=(PARCEL,))
        await show_order(store, "ord_1", 1, name="other", items=(line("a", 5),))
        assert rows_of(store, "order_items", "store", "id") == [
            ("main", "li_1"),
            ("other", "a"),
        ]
        assert rows_of(store, "shipments", "store") == [("main",)]
        await show_order(store, "ord_1", 2, name="other", items=())
        assert rows_of(store, "order_items", "store") == [("main",)]
        assert await store.mirror.count("order", "main") == 1

    @pytest.mark.parametrize("slice_seconds", [0.0, 9.0])
    async def test_the_lines_of_an_order_become_those_of_its_last_event(
        self, slice_seconds: float, store: Store
    ) -> None:
        """Lines with the same ids of another order and another store stay."""
        for seed in SEEDS:
            chance = random.Random(seed)  # noqa: S311 - a sequence to repeat
            name = f"store_{seed}"
            expected: dict[str, tuple[Item, ...]] = {}
            puts: list[tuple[str, tuple[Item, ...]]] = []
            for id_ in ("ord_1", "ord_2", "ord_1", "ord_1"):
                expected[id_] = lines_at_random(chance)
                puts.append((id_, expected[id_]))
            await put_orders(store, name, puts, slice_seconds)
            assert lines_of(store, name) == sorted(
                (id_, item.id, item.quantity, item.sku)
                for id_, items in expected.items()
                for item in items
            ), seed

    async def test_a_line_or_parcel_may_move_to_another_order(
        self, store: Store
    ) -> None:
        both: dict[str, Any] = {"items": (line("a"), line("b")), "shipments": (PARCEL,)}
        moved: dict[str, Any] = {"items": (line("b"),), "shipments": (PARCEL,)}
        await show_order(store, "ord_1", 1, **both)
        await show_order(store, "ord_2", 2, **moved)
        assert ids_of(store, "order_items") == [
            *(("ord_1", "a"), ("ord_1", "b"), ("ord_2", "b")),
        ]
        assert ids_of(store, "shipments") == [("ord_1", "shp_1"), ("ord_2", "shp_1")]
        await show_order(store, "ord_1", 3, items=(line("a"),))
        assert ids_of(store, "order_items") == [("ord_1", "a"), ("ord_2", "b")]
        assert ids_of(store, "shipments") == [("ord_2", "shp_1")]
        found = await match_with(store, lambda m: m.parcels_with_number("main", "T-1"))
        assert [(parcel.id, parcel.order_id) for parcel in found] == [
            ("shp_1", "ord_2")
        ]

    async def test_a_changed_parcel_keeps_only_its_last_number(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", shipments=(PARCEL,))
        changed = replace(PARCEL, tracking_number="T-2", tracking_company=None)
        await show_order(store, "ord_1", 1, shipments=(changed,))
        columns = ("id", "tracking_company", "tracking_number")
        assert rows_of(store, "shipments", *columns) == [("shp_1", None, "T-2")]

    async def test_a_version_is_returned_as_it_was_written(
        self, store: Store, open_store: OpenStore
    ) -> None:
        written = Version(NOON, 7, False, NOON, b"\x00\xff" * 16, 5, NOON)
        shown = order("ord_1")
        assert await current(store, "order", "ord_1") is None
        await put(store, shown, written)
        assert await current(store, "order", "ord_1") == written
        assert await current(store, "order", "ord_1", "other") is None
        assert await current(store, "customer", "ord_1") is None
        again = await open_store()
        assert await again.mirror.versions("order", "main", ["ord_1", "ord_9"]) == {
            "ord_1": written
        }
        later = replace(written, sequence=8, delivered=True, standing=6, digest=b"new")
        await put(store, shown, later)
        assert await current(store, "order", "ord_1") == later

    async def test_an_earlier_event_of_the_slice_is_seen(self, store: Store) -> None:
        def write(mirror: MirrorWriter, _: int) -> list[object]:
            shown = order("ord_1", items=(line("a"), line("b")))
            mirror.put_order("main", shown, version(1, b"first"))
            seen: list[object] = [mirror.current_version("order", "main", "ord_1")]
            seen.append(mirror.order_document("main", "ord_1") != {})
            shown = order("ord_1", items=(line("b", 2),))
            mirror.put_order("main", shown, version(2, b"second"))
            seen.append(mirror.current_version("order", "main", "ord_1"))
            mirror.remove("order", "main", "ord_2", version(3, b"gone"))
            seen.append(mirror.current_version("order", "main", "ord_2"))
            return seen

        assert await in_fold(store, write) == [
            version(1, b"first"),
            True,
            version(2, b"second"),
            version(3, b"gone"),
        ]
        assert lines_of(store) == [("ord_1", "b", 2, "SKU")]

    async def test_a_version_from_the_future_is_the_oldest(
        self, store: Store, clock: TestClock
    ) -> None:
        """The clock was set back since, and what arrives now is newer."""
        for id_, seen_at, confirmed_at in (
            ("ord_1", AHEAD, NOON),
            ("ord_2", NOON, AHEAD),
        ):
            ahead = Version(NOON, 0, True, seen_at, b"x", 0, confirmed_at)
            await put(store, order(id_), ahead)
        first = await current(store, "order", "ord_1")
        second = await current(store, "order", "ord_2")
        assert first is not None
        assert second is not None
        assert (first.seen_at, first.confirmed_at) == ("", NOON)
        assert (second.seen_at, second.confirmed_at) == (NOON, "")
        clock.advance(3600)
        first = await current(store, "order", "ord_1")
        assert first is not None
        assert first.seen_at == AHEAD

    async def test_a_removed_order_leaves_a_tombstone(
        self, store: Store, open_store: OpenStore
    ) -> None:
        await show_order(store, "ord_1", shipments=(PARCEL,))
        await show_order(store, "ord_2", 1, shipments=(PARCEL,))
        await show_order(store, "ord_1", 2, name="other")
        await remove(store, "order", "ord_1")
        assert rows_of(store, "orders", "store", "id") == [
            *(("main", "ord_2"), ("other", "ord_1")),
        ]
        assert lines_of(store) == [("ord_2", "li_2", 2, "SKU")]
        assert ids_of(store, "shipments") == [("ord_2", "shp_1")]
        assert await store.mirror.count("order", "main") == 1
        assert await store.mirror.versions("order", "main", ["ord_1"]) == {}
        again = await open_store()
        assert await current(again, "order", "ord_1") == version(9, b"gone")
        assert await current(again, "order", "ord_1", "other") != version(9, b"gone")
        assert await current(again, "customer", "ord_1") is None

    async def test_an_object_that_returns_has_no_tombstone(self, store: Store) -> None:
        await remove(store, "order", "ord_1", 8)
        await remove(store, "order", "ord_1", 9)
        assert await current(store, "order", "ord_1") == version(9, b"gone")
        await remove(store, "customer", "ord_1", 7)
        await in_fold(store, lambda m, _: m.remove_tombstone("order", "main", "ord_1"))
        assert await current(store, "order", "ord_1") is None
        assert await current(store, "customer", "ord_1") == version(7, b"gone")

    async def test_an_order_written_and_removed_in_one_event_is_gone(
        self, store: Store
    ) -> None:
        def write(mirror: MirrorWriter, _: int) -> None:
            shown = order("ord_1", shipments=(PARCEL,))
            mirror.put_order("main", shown, version(1, b""))
            mirror.remove("order", "main", "ord_1", version(2, b""))

        await in_fold(store, write)
        for table in ("orders", "order_items", "shipments"):
            assert rows_of(store, table, "store") == []

    async def test_a_confirming_read_is_recorded(self, store: Store) -> None:
        await show_order(store, "ord_1")
        await show_order(store, "ord_2", 1)
        await show_product(store, "prod_1")
        await show_customer(store, "cus_1", "a@b.example")
        objects = (("order", "ord_1"), ("product", "prod_1"), ("customer", "cus_1"))
        for kind, id_ in objects:
            before = await current(store, kind, id_)
            assert before is not None
            await confirm(store, kind, id_)
            assert await current(store, kind, id_) == replace(before, confirmed_at=NOON)
        untouched = await current(store, "order", "ord_2")
        assert untouched is not None
        assert untouched.confirmed_at == ""

    async def test_no_tombstone_is_confirmed(self, store: Store) -> None:
        await remove(store, "order", "ord_1")
        await confirm(store, "order", "ord_1")
        assert await current(store, "order", "ord_1") == version(9, b"gone")


async def put_orders(
    store: Store,
    name: str,
    puts: Sequence[tuple[str, tuple[Item, ...]]],
    slice_seconds: float,
) -> None:
    """Write orders with these lines, each by an event, in slices of that length."""
    waiting = iter(puts)

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        id_, items = next(waiting)
        shown = order(id_, items=items)
        mirror.put_order(name, shown, version(event.id, b""))
        return Folded("folded", event.topic)

    await append(store, *["{}" for _ in puts], name=name)
    for report in await fold_all_with(store, fold, slice_seconds):
        assert report.problems == ()
