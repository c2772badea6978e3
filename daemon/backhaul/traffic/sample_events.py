"""Sample events, one for each webhook topic."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core.clock import to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from backhaul.platform.client import StoreFacts

Document = dict[str, Any]


def event(topic: str, facts: StoreFacts, now: datetime) -> bytes:
    """Return the body of a new sample event; its objects do not exist in the store.

    Raises KeyError for an unknown topic.
    """
    at = to_text(now)
    unique = uuid.uuid4().hex
    body = {
        "id": f"evt_{unique}",
        "topic": topic,
        "storeId": facts.store_id,
        "createdAt": at,
        "data": SAMPLES[topic](unique, at, facts.currency or "EUR"),
    }
    return msgspec.json.encode(body)


def _order(unique: str, at: str, currency: str) -> Document:
    return {
        "id": f"ord_{unique}",
        "number": 900_001,
        "name": "#900001",
        "status": "PENDING",
        "financialStatus": "PENDING",
        "fulfillmentStatus": "UNFULFILLED",
        "currency": currency,
        "items": [
            {
                "id": f"li_{unique}",
                "productId": None,
                "variantId": None,
                "sku": "SAMPLE-1",
                "title": "Sample article",
                "quantity": 2,
                "fulfilledQuantity": 0,
                "unitPrice": "10.00",
            }
        ],
        "totals": {"total": "20.00"},
        "shipments": [],
        "placedAt": at,
        "updatedAt": at,
    }


def _fulfilled(unique: str, at: str, currency: str) -> Document:
    order = _order(unique, at, currency)
    parcel = {
        "id": f"shp_{unique}",
        "trackingCompany": "Sample Parcels",
        "trackingNumber": "SAMPLE-0001",
        "shippedAt": at,
    }
    order["items"][0]["fulfilledQuantity"] = 2
    done = {"status": "CONFIRMED", "fulfillmentStatus": "FULFILLED"}
    return order | done | {"shipments": [parcel]}


def _cancelled(unique: str, at: str, currency: str) -> Document:
    states = {"status": "CANCELLED", "financialStatus": "VOIDED"}
    cancellation = {"cancelledAt": at, "reason": "OTHER", "restocked": False}
    return _order(unique, at, currency) | states | {"cancellation": cancellation}


def _product(unique: str, at: str, _: str) -> Document:
    variant = {
        "id": f"var_{unique}",
        "title": "Default",
        "sku": f"SAMPLE-{unique[:6]}",
        "price": "10.00",
        "stock": 5,
    }
    return {
        "id": f"prod_{unique}",
        "handle": f"sample-{unique[:6]}",
        "title": "Sample article",
        "status": "active",
        "variants": [variant],
        "updatedAt": at,
    }


def _deletion(unique: str, at: str, _: str) -> Document:
    title = "Sample article"
    return {"id": f"prod_{unique}", "title": title, "deletedAt": at}


def _stock_change(unique: str, at: str, _: str) -> Document:
    level = {"variantId": f"var_{unique}", "stock": 5, "adjustment": 5}
    return {
        "adjustmentId": f"adj_{unique}",
        "productId": f"prod_{unique}",
        "reason": "MANUAL_ADJUSTMENT",
        "levels": [level],
        "updatedAt": at,
    }


def _customer(unique: str, at: str, _: str) -> Document:
    name, email = "Sample Person", f"sample-{unique[:6]}@example.com"
    return {"id": f"cus_{unique}", "name": name, "email": email, "updatedAt": at}


SAMPLES: Mapping[str, Callable[[str, str, str], Document]] = {
    "orders/create": _order,
    "orders/updated": _order,
    "orders/fulfilled": _fulfilled,
    "orders/cancelled": _cancelled,
    "products/create": _product,
    "products/update": _product,
    "products/delete": _deletion,
    "inventory/level_update": _stock_change,
    "customers/create": _customer,
}
"""The nine topics of the specification."""
