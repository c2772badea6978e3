"""Common queries of an operator use an index, and whole tables are read in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store import database_at
from backhaul.store.sql.read_models.database_reads import PUBLISHED
from backhaul.store.sqlite.opening import open_store
from scenes.databases import rows

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


def test_an_operator_s_text_is_not_changed_before_it_runs(empty: Path) -> None:
    # the common SQL marks fragments like this; `:name` is a parameter
    text = "⟦member¦a⟧ 'it''s' :name"
    sql = f"SELECT '{text.replace(chr(39), chr(39) * 2)}' /* don't */"
    with database_at(empty).console(SystemClock()) as console:
        assert console.query(sql).rows == [(text,)]
