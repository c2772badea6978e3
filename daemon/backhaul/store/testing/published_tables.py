"""Tests of the tables and views of docs/mirror.md, as exports read them."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.resources import Item
from backhaul.errors import BackhaulError
from backhaul.store import database_at
from backhaul.store.inbox import Folded
from backhaul.store.testing.contract import MirrorTests
from backhaul.store.testing.mirror_scenes import (
    NOON,
    order,
    show_customer,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.scenes import webhook
from backhaul.store.testing.transactions import fold_all_with, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.testing.contract import MovableClock

MANY = 1_200
"""More rows than one page has."""
LINES = (
    Item("li_1", "prod_1", "var_1", "A", "Lamp", 3, 1, 50),
    Item("li_2", "prod_1", "var_2", "B", "Lamp", 1, 0, 70),
)
CLOSED: dict[str, dict[str, Any]] = {
    "ord_2": {"cancelled_at": NOON},
    "ord_3": {"fulfillment_status": "FULFILLED"},
    "ord_4": {"financial_status": "refunded "},
}
INTERNAL = {"sequence", "delivered", "seen_at", "digest", "standing", "confirmed_at"}


async def show_orders(store: Store, number: int) -> None:
    """Show that many orders of one line."""

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        id_ = f"ord_{event.id}"
        mirror.put_order("main", order(id_), version(0, event.body))
        mirror.add_change("main", "order", id_, "created", event.id)
        return Folded("folded", event.topic, None, "order", id_)

    waiting = [store.inbox.append(webhook("{}")) for _ in range(number)]
    for each in waiting:
        await each
    await fold_all_with(store, fold)


def pages_of(
    store: Store, clock: MovableClock, table: str
) -> Sequence[Sequence[tuple[Any, ...]]]:
    """Return the pages of a table."""
    with database_at(store.place).console(clock) as console:
        return list(console.pages(table))


class PublishedTablesConformance(MirrorTests):
    """Tests of `SqlConsole.pages`, `SqlConsole.columns` and the views."""

    @pytest.mark.parametrize("number", [0, 1, 499, 500, 501, MANY])
    async def test_pages_have_every_row_once(
        self, number: int, store: Store, clock: MovableClock
    ) -> None:
        await show_orders(store, number)
        for table in ("orders", "order_lines", "changes", "events"):
            pages = pages_of(store, clock, table)
            rows = [row for page in pages for row in page]
            assert len(rows) == len(set(rows)) == number
            assert all(len(page) < MANY for page in pages)

    async def test_rows_are_in_the_order_of_their_key(self, store: Store) -> None:
        for name, id_ in (("b", "ord_2"), ("a", "ord_10"), ("b", "ord_1")):
            await show_order(store, id_, name=name)
        assert rows_of(store, "orders", "store", "id") == [
            *(("a", "ord_10"), ("b", "ord_1"), ("b", "ord_2")),
        ]

    async def test_columns_that_only_backhaul_uses_are_left_out(
        self, store: Store, clock: MovableClock
    ) -> None:
        tables = ("orders", "products", "customers", "inventory_levels", "commands")
        with database_at(store.place).console(clock) as console:
            for table in tables:
                assert not INTERNAL & set(console.columns(table))
            for name in ("tombstones", "no_table"):
                with pytest.raises(BackhaulError, match="there is no table"):
                    console.columns(name)

    async def test_open_orders_have_units_to_ship(self, store: Store) -> None:
        await show_order(store, "ord_1", items=LINES)
        for id_, members in CLOSED.items():
            await show_order(store, id_, items=LINES, **members)
        await show_order(store, "ord_5", financial_status="PARTIALLY_REFUNDED")
        columns = ("id", "number", "units_to_ship")
        assert rows_of(store, "open_orders", *columns) == [
            *(("ord_1", 1001, 3), ("ord_5", 1005, 2)),
        ]

    async def test_lines_have_units_to_ship_while_their_order_is_open(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        for id_, members in CLOSED.items():
            await show_order(store, id_, items=LINES, **members)
        columns = ("order_name", "sku", "quantity", "units_to_ship", "currency")
        assert rows_of(store, "order_lines", *columns, order_id="ord_1") == [
            ("#1001", "A", 3, 2, "INR"),
            ("#1001", "B", 1, 1, "INR"),
        ]
        for id_ in ("ord_2", "ord_4"):
            units = rows_of(store, "order_lines", "units_to_ship", order_id=id_)
            assert units == [(0,), (0,)]

    async def test_stock_names_its_article(self, store: Store) -> None:
        await show_product(store)
        await show_product(store, name="other")
        await show_level(store, 5, 2)
        await show_level(store, 7, 3, product="prod_9")
        columns = ("store", "sku", "product", "variant", "stock", "since")
        assert rows_of(store, "stock", *columns) == [
            ("main", "SKU-1", "Lamp", "small", 5, version(2, b"").updated_at),
            ("main", None, None, None, 7, version(3, b"").updated_at),
        ]

    async def test_revenue_is_that_of_a_day_and_a_currency(self, store: Store) -> None:
        next_day = "2026-03-02T00:00:00.000Z"
        orders: dict[str, dict[str, Any]] = {
            "ord_1": {},
            "ord_2": {"total_minor": 250},
            "ord_3": {"cancelled_at": NOON},
            "ord_4": {"currency": "EUR"},
            "ord_5": {"placed_at": next_day},
            "ord_6": {"placed_at": None},
        }
        for id_, members in orders.items():
            await show_order(store, id_, **members)
        await show_order(store, "ord_1", name="other")
        columns = ("store", "day", "currency", "orders", "revenue_minor")
        assert rows_of(store, "revenue_by_day", *columns) == [
            ("main", "2026-03-01", "EUR", 1, 100),
            ("main", "2026-03-01", "INR", 2, 350),
            ("main", "2026-03-02", "INR", 1, 100),
            ("other", "2026-03-01", "INR", 1, 100),
        ]

    async def test_events_show_their_outcome_once_they_are_folded(
        self, store: Store
    ) -> None:
        await show_customer(store, "cus_1", "a@b.example")
        await store.inbox.append(webhook("{}", "other", "orders/paid"))
        columns = ("store", "topic", "source", "state", "kind", "object_id")
        assert rows_of(store, "events", *columns) == [
            ("main", "customers/updated", "delivery", "folded", "customer", "cus_1"),
            ("other", "orders/paid", "delivery", "received", None, None),
        ]

    async def test_the_feed_shows_each_change(self, store: Store) -> None:
        await show_order(store, "ord_1")
        columns = ("store", "kind", "object_id", "change", "waits")
        (row,) = rows_of(store, "feed", *columns)
        assert row == ("main", "order", "ord_1", "updated", 0)
