"""Customers: matched from orders, read, created, merged, deleted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backhaul_reference.platform import formats, models
from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import Flaw, Problem, invalid, not_found
from backhaul_reference.platform.state import webhook_outbox
from backhaul_reference.platform.state.database import (
    Listing,
    Row,
    Rows,
    Window,
    listing,
)
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

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
    """Return an order's customer: by id, by email, or newly created."""
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
    webhook_outbox.emit(tx, store.id, "customers/create", view(tx, store, customer_id))
    return customer_id


def give_back(tx: Tx, customer_id: str | None, total: int) -> None:
    """A cancelled order no longer counts as money spent."""
    tx.run(
        "UPDATE customer SET total_spent = total_spent - ? WHERE id = ?",
        (total, customer_id),
    )


def find(rows: Rows, store: Store, customer_id: str) -> Row:
    row = rows.one(
        "SELECT * FROM customer WHERE id = ? AND store_id = ?", (customer_id, store.id)
    )
    if row is None:
        raise not_found("CUSTOMER", customer_id)
    return row


def view(rows: Rows, store: Store, customer_id: str) -> models.Customer:
    return customer_view(store, find(rows, store, customer_id))


def page(
    rows: Rows, store: Store, filters: dict[str, str | None], window: Window
) -> Listing:
    found = listing(rows, "customer", store.id, filters, window)
    return Listing([customer_view(store, row) for row in found.rows], found.total)


def every(rows: Rows, store: Store) -> Iterator[models.Customer]:
    sql = "SELECT * FROM customer WHERE store_id = ? ORDER BY created_ms, id"
    for found in rows.batches(sql, (store.id,)):
        yield from (customer_view(store, row) for row in found)


def customer_view(store: Store, row: Row) -> models.Customer:
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
        "createdAt": formats.to_text(row["created_ms"]),
        "updatedAt": formats.to_text(row["updated_ms"]),
        "version": row["version"],
    }


COLUMNS = (
    "email",
    "phone",
    "first_name",
    "last_name",
    "name",
    "tags",
    "note",
    "accepts_marketing",
    "addresses",
    "external_id",
)
AS_JSON = ("tags", "addresses")
BLANK: Document = {
    **dict.fromkeys(COLUMNS),
    "tags": [],
    "addresses": [],
    "accepts_marketing": False,
}
ADDRESS: Document = dict.fromkeys(
    (
        "name",
        "phone",
        "address1",
        "address2",
        "city",
        "province",
        "country",
        "zip",
    )
)
# Orders decide, not the counter: a deleted customer must leave no order behind.
DELETE = """DELETE FROM customer WHERE id = ?
  AND NOT EXISTS (SELECT 1 FROM orders WHERE customer_id = customer.id)"""


def create(tx: Tx, store: Store, values: Document) -> models.Customer:
    at_ms = tx.tick(store.id)
    customer_id = tx.ids.new("cus")
    columns = _columns(tx, _merged(BLANK, values), known=[])
    columns |= {"id": customer_id, "store_id": store.id, "version": 1}
    columns |= {"created_ms": at_ms, "updated_ms": at_ms}
    tx.insert("customer", columns)
    created = view(tx, store, customer_id)
    webhook_outbox.emit(tx, store.id, "customers/create", created)
    return created


def update(tx: Tx, store: Store, customer_id: str, values: Document) -> models.Customer:
    """Merge a change; a new version only if something differs. No webhook is sent."""
    row = find(tx, store, customer_id)
    before = _present(row)
    columns = _columns(tx, _merged(before, values), known=before["addresses"])
    changed = {name: value for name, value in columns.items() if row[name] != value}
    if changed:
        changed["version"] = row["version"] + 1
        changed["updated_ms"] = tx.tick(store.id)
        tx.update("customer", customer_id, changed)
    return view(tx, store, customer_id)


def delete(tx: Tx, store: Store, customer_id: str) -> models.Deleted:
    find(tx, store, customer_id)
    if not tx.run(DELETE, (customer_id,)):
        raise Problem(409, "CUSTOMER_HAS_ORDERS", "the customer has placed orders")
    return {"id": customer_id, "deleted": True}


def _present(row: Row) -> Document:
    return {
        name: decode_stored(row[name]) if name in AS_JSON else row[name]
        for name in COLUMNS
    }


def _merged(before: Document, values: Document) -> Document:
    """Merge the sent members into the stored ones; null clears to a blank value."""
    sent = {
        name: BLANK[name] if value is None else value for name, value in values.items()
    }
    merged = {**before, **sent}
    renamed = {"first_name", "last_name"} & values.keys()
    if not merged["name"] or (renamed and "name" not in values):
        parts = (merged["first_name"], merged["last_name"])
        merged["name"] = " ".join(part for part in parts if part)
    if not merged["email"] and not merged["phone"]:
        raise invalid([Flaw("/email", "REQUIRED", "email or phone is required")])
    return merged


def _columns(tx: Tx, merged: Document, known: list[Document]) -> dict[str, Any]:
    columns: dict[str, Any] = dict(merged)
    columns["email_key"] = (merged["email"] or "").casefold() or None
    columns["tags"] = encode_text(merged["tags"])
    if merged["addresses"] is not known:
        addresses = _addresses(tx, merged["addresses"], known)
        columns["addresses"] = encode_text(addresses)
    else:
        columns["addresses"] = encode_text(known)
    return columns


def _addresses(tx: Tx, listed: list[Document], known: list[Document]) -> list[Document]:
    """Return the new address list; addresses with a known id keep unsent members."""
    by_id = {address["id"]: address for address in known}
    flaws = [
        Flaw(f"/addresses/{n}/id", "NOT_FOUND", "the customer has no such address")
        for n, address in enumerate(listed)
        if address.get("id") and address["id"] not in by_id
    ]
    ids = [address["id"] for address in listed if address.get("id")]
    if len(ids) != len(set(ids)):
        flaws.append(Flaw("/addresses", "DUPLICATE", "an address is listed twice"))
    defaults = [n for n, address in enumerate(listed) if address.get("is_default")]
    flaws += [
        Flaw(f"/addresses/{n}/isDefault", "DUPLICATE", "one address is the default")
        for n in defaults[1:]
    ]
    if flaws:
        raise invalid(flaws)
    default = _default(listed, by_id)
    return [
        _address(tx, address, by_id, is_default=n == default)
        for n, address in enumerate(listed)
    ]


def _default(listed: list[Document], by_id: dict[str, Document]) -> int:
    """Return the default address: the marked one, else the previous, else the first."""
    chosen = [n for n, one in enumerate(listed) if one.get("is_default")]
    silent = [n for n, one in enumerate(listed) if "is_default" not in one]
    kept = [
        n for n in silent if by_id.get(listed[n].get("id") or "", {}).get("isDefault")
    ]
    return next(iter((*chosen, *kept, *silent)), 0)


def _address(
    tx: Tx, sent: Document, by_id: dict[str, Document], *, is_default: bool
) -> Document:
    before = by_id.get(sent.get("id") or "", {**ADDRESS, "id": tx.ids.new("adr")})
    names = ADDRESS.keys() & sent.keys()
    changed = {name: sent[name] for name in names}
    return {**before, **changed, "isDefault": is_default}
