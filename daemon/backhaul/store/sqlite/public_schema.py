"""The published tables and views (docs/mirror.md), and their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "open_orders": ("store", "id"),
    "order_lines": ("store", "order_id", "id"),
    "stock": ("store", "variant_id"),
    "stock_moves": ("id",),
    "revenue_by_day": ("store", "day", "currency"),
    "orders": ("store", "id"),
    "order_items": ("store", "order_id", "id"),
    "shipments": ("store", "order_id", "id"),
    "products": ("store", "id"),
    "variants": ("store", "product_id", "id"),
    "inventory_levels": ("store", "variant_id"),
    "stock_ledger": ("id",),
    "customers": ("store", "id"),
    "events": ("id",),
    "commands": ("seq",),
    "attempts": ("id",),
    "records": ("id",),
    "quarantine": ("id",),
    "changes": ("id",),
    "feed": ("id",),
    "parcels": ("store", "shipment_id"),
    "deliveries": ("seq",),
    "echoes": ("store", "effect"),
    "forgotten": ("store", "customer_id"),
    "audit": ("id",),
}
"""Each table with the columns of its key, in the order of an index."""

INTERNAL = frozenset(
    {
        *("sequence", "delivered", "seen_at", "digest", "standing", "confirmed_at"),
        "request_digest",
    }
)
"""Columns of published tables that only Backhaul uses, to compare rows."""
