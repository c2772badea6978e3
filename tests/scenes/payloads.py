"""Deliveries as the platform sends them (platform contract, JSON shapes)."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from backhaul.core import webhook
from backhaul.store.inbox import Arrival

STORE_ID = "sto_01"
SECRET = b"whsec_dGhpcyBpcyBhIHRlc3Qgc2VjcmV0IQ=="
OLD_SECRET = b"whsec_dGhpcyBpcyB0aGUgb2xkIHNlY3JldA=="
_NUMBERS = count(1)

Document = dict[str, Any]


def instant(second: int) -> str:
    """Return a time in the platform's format, `second` seconds after a fixed noon."""
    minutes, seconds = divmod(second, 60)
    return f"2026-03-01T12:{minutes:02}:{seconds:02}.000Z"


def order(
    id_: str = "ord_1", at: int = 0, *, number: int = 1001, **members: Any
) -> Document:
    line = item("li_" + id_.removeprefix("ord_"))
    return {
        "id": id_,
        "number": number,
        "name": f"#{number}",
        "externalId": None,
        "source": "STOREFRONT",
        "status": "PENDING",
        "financialStatus": "PENDING",
        "fulfillmentStatus": "UNFULFILLED",
        "confirmation": {"required": False, "confirmedAt": None},
        "currency": "INR",
        "paymentMethod": "COD",
        "customer": {"id": "cus_1", "name": "Asha", "email": "a@b.example"},
        "items": [line],
        "totals": {"subtotal": "2998.00", "total": "2998.00"},
        "shipments": [],
        "cancellation": None,
        "placedAt": instant(0),
        "createdAt": instant(0),
        "updatedAt": instant(at),
        "version": at,
        **members,
    }


def item(id_: str = "li_1", **members: Any) -> Document:
    return {
        "id": id_,
        "productId": "prod_1",
        "variantId": "var_1",
        "sku": "LS-S",
        "title": "Linen shirt",
        "quantity": 2,
        "fulfilledQuantity": 0,
        "unitPrice": "1499.00",
        **members,
    }


def shipment(id_: str = "shp_1", **members: Any) -> Document:
    return {
        "id": id_,
        "trackingCompany": "BlueDart",
        "trackingNumber": "BD1",
        "trackingUrl": None,
        "items": [{"lineItemId": "li_1", "quantity": 2}],
        "shippedAt": instant(5),
        **members,
    }


def product(id_: str = "prod_1", at: int = 0, **members: Any) -> Document:
    return {
        "id": id_,
        "handle": "linen-shirt",
        "title": "Linen shirt",
        "status": "active",
        "externalId": None,
        "tags": ["summer"],
        "variants": [variant()],
        "createdAt": instant(0),
        "updatedAt": instant(at),
        "version": at,
        **members,
    }


def variant(id_: str = "var_1", stock: int | None = 12, **members: Any) -> Document:
    return {
        "id": id_,
        "title": "S",
        "sku": "LS-S",
        "barcode": None,
        "price": "1499.00",
        "stock": stock,
        **members,
    }


def deletion(id_: str = "prod_1", at: int = 9) -> Document:
    variants = [{"id": "var_1", "sku": "LS-S"}]
    title = {"handle": "linen-shirt", "title": "Linen shirt", "externalId": None}
    return {"id": id_, **title, "variants": variants, "deletedAt": instant(at)}


def stock_change(
    at: int = 1,
    stock: int = 10,
    adjustment: int = -2,
    adjustment_id: str = "adj_1",
    **members: Any,
) -> Document:
    level = {
        "variantId": "var_1",
        "sku": "LS-S",
        "previousStock": stock - adjustment,
        "adjustment": adjustment,
        "stock": stock,
    }
    return {
        "adjustmentId": adjustment_id,
        "productId": "prod_1",
        "reason": "MANUAL_ADJUSTMENT",
        "orderId": None,
        "levels": [level],
        "updatedAt": instant(at),
        **members,
    }


def customer(id_: str = "cus_1", at: int = 0, **members: Any) -> Document:
    return {
        "id": id_,
        "name": "Asha Rao",
        "email": "asha@example.com",
        "phone": None,
        "ordersCount": 1,
        "updatedAt": instant(at),
        **members,
    }


def envelope(topic: str, data: Any, **members: Any) -> bytes:
    """Return a webhook's body; without a `sequence` it gets the next number."""
    number = next(_NUMBERS)
    document = {
        "id": f"evt_{number}",
        "topic": topic,
        "apiVersion": "v1",
        "storeId": STORE_ID,
        "createdAt": instant(0),
        "sequence": number,
        "data": data,
        **members,
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def signed(body: bytes, secret: bytes = SECRET, **headers: str) -> dict[str, str]:
    """Return the headers of a signed webhook."""
    return {
        webhook.HEADER: webhook.sign(body, secret).decode(),
        "Content-Type": "application/json",
        **headers,
    }


def arrival(
    body: bytes,
    topic: str = "",
    *,
    store: str = "main",
    kind: str = "delivery",
    at: int = 30,
) -> Arrival:
    """Return an event for the inbox, as the receiver or the sync writes it."""
    return Arrival(store, kind, topic, instant(at), b"{}", body)


def read(topic: str, data: Any, at: int = 30) -> Arrival:
    """Return an object that was read, as an event for the inbox."""
    return arrival(json.dumps(data).encode(), topic, kind="read", at=at)
