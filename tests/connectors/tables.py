"""Databases in tests: what an ERP keeps in them, and a connector that uses it."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Any

from backhaul_connectors.sql import Sql
from backhaul_connectors.sql.settings import Settings
from scenes.loop_guard import on_purpose
from scenes.postgres import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scenes.postgres import Postgres

SHIPMENTS = {
    "table": "shipments",
    "changed_at": "changed_at",
    "columns": {"order": "order_no", "tracking_company": "carrier"},
}
MOVEMENTS = {
    "table": "movements",
    "id": "number",
    "processed_at": "taken_at",
    "columns": {"adjustment": "units"},
}
NEWS = {
    "topics": [
        "order.placed",
        "order.updated",
        "order.cancelled",
        "stock.changed",
        "product.updated",
        "customer.updated",
    ],
    "table": "news",
    "columns": {"topic": "@topic", "document": "@document", "at": "@occurred_at"},
}
ORDERS = {
    "topics": ["order.placed", "order.updated", "order.cancelled"],
    "table": "orders",
    "object_column": "order_id",
    "columns": {"status": "status", "total": "totals.total", "sku": "items.0.sku"},
}


class Tables(ABC):
    """A database with the tables of an ERP, made anew for a test."""

    moment_type = "timestamp"
    document_type = "text"
    key_type = "text"
    at = "timestamp '2020-01-01' + x * interval '1 second'"

    def __init__(self) -> None:
        self.connectors: list[Sql] = []

    @abstractmethod
    def url(self) -> str:
        """Return its address without a password."""

    @abstractmethod
    def run(self, statement: str) -> None:
        """Run one statement and commit it."""

    @abstractmethod
    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds."""

    def make(self) -> None:
        """Make the tables, all empty."""
        self.run(
            "CREATE TABLE shipments (id integer PRIMARY KEY, order_no text, "
            f"carrier text, tracking_number text, changed_at {self.moment_type})"
        )
        self.run("CREATE INDEX by_change ON shipments (changed_at, id)")
        self.run(
            "CREATE TABLE movements (number integer PRIMARY KEY, sku text, "
            f"units integer, taken_at {self.moment_type})"
        )
        self.run(
            f"CREATE TABLE news (change_id {self.key_type} PRIMARY KEY, topic text, "
            f"document {self.document_type}, at text)"
        )
        self.run(
            f"CREATE TABLE orders (order_id {self.key_type} PRIMARY KEY, "
            "change_id text, status text, total numeric, sku text)"
        )

    def connector(self, **options: Any) -> Sql:
        """Return a connector, which is closed at the end of the test."""
        base = {"url": self.url(), "password": PASSWORD, "lag_seconds": 0}
        settings = Settings.model_validate({**base, **options})
        connector = Sql("erp", settings)
        self.connectors.append(connector)
        return connector

    async def close(self) -> None:
        for connector in self.connectors:
            await connector.close()

    def ship(self, first: int, number: int) -> None:
        """Write shipments of orders `first` and on; the same ones change nothing."""
        self.write(
            "shipments (id, order_no, carrier, tracking_number, changed_at)",
            f"x, 'A-' || x, 'BlueDart', 'BD' || x, {self.at}",
            "CONFLICT (id) DO NOTHING",
            range(first, first + number),
        )

    def move(self, first: int, number: int) -> None:
        """Write movements of stock that nobody took yet."""
        self.write(
            "movements (number, sku, units, taken_at)",
            "x, 'LS-' || x, -2, NULL",
            "CONFLICT (number) DO UPDATE SET taken_at = NULL",
            range(first, first + number),
        )

    def taken(self) -> list[int]:
        """Return the numbers of the movements that are marked as taken."""
        query = "SELECT number FROM movements WHERE taken_at IS NOT NULL"
        return [number for (number,) in self.rows(query)]

    def write(self, into: str, values: str, conflict: str, numbers: range) -> None:
        """Write a row for each number x, in words of our own."""
        many = f"SELECT {numbers[0]} UNION ALL SELECT x + 1 FROM n"  # noqa: S608
        many = f"WITH RECURSIVE n(x) AS ({many} WHERE x < {numbers[-1]})"
        rows = f"{many} SELECT {values} FROM n WHERE true"  # noqa: S608
        self.run(f"INSERT INTO {into} {rows} ON {conflict}")

    def content(self) -> list[list[tuple[Any, ...]]]:
        """Return every row of every table."""
        names = ("shipments", "movements", "news", "orders")
        return [self.rows(f"SELECT * FROM {name} ORDER BY 1") for name in names]  # noqa: S608 - our own names


class SqliteTables(Tables):
    """A file."""

    at = "datetime('2020-01-01', x || ' seconds')"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        sqlite3.connect(path).close()
        self.make()

    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def run(self, statement: str, values: Sequence[Any] = ()) -> None:
        with on_purpose(), closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(statement, values)
            connection.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with on_purpose(), closing(sqlite3.connect(self.path)) as connection:
            connection.text_factory = bytes
            return connection.execute(query).fetchall()


class PostgresTables(Tables):
    """A database of a server; reached through `port`, which may be a relay's."""

    document_type = "jsonb"

    def __init__(self, server: Postgres) -> None:
        super().__init__()
        self.server = server
        self.port = server.port
        self.name = server.new_schema()
        self.make()

    def url(self) -> str:
        return self.server.url(self.name, self.port)

    def run(self, statement: str) -> None:
        with on_purpose():
            self.server.run(statement, schema=self.name)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with on_purpose(), self.server.connect(self.name) as connection:
            return connection.execute(query).fetchall()
