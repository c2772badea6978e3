"""Finds SKUs of the mirror that look like another text, by an index.

The table `sku_spellings` has every SKU that a product ever had, under the part that
similar texts share. Rows are only added; reads skip a SKU that no variant has now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.sku_matching import near_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.store.sql.family import Connection

MOST_READ = 20
_ADD = """
    INSERT INTO sku_spellings (store, near, sku) VALUES (:store, :near, :sku)
    ON CONFLICT (store, near, sku) DO NOTHING
"""
NEAR = """
    SELECT s.sku FROM sku_spellings s
    WHERE s.store = :store AND s.near = :near AND s.sku != :sku
      AND EXISTS (SELECT 1 FROM variants v WHERE v.sku = s.sku AND v.store = s.store)
    ORDER BY s.sku LIMIT :most
"""


def add_spellings(
    connection: Connection, store: str, skus: Iterable[str | None]
) -> None:
    """Add the SKUs of a product."""
    rows = [{"store": store, "near": near_text(sku), "sku": sku} for sku in skus if sku]
    connection.executemany(_ADD, rows)


def near_skus(connection: Connection, store: str, sku: str) -> list[str]:
    """Return up to 20 other SKUs of the store that a person may confuse with this."""
    values = {"store": store, "near": near_text(sku), "sku": sku, "most": MOST_READ}
    return [row[0] for row in connection.execute(NEAR, values)]
