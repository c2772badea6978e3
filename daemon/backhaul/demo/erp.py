"""Simulated ERP with a database of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.core.clock import to_text
from backhaul.demo.books import Cause
from backhaul.demo.home import ERP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.books import Placement

COMPANY = "House Freight"
PATIENCE_SECONDS = 10.0
"""How long to wait while the connector writes."""


class ReceivedByErp(Struct, frozen=True):
    """What the ERP received: its orders, and each change notification."""

    orders: Sequence[dict[str, Any]]
    news: Sequence[dict[str, Any]]


class Erp:
    """The merchant's own program. Its tables are what the daemon reads and writes."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def set_up(self) -> None:
        """Make the tables."""
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)

    def ship(self, order: Placement) -> Cause:
        """Enter a shipment that left the house."""
        tracking = f"HF{order.number:06}"
        row = self._insert(_SHIPMENT, (f"#{order.number}", COMPANY, tracking))
        return Cause(
            kind="fulfill",
            instance=ERP,
            locator=f"shipments {row}",
            order_id=order.order_id,
            tracking_company=COMPANY,
            tracking_number=tracking,
        )

    def count(self, sku: str, quantity: int) -> Cause:
        """Enter how many there are; the ERP's clock shows whole seconds."""
        counted_at = to_text(self._clock.now().replace(microsecond=0))
        row = self._insert(_COUNT, (sku, quantity, counted_at))
        return Cause(
            kind="target",
            instance=ERP,
            locator=f"counts {row}",
            sku=sku,
            quantity=quantity,
            counted_at=counted_at,
        )

    def untaken(self) -> int:
        """Return how many rows nobody has taken yet."""
        with closing(self._connect()) as connection:
            return int(connection.execute(_UNTAKEN).fetchone()[0])

    def received(self) -> ReceivedByErp:
        """Return what the daemon has written."""
        with closing(self._connect()) as connection:
            orders = connection.execute("SELECT * FROM shop_orders").fetchall()
            news = connection.execute("SELECT * FROM shop_news").fetchall()
        return ReceivedByErp([dict(row) for row in orders], [dict(row) for row in news])

    def _insert(self, statement: str, values: Sequence[object]) -> int:
        with closing(self._connect()) as connection, connection:
            return int(connection.execute(statement, values).lastrowid or 0)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._file, timeout=PATIENCE_SECONDS)
        connection.row_factory = sqlite3.Row
        return connection


_SHIPMENT = """
    INSERT INTO shipments (order_number, tracking_company, tracking_number)
    VALUES (?, ?, ?)
"""
_COUNT = "INSERT INTO counts (sku, quantity, counted_at) VALUES (?, ?, ?)"
_UNTAKEN = """
    SELECT (SELECT count(*) FROM shipments WHERE taken_at IS NULL)
         + (SELECT count(*) FROM counts WHERE taken_at IS NULL)
"""
_SCHEMA = """
    CREATE TABLE shipments (id INTEGER PRIMARY KEY, order_number TEXT NOT NULL,
        tracking_company TEXT NOT NULL, tracking_number TEXT NOT NULL, taken_at TEXT);
    CREATE TABLE counts (id INTEGER PRIMARY KEY, sku TEXT NOT NULL,
        quantity INTEGER NOT NULL, counted_at TEXT NOT NULL, taken_at TEXT);
    CREATE TABLE shop_orders (order_id TEXT PRIMARY KEY, change_id TEXT NOT NULL,
        number INTEGER NOT NULL, status TEXT NOT NULL);
    CREATE TABLE shop_news (change_id TEXT PRIMARY KEY, topic TEXT NOT NULL,
        order_id TEXT NOT NULL);
"""
