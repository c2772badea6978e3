"""A customer to erase, and searches for remains of that customer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import SystemClock
from backhaul.maintenance.customer_erasure import CustomerErasure
from backhaul.maintenance.search_indexer import describe
from backhaul.store.records import Unmatched
from scenes import payloads
from scenes.databases import contents
from scenes.stored import bodies, documents

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.matching import MatchReader, WaitingRecord

NAME, EMAIL, PHONE = "Asha Xylophon", "asha.x@example.com", "+919800012345"
STREET = "12 Quincunx Lane"
SECRETS = (
    NAME,
    "xylophon",
    EMAIL,
    PHONE,
    STREET,
    "Zephyrine",
    "please ring",
    "X. Payer",
)
PERSON = {"id": "cus_1", "name": NAME, "email": EMAIL, "phone": PHONE}
SILENT: dict[str, Any] = {
    "tags": [],
    **dict.fromkeys(("note", "shippingAddress", "giftMessage", "payment")),
}
"""Members of an order without personal data."""
OTHER = {"id": "cus_2", "name": "Bela Other", "email": "b@example.com", "phone": None}
GUEST = {"id": None, "name": NAME, "email": EMAIL, "phone": PHONE}


def order(number: int, at: int = 0, **members: Any) -> payloads.Document:
    address = {"name": "Zephyrine", "address1": STREET, "city": "Pune", "phone": PHONE}
    told = {
        "customer": PERSON,
        "shippingAddress": address,
        "note": "please ring twice",
        "giftMessage": f"from {NAME} with love",
        "tags": ["cod", EMAIL.upper()],
        "payment": {"method": "COD", "report": {"payerName": "X. Payer"}},
        "shipments": [payloads.shipment(f"shp_{number}", trackingNumber=f"T{number}")],
    }
    return payloads.order(f"ord_{number}", at, number=number, **{**told, **members})


def customer(at: int = 0) -> payloads.Document:
    address = {"id": "adr_1", "address1": STREET, "isDefault": True}
    return payloads.customer(at=at, **PERSON, addresses=[address], totalSpent="9.00")


def delivery(topic: str, data: payloads.Document, **members: Any) -> bytes:
    return payloads.envelope(topic, data, **members)


async def index(store: Store) -> None:
    while (await store.search.follow(describe, 1.0)).more:
        pass


async def erase(store: Store, name: str = "cus_1") -> dict[str, Any]:
    return await CustomerErasure(store.erasure, SystemClock()).erase(
        "main", name, "eve"
    )


def bytes_of(store: Store) -> bytes:
    return contents(store.place).lower()


def find_secrets(store: Store) -> list[str]:
    kept = bytes_of(store)
    return [secret for secret in SECRETS if secret.lower().encode() in kept]


def named_in_orders(store: Store) -> list[str | None]:
    """Return the customer's name in each order of the mirror."""
    return [_name(order) for order in documents(store.place, "orders")]


def named_in_events(store: Store) -> list[str | None]:
    """Return the customer's name in the order of each event."""
    return [_name(json.loads(body)["data"]) for body in bodies(store.place)]


def _name(order: payloads.Document) -> str | None:
    name: str | None = order["customer"].get("name")
    return name


def match_none(record: WaitingRecord, mirror: MatchReader) -> Unmatched:
    return Unmatched("not yet", final=False)
