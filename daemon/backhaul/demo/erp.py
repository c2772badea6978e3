"""Simulated ERP with a database of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from sqlite_utils import Database

from backhaul.core.clock import to_text
from backhaul.demo.daemon_rows import Cause
from backhaul.demo.demo_folder import ERP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.daemon_rows import Placement

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
        with self._open() as database:
            database.enable_wal()
            database.executescript(_SCHEMA)

    def ship(self, order: Placement) -> Cause:
        """Enter a shipment that left the house."""
        tracking = f"HF{order.number:06}"
        row = self._insert(
            "shipments",
            order_number=f"#{order.number}",
            tracking_company=COMPANY,
            tracking_number=tracking,
        )
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
        row = self._insert("counts", sku=sku, quantity=quantity, counted_at=counted_at)
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
        with self._open() as database:
            tables = ("shipments", "counts")
            return sum(database[name].count_where(_UNTAKEN) for name in tables)

    def received(self) -> ReceivedByErp:
        """Return what the daemon has written."""
        with self._open() as database:
            return ReceivedByErp(
                list(database["shop_orders"].rows), list(database["shop_news"].rows)
            )

    def _insert(self, table: str, **row: object) -> int:
        with self._open() as database:
            return cast("int", database.table(table).insert(row).last_pk)

    @contextmanager
    def _open(self) -> Iterator[Database]:
        database = Database(self._file)
        try:
            database.execute(f"PRAGMA busy_timeout = {PATIENCE_SECONDS * 1000:.0f}")
            yield database
        finally:
            database.close()


_UNTAKEN = "taken_at IS NULL"
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
