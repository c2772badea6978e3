"""Finds SKUs of the mirror that look like another text, by an index.

The table `sku_spellings` has every SKU that a product ever had, under what similar
texts have in common. Rows are only added; a SKU that no variant has any more is passed
over when it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.sku_matching import near_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from sqlite_utils import Database

MOST_READ = 20
ADD = "INSERT OR IGNORE INTO sku_spellings (store, near, sku) VALUES (?, ?, ?)"
NEAR = """
    SELECT s.sku FROM sku_spellings s
    WHERE s.store = ? AND s.near = ? AND s.sku != ?
      AND EXISTS (SELECT 1 FROM variants v WHERE v.sku = s.sku AND v.store = s.store)
    ORDER BY s.sku LIMIT ?
"""


def add_spellings(
    connection: sqlite3.Connection, store: str, skus: Iterable[str | None]
) -> None:
    """Make the SKUs of a product known."""
    connection.executemany(ADD, [(store, near_text(sku), sku) for sku in skus if sku])


def near_skus(connection: sqlite3.Connection, store: str, sku: str) -> list[str]:
    """Return up to 20 other SKUs of the store that a person may take for this one."""
    rows = connection.execute(NEAR, (store, near_text(sku), sku, MOST_READ))
    return [row[0] for row in rows]


def add_alphabets(db: Database) -> None:
    """Migration: SKUs with letters of other alphabets under what they look like."""
    query = "SELECT store, sku FROM sku_spellings WHERE sku GLOB '*[^ -~]*'"
    known = set(db.execute(query).fetchall())
    db.conn.executemany(ADD, [(store, near_text(sku), sku) for store, sku in known])


def create_spellings(db: Database) -> None:
    """Migration: the table, with the SKUs that the mirror has already."""
    db.execute(
        "CREATE TABLE sku_spellings (store TEXT NOT NULL, near TEXT NOT NULL,"
        " sku TEXT NOT NULL, PRIMARY KEY (store, near, sku)) WITHOUT ROWID"
    )
    known = db.execute(
        "SELECT DISTINCT store, sku FROM variants WHERE sku IS NOT NULL AND sku != ''"
    ).fetchall()
    db.conn.executemany(ADD, [(store, near_text(sku), sku) for store, sku in known])
