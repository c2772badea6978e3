"""Tests of the comparison of two mirrors: every difference, and nothing else."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from msgspec.structs import astuple, replace

from backhaul.core.fold import Version
from backhaul.core.resources import (
    Customer,
    Deletion,
    Item,
    Level,
    Shipment,
    StockChange,
    StockMove,
)
from backhaul.store import database_at
from backhaul.store.testing.event_scenes import NOON, in_fold
from backhaul.store.testing.mirror_scenes import order, product_of, version
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.testing.scenes import TestClock

Change: TypeAlias = "Callable[[MirrorWriter], object]"
LATER = "2026-03-01T12:30:00.000Z"
LINE = Item("li_1", "prod_1", "var_1", "SKU", "Lamp", 2, 0, 50)
PARCEL = Shipment("shp_1", "BlueDart", "T-1", NOON)
ORDER = order("ord_1", items=(LINE,), shipments=(PARCEL,))
PRODUCT = product_of("prod_1", variants=2)
SMALL, LARGE = PRODUCT.variants
CUSTOMER = Customer("cus_1", "Asha", "a@b.example", "+91 1", NOON, b'{"id":"cus_1"}')
LEVEL = Level("prod_1", "var_1", 5)
MOVE = StockMove(LEVEL, -2, "SOLD")
CHANGE = StockChange("adj_1", "prod_1", "ord_1", NOON, (MOVE,))
SECOND = version(1, b"second")


def write_all(mirror: MirrorWriter, seen: Version) -> None:
    """Write an object of each kind, known in this way."""
    mirror.put_product("main", PRODUCT, "INR", replace(seen, updated_at=NOON))
    mirror.put_order("main", ORDER, replace(seen, updated_at=NOON))
    mirror.put_customer("main", CUSTOMER, replace(seen, updated_at=NOON))
    mirror.put_level("main", LEVEL, replace(seen, updated_at=NOON))
    mirror.add_moves("main", CHANGE, "")


def put_order(**members: Any) -> Change:
    """Return a change of the order."""
    at = replace(SECOND, updated_at=NOON)
    return lambda mirror: mirror.put_order("main", replace(ORDER, **members), at)


def put_product(**members: Any) -> Change:
    """Return a change of the product."""
    at = replace(SECOND, updated_at=NOON)
    product = replace(PRODUCT, **members)
    return lambda mirror: mirror.put_product("main", product, "INR", at)


def put_customer(**members: Any) -> Change:
    """Return a change of the customer."""
    at = replace(SECOND, updated_at=NOON)
    return lambda mirror: mirror.put_customer("main", replace(CUSTOMER, **members), at)


def put_level(stock: int) -> Change:
    """Return a change of the level."""
    level, at = replace(LEVEL, stock=stock), replace(SECOND, updated_at=NOON)
    return lambda mirror: mirror.put_level("main", level, at)


def remove(kind: str, id_: str) -> Change:
    """Return the removal of an object."""
    return lambda mirror: mirror.remove(kind, "main", id_, SECOND)


def add_move(id_: str) -> Change:
    """Return a further move of stock."""
    moved = replace(CHANGE, adjustment_id=id_)
    return lambda mirror: mirror.add_moves("main", moved, "")


THERE, NOT_THERE = "is there", None
CHANGES: dict[str, tuple[Change, list[tuple[Any, ...]]]] = {
    "order": (
        put_order(status="PAID", total_minor=None),
        [
            ("orders", "main", "ord_1", "status", "PAID", "PENDING"),
            ("orders", "main", "ord_1", "total_minor", None, 100),
        ],
    ),
    "document": (
        put_order(
            document=json.dumps({**json.loads(ORDER.document), "n": [1]}).encode()
        ),
        [("orders", "main", "ord_1", "document.n", [1], None)],
    ),
    "spelling of a document": (
        put_order(document=json.dumps(json.loads(ORDER.document), indent=2).encode()),
        [],
    ),
    "line": (
        put_order(items=(replace(LINE, quantity=3),)),
        [("order_items", "main", "ord_1 li_1", "quantity", 3, 2)],
    ),
    "other line": (
        put_order(items=(replace(LINE, id="li_2"),)),
        [
            ("order_items", "main", "ord_1 li_1", "", NOT_THERE, THERE),
            ("order_items", "main", "ord_1 li_2", "", THERE, NOT_THERE),
        ],
    ),
    "lost parcel": (
        put_order(shipments=()),
        [("shipments", "main", "ord_1 shp_1", "", NOT_THERE, THERE)],
    ),
    "parcel": (
        put_order(shipments=(replace(PARCEL, tracking_number=None),)),
        [("shipments", "main", "ord_1 shp_1", "tracking_number", None, "T-1")],
    ),
    "product": (
        put_product(title="Lamp 2"),
        [("products", "main", "prod_1", "title", "Lamp 2", "Lamp")],
    ),
    "variant": (
        put_product(variants=(SMALL, replace(LARGE, sku=None))),
        [("variants", "main", "prod_1 var_1_1", "sku", None, "SKU-1_1")],
    ),
    "lost variant": (
        put_product(variants=(SMALL,)),
        [("variants", "main", "prod_1 var_1_1", "", NOT_THERE, THERE)],
    ),
    "customer": (
        put_customer(phone=None),
        [("customers", "main", "cus_1", "phone", None, "+91 1")],
    ),
    "level": (
        put_level(6),
        [("inventory_levels", "main", "var_1", "stock", 6, 5)],
    ),
    "move": (
        add_move("adj_2"),
        [("stock_ledger", "main", "adj_2 var_1", "", THERE, NOT_THERE)],
    ),
    "removed order": (
        remove("order", "ord_1"),
        [
            ("orders", "main", "ord_1", "", NOT_THERE, THERE),
            ("order_items", "main", "ord_1 li_1", "", NOT_THERE, THERE),
            ("shipments", "main", "ord_1 shp_1", "", NOT_THERE, THERE),
        ],
    ),
    "removed customer": (
        remove("customer", "cus_1"),
        [("customers", "main", "cus_1", "", NOT_THERE, THERE)],
    ),
}
"""A change of the left mirror, and the differences that it makes."""


class ComparedMirrorsConformance(StoreConformance):
    """Tests of `Database.differences`."""

    @pytest.fixture
    async def copy(self, store: Store, clock: TestClock, tmp_path: Path) -> Path:
        """Fill the mirror; return a copy of the database."""
        await in_fold(store, lambda m, _: write_all(m, version(0, b"first")))
        target = tmp_path / "copy.db"
        database_at(store.place).back_up(target, clock)
        return target

    async def test_equal_mirrors_have_no_difference(
        self, store: Store, copy: Path
    ) -> None:
        assert list(database_at(store.place).differences(copy)) == []

    async def test_how_an_object_became_known_is_no_difference(
        self, store: Store, copy: Path
    ) -> None:
        read = Version(NOON, 9, False, LATER, b"other", 1, LATER)
        await in_fold(store, lambda m, _: write_all(m, read))
        assert list(database_at(store.place).differences(copy)) == []

    @pytest.mark.parametrize("changed", CHANGES)
    async def test_each_difference_is_named(
        self, changed: str, store: Store, copy: Path
    ) -> None:
        change, expected = CHANGES[changed]
        await in_fold(store, lambda m, _: change(m))
        left, right = database_at(store.place), database_at(copy)
        assert [astuple(each) for each in left.differences(copy)] == expected
        mirrored = [(*place, there, here) for *place, here, there in expected]
        found = [astuple(each) for each in right.differences(store.place)]
        assert found == mirrored

    async def test_a_deleted_product_is_a_difference(
        self, store: Store, copy: Path
    ) -> None:
        gone = Deletion("prod_1", LATER, title="Lamp")
        await in_fold(store, lambda m, _: m.delete_product("main", gone, SECOND))
        found = [
            (each.table, each.id, each.column)
            for each in database_at(store.place).differences(copy)
        ]
        assert ("products", "prod_1", "deleted_at") in found
        assert ("variants", "prod_1 var_1", "") in found
        assert ("inventory_levels", "var_1", "") in found

    async def test_an_object_of_another_store_is_a_difference(
        self, store: Store, copy: Path
    ) -> None:
        await in_fold(store, lambda m, _: m.put_customer("other", CUSTOMER, SECOND))
        (found,) = database_at(store.place).differences(copy)
        assert (found.table, found.store, found.id) == ("customers", "other", "cus_1")
