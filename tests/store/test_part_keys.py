"""An upgrade tells lines, parcels and variants apart within what they are of."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlite_utils import Database

from backhaul.core.clock import SystemClock
from backhaul.errors import AlreadyRunning
from backhaul.platform import decoding
from backhaul.store.sqlite.migrations.versions import migrations
from backhaul.store.sqlite.opening import open_store, pending
from scenes import payloads
from scenes.databases import rows, write

if TYPE_CHECKING:
    from pathlib import Path

STEP = "m092_part_keys"
ORDER = """
    INSERT INTO orders (store, id, status, updated_at, document, digest)
    VALUES ('main', ?, 'PENDING', '2026-03-01T12:00:00.000Z', ?, x'01')
"""
PRODUCT = """
    INSERT INTO products (store, id, title, status, updated_at, deleted_at, document,
                          digest)
    VALUES ('main', ?, 'Shirt', 'active', '2026-03-01T12:00:00.000Z', ?, ?, x'01')
"""
LINE = """
    INSERT INTO order_items (store, id, order_id, sku, quantity)
    VALUES ('main', ?, ?, 'LS-S', 2)
"""
PARCEL = """
    INSERT INTO shipments (store, id, order_id, tracking_number)
    VALUES ('main', ?, ?, 'BD1')
"""
VARIANT = """
    INSERT INTO variants (store, id, product_id, sku, updated_at)
    VALUES ('main', ?, ?, 'LS-S', '2026-03-01T12:00:00.000Z')
"""
DISOWNED = """
    SELECT id FROM orders WHERE digest = x''
    UNION ALL SELECT id FROM products WHERE digest = x'' ORDER BY 1
"""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A database as the version before left it."""
    path = tmp_path / "backhaul.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        database = Database(connection, execute_plugins=False)
        migrations.apply(database, stop_before=STEP)
    return path


def shown_order(path: Path, id_: str, lines: int, parcels: int) -> None:
    """Write an order that shows so many, without the rows of them."""
    document = decoding.order(
        payloads.order(
            id_,
            items=[payloads.item(f"li_{n}") for n in range(lines)],
            shipments=[payloads.shipment(f"shp_{n}") for n in range(parcels)],
        )
    ).document
    write(path, ORDER, id_, document.decode())


def shown_product(path: Path, id_: str, deleted_at: str | None = None) -> None:
    document = decoding.product(payloads.product(id_), "INR").document
    write(path, PRODUCT, id_, deleted_at, document.decode())


def test_what_is_there_stays(older: Path) -> None:
    shown_order(older, "ord_1", 2, 1)
    write(older, LINE, "li_0", "ord_1")
    write(older, LINE, "li_1", "ord_1")
    write(older, PARCEL, "shp_0", "ord_1")
    shown_product(older, "prod_1")
    write(older, VARIANT, "var_1", "prod_1")
    tables = ("order_items", "shipments", "variants", "orders", "products")
    views = ("order_lines", "open_orders")
    before = {name: rows(older, f"SELECT * FROM {name}") for name in tables + views}  # noqa: S608 - ours
    assert pending(older)[0] == STEP
    open_store(older, SystemClock())
    assert pending(older) == []
    after = {name: rows(older, f"SELECT * FROM {name}") for name in tables + views}  # noqa: S608 - ours
    assert after == before
    for row in ((LINE, "li_0", "ord_2"), (PARCEL, "shp_0", "ord_2")):
        write(older, *row)
    write(older, VARIANT, "var_1", "prod_2")


def test_what_lost_a_row_equals_nothing_any_more(older: Path) -> None:
    """So the next walk over everything writes it anew."""
    for id_, lines, parcels in (
        ("ord_whole", 1, 1),
        ("ord_line", 2, 1),
        ("ord_parcel", 1, 2),
    ):
        shown_order(older, id_, lines, parcels)
        write(older, LINE, f"li_{id_}", id_)
        write(older, PARCEL, f"shp_{id_}", id_)
    write(older, ORDER, "ord_damaged", '{"items": [')
    shown_product(older, "prod_lacking")
    shown_product(older, "prod_whole")
    write(older, VARIANT, "var_1", "prod_whole")
    shown_product(older, "prod_gone", "2026-03-01T12:00:00.000Z")
    open_store(older, SystemClock())
    disowned = ["ord_line", "ord_parcel", "prod_lacking"]
    assert rows(older, DISOWNED) == [(id_,) for id_ in disowned]


def test_an_upgrade_that_is_cut_off_leaves_all_as_it_was(older: Path) -> None:
    schema = "SELECT name, sql FROM sqlite_master ORDER BY name"
    shown_order(older, "ord_1", 1, 0)
    # What somebody made by hand is in the way of the last table.
    write(older, "CREATE INDEX variants_id ON products(id)")
    before = rows(older, schema)
    with pytest.raises(AlreadyRunning, match="variants_id already exists"):
        open_store(older, SystemClock())
    assert rows(older, schema) == before
    assert pending(older)[0] == STEP
