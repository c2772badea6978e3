"""The audit: a row for whatever a person did, beside what it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from backhaul.store.operations import Deed


def write_down(connection: sqlite3.Connection, now: str, deed: Deed) -> None:
    """Add the row, in the transaction that is under way."""
    connection.execute(
        "INSERT INTO audit (at, who, action, detail) VALUES (?, ?, ?, ?)",
        (now, deed.who, deed.action, deed.detail),
    )
