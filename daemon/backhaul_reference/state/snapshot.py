"""A store's whole state at one moment."""

from backhaul_reference.documents import Document
from backhaul_reference.problems import not_found
from backhaul_reference.state import (
    collections,
    customers,
    deliveries,
    discounts,
    inventory,
    menus,
    order_views,
    products,
    stores,
    subscriptions,
    zones,
)
from backhaul_reference.state.database import Rows


def snapshot(rows: Rows, subdomain: str) -> Document:
    """Everything a ledger checker compares; call it inside one read transaction."""
    store = stores.by_subdomain(rows, subdomain)
    if store is None:
        raise not_found("STORE")
    return {
        "sequence": rows.value(
            "SELECT sequence FROM counter WHERE store_id = ?", (store.id,)
        ),
        "products": products.every(rows, store),
        "orders": order_views.every(rows, store),
        "customers": customers.every(rows, store),
        "levels": inventory.every_level(rows, store.id),
        "history": inventory.every_history(rows, store.id),
        "webhooks": subscriptions.every(rows, store.id),
        "deliveries": deliveries.counts(rows, store.id),
        "collections": collections.every(rows, store),
        "menus": menus.control_views(rows, store.id),
        "discounts": discounts.every(rows, store),
        "zones": zones.every(rows, store),
    }
