"""A store's whole state at one moment."""

from collections.abc import Iterator

from backhaul_reference.documents import Document, encode
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
from backhaul_reference.state.stores import Store


def snapshot(rows: Rows, subdomain: str) -> Iterator[bytes]:
    """Everything a ledger checker compares, as parts of one JSON document.

    Take them all inside one read transaction; none is large, whatever the store is.
    """
    store = stores.by_subdomain(rows, subdomain)
    if store is None:
        raise not_found("STORE")
    mark = b"{"
    for name, value in _members(rows, store).items():
        yield mark + encode(name) + b":"
        yield from _list(value) if isinstance(value, Iterator) else (encode(value),)
        mark = b","
    yield b"}"


def _list(documents: Iterator[Document]) -> Iterator[bytes]:
    first = next(documents, None)
    yield b"[" if first is None else b"[" + encode(first)
    for document in documents:
        yield b"," + encode(document)
    yield b"]"


def _members(rows: Rows, store: Store) -> Document:
    """By name; what may be long is an iterator, asked when its turn comes."""
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
