"""Products and customers in lists, by their primary keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.catalogue_lists import (
    MOST_COUNTED,
    ListedCustomer,
    ListedProduct,
    ListPlace,
)

if TYPE_CHECKING:
    from backhaul.store.sql.family import Connection

_VARIANTS = "FROM variants v WHERE v.store = p.store AND v.product_id = p.id"
PRODUCTS = f"""
    SELECT p.store, p.id, p.title, p.status, p.updated_at,
           (SELECT count(*) {_VARIANTS}) AS variants,
           (SELECT CAST(sum(l.stock) AS BIGINT) FROM inventory_levels l
            WHERE l.store = p.store AND l.product_id = p.id) AS stock,
           (SELECT min(v.price_minor) {_VARIANTS}) AS from_minor,
           (SELECT max(v.currency) {_VARIANTS}) AS currency
    FROM products p
    WHERE (p.store, p.id) < (:store, :id) AND p.deleted_at IS NULL
    ORDER BY p.store DESC, p.id DESC LIMIT :limit
"""  # noqa: S608 - constants
CUSTOMERS = f"""
    SELECT c.store, c.id, c.name, c.email, c.updated_at,
           (SELECT count(*) FROM (
              SELECT 1 AS found FROM orders o
              WHERE o.customer_id = c.id AND o.store = c.store
              LIMIT {MOST_COUNTED}) counted) AS orders
    FROM customers c WHERE (c.store, c.id) < (:store, :id)
    ORDER BY c.store DESC, c.id DESC LIMIT :limit
"""  # noqa: S608 - constants
_LAST = chr(0x10FFFF)
BEGIN = ListPlace(_LAST, _LAST)
"""A place before every object of a list."""


def list_products(
    connection: Connection, limit: int, before: ListPlace | None
) -> list[ListedProduct]:
    """Return the products that are not deleted, after a place."""
    rows = connection.execute(PRODUCTS, _values(limit, before))
    return [ListedProduct(*row) for row in rows]


def list_customers(
    connection: Connection, limit: int, before: ListPlace | None
) -> list[ListedCustomer]:
    """Return the customers after a place."""
    rows = connection.execute(CUSTOMERS, _values(limit, before))
    return [ListedCustomer(*row) for row in rows]


def _values(limit: int, before: ListPlace | None) -> dict[str, str | int]:
    place = before or BEGIN
    return {"store": place.store, "id": place.id, "limit": limit}
