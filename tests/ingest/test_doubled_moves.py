"""`why` marks a stock movement that the platform may have reported twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store import database_at
from backhaul.store.read_records import FoundObject
from scenes.databases import make_database, write

if TYPE_CHECKING:
    from pathlib import Path

INSERT = """
    INSERT INTO stock_ledger (store, product_id, variant_id, adjustment,
      stock_after, reason, cause, adjustment_id, at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
AT = "2026-03-01T12:00:00.000Z"
SOLD = ("main", "prod_1", "var_1", -2, 10, "ORDER_PLACED", "ord_1")


async def test_why_says_which_may_have_been_told_twice(tmp_path: Path) -> None:
    """Two deliveries of one second, one of which the history has named."""
    path = tmp_path / "backhaul.db"
    make_database(path)
    for id_ in ("adj_1", None):
        write(path, INSERT, *SOLD, id_, AT)
    write(path, INSERT, *SOLD, None, "2026-03-01T13:00:00.000Z")
    found = FoundObject("", "main", "var_1", {"product_id": "prod_1"})
    with database_at(path).reader() as known:
        told = [one.detail for one in known.timeline("sku", found)]
    sold = "now 10, ORDER_PLACED by ord_1"
    twice = ", reported without an id: it may be another movement of the same time"
    twice += ", reported twice"
    assert told == [sold, sold + twice, f"{sold}, reported without an id"]
