"""Sample changes, in the platform's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul_sdk.contract import Change

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

AT = "2026-01-01T12:00:00.000Z"


def sample_change(number: int, topic: str = "order.placed") -> Change:
    """Return change `number` of a topic; one number is always one object."""
    document = _DOCUMENTS[topic](number)
    return Change(
        id=f"sample:{topic}:{number}",
        store="main",
        topic=topic,
        object_id=document["id"],
        occurred_at=AT,
        document=document,
    )


def _order(number: int) -> dict[str, Any]:
    return {
        "id": f"ord_{number:08}",
        "number": 1001 + number,
        "name": f"#{1001 + number}",
        "externalId": None,
        "status": "CONFIRMED",
        "financialStatus": "PAID",
        "fulfillmentStatus": "UNFULFILLED",
        "currency": "EUR",
        "email": "kim@example.com",
        "customer": _customer(number),
        "items": [
            {
                "id": f"li_{number:08}",
                "productId": f"prod_{number:08}",
                "variantId": f"var_{number:08}",
                "sku": "LS-S",
                "title": "Linen shirt",
                "quantity": 2,
                "fulfilledQuantity": 0,
                "unitPrice": "10.00",
            }
        ],
        "totals": {"subtotal": "20.00", "shipping": "0.00", "total": "20.00"},
        "shippingAddress": {
            "name": "Kim Example",
            "line1": "1 Sample Street",
            "city": "Sampleton",
            "postalCode": "12345",
            "country": "DE",
        },
        "shipments": [],
        "placedAt": AT,
        "updatedAt": AT,
    }


def _cancelled_order(number: int) -> dict[str, Any]:
    cancellation = {"cancelledAt": AT, "reason": "CUSTOMER", "restocked": True}
    states = {"status": "CANCELLED", "cancellation": cancellation}
    return _order(number) | states


def _product(number: int) -> dict[str, Any]:
    return {
        "id": f"prod_{number:08}",
        "handle": f"linen-shirt-{number}",
        "title": "Linen shirt",
        "status": "active",
        "variants": [
            {
                "id": f"var_{number:08}",
                "title": "S",
                "sku": f"LS-{number}",
                "price": "10.00",
                "stock": 5,
            }
        ],
        "updatedAt": AT,
    }


def _deleted_product(number: int) -> dict[str, Any]:
    return {"id": f"prod_{number:08}"}


def _stock(number: int) -> dict[str, Any]:
    return {
        "id": f"var_{number:08}",
        "productId": f"prod_{number:08}",
        "variantId": f"var_{number:08}",
        "sku": f"LS-{number}",
        "stock": 5,
    }


def _customer(number: int) -> dict[str, Any]:
    return {
        "id": f"cus_{number:08}",
        "name": "Kim Example",
        "email": f"kim-{number}@example.com",
        "updatedAt": AT,
    }


_DOCUMENTS: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "order.placed": _order,
    "order.updated": _order,
    "order.cancelled": _cancelled_order,
    "product.updated": _product,
    "product.deleted": _deleted_product,
    "stock.changed": _stock,
    "customer.updated": _customer,
}
