"""A mirror as a test looks at it: rows of its tables (docs/mirror.md)."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.store.sqlite import connections
from backhaul.store.sqlite.differences import Difference, differences

if TYPE_CHECKING:
    from pathlib import Path


class Mirror(Struct, frozen=True):
    """The database of a replay, or of a daemon that runs."""

    path: Path

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """Return what a query finds, columns by name. It cannot write."""
        with closing(connections.open_reader(self.path)) as connection:
            return [dict(row) for row in connection.execute(sql, values)]

    def order(self, number: int) -> dict[str, Any]:
        """Return the order with this number. Raises KeyError."""
        found = self.rows("SELECT * FROM orders WHERE number = ?", number)
        if len(found) != 1:
            raise KeyError(f"{len(found)} orders have the number {number}")
        return found[0]

    def stock(self, sku: str) -> int:
        """Return the stock of the variant with this SKU. Raises KeyError."""
        found = self.rows("SELECT stock FROM stock WHERE sku = ?", sku)
        if len(found) != 1:
            raise KeyError(f"{len(found)} stock levels have the SKU {sku!r}")
        return int(found[0]["stock"])

    def differences(self, other: Mirror) -> list[Difference]:
        """Return where two mirrors differ; empty when they say the same."""
        return list(differences(self.path, other.path))
