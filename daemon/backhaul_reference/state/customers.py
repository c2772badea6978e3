"""Customers: found or made from orders, and read."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backhaul_reference import instants
from backhaul_reference.documents import Document, decode_stored
from backhaul_reference.problems import not_found
from backhaul_reference.state import events
from backhaul_reference.state.database import Row, Rows
from backhaul_reference.state.paging import Listing, Window, listing
from backhaul_reference.state.stores import Store
from backhaul_reference.state.writer import Tx

# Beyond 64 bits SQLite would go on in floating point.
COUNT = """UPDATE customer SET orders_count = orders_count + 1,
total_spent = MIN(total_spent + ?, 9000000000000000000) WHERE id = ?"""


@dataclass(frozen=True, slots=True)
class Contact:
    """Who an order is for, as its snapshot keeps it."""

    name: str = ""
    email: str | None = None
    phone: str | None = None
    id: str | None = None
    accepts_marketing: bool = False


def of_order(tx: Tx, store: Store, contact: Contact, total: int) -> str | None:
    """The customer behind an order: named, or known by email, else registered now."""
    customer_id = contact.id or _known_by_email(tx, store, contact.email)
    if customer_id is not None:
        tx.run(COUNT, (total, customer_id))
        return customer_id
    if contact.email is None:
        return None
    return _register(tx, store, contact, total)


def _known_by_email(rows: Rows, store: Store, email: str | None) -> str | None:
    found: str | None = rows.value(
        "SELECT id FROM customer WHERE store_id = ? AND email_key = ?",
        (store.id, email and email.casefold()),
    )
    return found


def _register(tx: Tx, store: Store, contact: Contact, total: int) -> str:
    at_ms = tx.tick(store.id)
    customer_id = tx.ids.new("cus")
    columns: dict[str, Any] = {
        "id": customer_id,
        "store_id": store.id,
        "email": contact.email,
        "email_key": (contact.email or "").casefold() or None,
        "phone": contact.phone,
        "name": contact.name,
        "tags": "[]",
        "accepts_marketing": contact.accepts_marketing,
        "addresses": "[]",
        "orders_count": 1,
        "total_spent": total,
        "version": 1,
        "created_ms": at_ms,
        "updated_ms": at_ms,
    }
    tx.insert("customer", columns)
    events.emit(tx, store.id, "customers/create", view(tx, store, customer_id))
    return customer_id


def give_back(tx: Tx, customer_id: str | None, total: int) -> None:
    """A cancelled order no longer counts as money spent."""
    tx.run(
        "UPDATE customer SET total_spent = total_spent - ? WHERE id = ?",
        (total, customer_id),
    )


def find(rows: Rows, store: Store, customer_id: str) -> sqlite3.Row:
    row = rows.one(
        "SELECT * FROM customer WHERE id = ? AND store_id = ?", (customer_id, store.id)
    )
    if row is None:
        raise not_found("CUSTOMER", customer_id)
    return row


def view(rows: Rows, store: Store, customer_id: str) -> Document:
    return customer_view(store, find(rows, store, customer_id))


def page(
    rows: Rows, store: Store, filters: dict[str, str | None], window: Window
) -> Listing:
    found = listing(rows, "customer", store.id, filters, window)
    return Listing([customer_view(store, row) for row in found.rows], found.total)


def every(rows: Rows, store: Store) -> Iterator[Document]:
    sql = "SELECT * FROM customer WHERE store_id = ? ORDER BY created_ms, id"
    for found in rows.batches(sql, (store.id,)):
        yield from (customer_view(store, row) for row in found)


def customer_view(store: Store, row: Row) -> Document:
    return {
        "id": row["id"],
        "email": row["email"],
        "phone": row["phone"],
        "firstName": row["first_name"],
        "lastName": row["last_name"],
        "name": row["name"],
        "tags": decode_stored(row["tags"]),
        "note": row["note"],
        "acceptsMarketing": bool(row["accepts_marketing"]),
        "addresses": decode_stored(row["addresses"]),
        "ordersCount": row["orders_count"],
        "totalSpent": store.money(row["total_spent"]),
        "externalId": row["external_id"],
        "createdAt": instants.to_text(row["created_ms"]),
        "updatedAt": instants.to_text(row["updated_ms"]),
        "version": row["version"],
    }
