"""An ERP in an SQLite file, for a daemon that runs beside it."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

# A daemon imports the connector at its start; in a test's loop that is too slow.
import backhaul_connectors.sql  # noqa: F401
from scenes.loop_guard import on_purpose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class SqlErp:
    """The ERP's tables; `writes` has every write to the orders."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(_TABLES)

    @property
    def configuration(self) -> str:
        """Return the connector's part of a daemon's configuration."""
        return _CONFIGURATION.format(path=self.path)

    def run(self, statement: str, values: Sequence[Any] = ()) -> None:
        with on_purpose(), closing(sqlite3.connect(self.path)) as connection:
            connection.execute(statement, values)
            connection.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with on_purpose(), closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query).fetchall()

    def orders(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT number, status FROM shop_orders ORDER BY number")

    def writes(self) -> list[str]:
        """Return the order of each write, the oldest first."""
        return [row[0] for row in self.rows("SELECT order_id FROM writes ORDER BY id")]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a database against other writers."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with on_purpose():
            connection.execute("PRAGMA busy_timeout = 10000")
            connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.rollback()


_TABLES = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE shipments (id INTEGER PRIMARY KEY, order_number TEXT,
        tracking_company TEXT, tracking_number TEXT, taken_at TEXT);
    CREATE TABLE counts (id INTEGER PRIMARY KEY, sku TEXT, quantity INTEGER,
        counted_at TEXT, taken_at TEXT);
    CREATE TABLE shop_orders (order_id TEXT PRIMARY KEY, change_id TEXT,
        number INTEGER, status TEXT);
    CREATE TABLE writes (id INTEGER PRIMARY KEY, order_id TEXT);
    CREATE TRIGGER made AFTER INSERT ON shop_orders
        BEGIN INSERT INTO writes (order_id) VALUES (new.order_id); END;
    CREATE TRIGGER written AFTER UPDATE ON shop_orders
        BEGIN INSERT INTO writes (order_id) VALUES (new.order_id); END;
"""
_CONFIGURATION = """
[connectors.erp]
type = "sql"
url = "sqlite:///{path}"
every = "50ms"
[connectors.erp.fulfillments]
table = "shipments"
processed_at = "taken_at"
[connectors.erp.stock_levels]
table = "counts"
processed_at = "taken_at"
columns = {{ as_of = "counted_at" }}
[[connectors.erp.write]]
topics = ["order.placed", "order.cancelled"]
table = "shop_orders"
object_column = "order_id"
columns = {{ number = "number", status = "status" }}
"""
