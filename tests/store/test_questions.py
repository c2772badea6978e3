"""The obvious questions are answered by an index, and whole tables page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store import database_at
from backhaul.store.sqlite.opening import open_store
from backhaul.store.sqlite.sql_console import PUBLISHED
from scenes import payloads
from scenes.databases import rows, started_store, take

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = {
    "SELECT * FROM orders WHERE number = 1001": "orders_number",
    "SELECT * FROM orders WHERE store = 'main' AND number = 1001": "orders_number",
    "SELECT * FROM orders WHERE name = '#1001'": "orders_name",
    "SELECT * FROM orders WHERE external_id = 'E'": "orders_external_id",
    "SELECT * FROM orders WHERE customer_id = 'cus_1'": "orders_customer",
    "SELECT * FROM customers WHERE email = 'A@b' COLLATE NOCASE": "customers_email",
    "SELECT order_id FROM shipments WHERE tracking_number = 'T'": "shipments_tracking",
    "SELECT * FROM order_lines WHERE sku = 'TEA'": "order_items_sku",
    "SELECT * FROM orders WHERE status = 'PENDING' ORDER BY placed_at": "orders_status",
    "SELECT * FROM open_orders ORDER BY placed_at": "orders_open",
    "SELECT * FROM stock WHERE stock <= 3 ORDER BY stock": "levels_stock",
    "SELECT * FROM stock WHERE sku = 'TEA'": "variants_sku",
    "SELECT * FROM stock_moves WHERE sku = 'TEA'": "ledger_variant",
    "SELECT * FROM stock_moves WHERE cause = 'ord_1'": "ledger_cause",
    "SELECT * FROM products WHERE handle = 'tea'": "products_handle",
    "SELECT * FROM events WHERE object_id = 'o'": "outcomes_object",
}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("questions") / "backhaul.db"
    open_store(path, SystemClock())
    return path


def plan(path: Path, question: str) -> list[str]:
    return [row[3] for row in rows(path, f"EXPLAIN QUERY PLAN {question}")]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_by_its_index(question: str, empty: Path) -> None:
    steps = plan(empty, question)
    assert any(f"INDEX {QUESTIONS[question]}" in step for step in steps), steps
    read_whole = [s for s in steps if s.startswith("SCAN") and "INDEX" not in s]
    assert read_whole == []
    assert [step for step in steps if "TEMP B-TREE" in step] == []


@pytest.mark.parametrize("table", sorted(PUBLISHED.keys() - {"revenue_by_day"}))
def test_a_page_of_a_table_is_read_without_sorting(table: str, empty: Path) -> None:
    key = ", ".join(PUBLISHED[table])
    after = ", ".join(["'x'"] * len(PUBLISHED[table]))
    steps = plan(
        empty,
        f"SELECT * FROM {table} WHERE ({key}) > ({after}) ORDER BY {key} LIMIT 5"  # noqa: S608 - constants
        if "," in key
        else f"SELECT * FROM {table} WHERE {key} > 7 ORDER BY {key} LIMIT 5",  # noqa: S608 - constants
    )
    assert [step for step in steps if "TEMP B-TREE" in step] == []
    assert [step for step in steps if step.startswith("SCAN")] == []


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1_200])
async def test_pages_hold_every_row_once(count: int, tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    orders = [payloads.order(f"ord_{n}", number=n) for n in range(count)]
    async with started_store(path) as store:
        await take(store, *(payloads.envelope("orders/create", o) for o in orders))
        with database_at(path).console(SystemClock()) as asker:
            for table in ("orders", "order_lines", "changes", "events"):
                pages = list(asker.pages(table))
                assert sum(len(page) for page in pages) == count
                assert len({row for page in pages for row in page}) == count
                assert all(len(page) <= 500 for page in pages)


async def test_the_views_say_what_a_warehouse_asks(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    cancelled = {"cancelledAt": payloads.instant(3)}
    half = payloads.item("li_2", fulfilledQuantity=1)
    orders = [
        payloads.order("ord_1"),
        payloads.order("ord_2", number=1002, items=[half]),
        payloads.order("ord_3", number=1003, fulfillmentStatus="FULFILLED"),
        payloads.order("ord_4", number=1004, cancellation=cancelled),
    ]
    bodies = [payloads.envelope("orders/create", order) for order in orders]
    bodies.append(payloads.envelope("products/create", payloads.product()))
    sold = payloads.stock_change(orderId="ord_1", stock=10, adjustment=-2)
    bodies.append(payloads.envelope("inventory/level_update", sold))
    async with started_store(path) as store:
        assert await take(store, *bodies) == []
    to_ship = "SELECT name, units_to_ship FROM open_orders ORDER BY number"
    assert rows(path, to_ship) == [("#1001", 2), ("#1002", 1)]
    lines = "SELECT order_name, units_to_ship FROM order_lines WHERE sku = 'LS-S'"
    assert ("#1004", 0) in rows(path, lines)
    stock = "SELECT sku, product, variant, stock, since FROM stock"
    assert rows(path, stock) == [
        ("LS-S", "Linen shirt", "S", 10, payloads.instant(1)),
    ]
    moves = "SELECT sku, adjustment, stock_after, order_name FROM stock_moves"
    assert rows(path, moves) == [("LS-S", -2, 10, "#1001")]
    revenue = "SELECT day, currency, orders, revenue_minor FROM revenue_by_day"
    assert rows(path, revenue) == [("2026-03-01", "INR", 3, 3 * 299_800)]


def test_an_operator_s_text_is_not_changed_before_it_runs(empty: Path) -> None:
    # The common text marks fragments like this; `:name` is a name of a value.
    text = "⟦member¦a⟧ 'it''s' :name"
    sql = f"SELECT '{text.replace(chr(39), chr(39) * 2)}' /* don't */"
    with database_at(empty).console(SystemClock()) as console:
        assert console.query(sql).rows == [(text,)]
