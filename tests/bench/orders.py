"""Order deliveries as the platform sends them, about 2.6 KB, signed, no two alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core import signature

if TYPE_CHECKING:
    from collections.abc import Iterator

STORE = "main"
SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
PATH = f"/webhooks/{STORE}"
ITEMS = 3
_MARK = 777_000_777
_PLACED = "2026-03-01T10:00:00.000Z"


def bodies(count: int) -> Iterator[bytes]:
    """Yield `count` envelopes of orders with different ids."""
    before, *rest = msgspec.json.encode(_envelope()).split(str(_MARK).encode())
    for index in range(count):
        number = b"%d" % (100_000_000 + index)
        yield number.join((before, *rest))


def requests(count: int) -> list[bytes]:
    """Return whole HTTP requests, ready to be written to a socket."""
    return [_request(body) for body in bodies(count)]


def _request(body: bytes) -> bytes:
    lines = [
        f"POST {PATH} HTTP/1.1",
        "Host: 127.0.0.1",
        "User-Agent: Service-Webhooks/1.0",
        "Content-Type: application/json",
        "X-Service-Topic: orders/create",
        "X-Service-Event-Id: evt_4f9d1b7c2a8e4e6f",
        "X-Service-Delivery-Id: dlv_9a1c3e5f7b2d4c6e",
        "X-Service-Attempt: 1",
        "X-Service-Subscription-Id: whk_0c2e4a6b8d1f3e5a",
        "X-Service-Store: demo",
        f"X-Service-Triggered-At: {_PLACED}",
        "X-Service-Api-Version: v1",
        "webhook-id: evt_4f9d1b7c2a8e4e6f",
        "webhook-timestamp: 1772359200",
        f"{signature.HEADER}: {signature.sign(body, SECRET).decode()}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _envelope() -> dict[str, Any]:
    return {
        "id": f"evt_{_MARK}",
        "topic": "orders/create",
        "apiVersion": "v1",
        "storeId": "sto_1a2b3c4d5e6f",
        "createdAt": _PLACED,
        "sequence": _MARK,
        "data": _order(),
    }


def _order() -> dict[str, Any]:
    return {
        "id": f"ord_{_MARK}",
        "number": _MARK,
        "name": f"#{_MARK}",
        "externalId": None,
        "source": "storefront",
        "status": "PENDING",
        "financialStatus": "PENDING",
        "fulfillmentStatus": "UNFULFILLED",
        "confirmation": {"required": True, "confirmedAt": None},
        "currency": "EUR",
        "paymentMethod": "COD",
        "customer": {
            "id": f"cus_{_MARK}",
            "name": "Ana Example",
            "email": f"ana.{_MARK}@example.com",
            "phone": "+351 210 000 000",
        },
        "items": [_item(line) for line in range(ITEMS)],
        "totals": {
            "subtotal": "74.70",
            "discount": "0.00",
            "shipping": "4.90",
            "paymentFee": "1.50",
            "tax": "0.00",
            "total": "81.10",
        },
        "discountCode": None,
        "shippingAddress": {
            "name": "Ana Example",
            "address1": f"Rua do Exemplo {_MARK}",
            "address2": "3.º Esq.",
            "city": "Lisboa",
            "province": "Lisboa",
            "zip": "1100-001",
            "country": "PT",
            "phone": "+351 210 000 000",
        },
        "payment": {
            "method": "COD",
            "paidAt": None,
            "amountDue": "81.10",
            "report": None,
        },
        "shipments": [],
        "cancellation": None,
        "note": "Please ring twice; the bell of the third floor is the lower one.",
        "tags": ["cod", "newsletter"],
        "placedAt": _PLACED,
        "createdAt": _PLACED,
        "updatedAt": _PLACED,
        "version": 1,
    }


def _item(line: int) -> dict[str, Any]:
    return {
        "id": f"itm_{_MARK}_{line}",
        "productId": f"prd_00000000000{line}",
        "variantId": f"var_00000000000{line}",
        "sku": f"MUG-BLUE-{line}",
        "title": "Mug with a fairly long and descriptive title",
        "variantTitle": "Blue / Large",
        "options": [
            {"name": "Colour", "value": "Blue"},
            {"name": "Size", "value": "Large"},
        ],
        "imageUrl": f"https://cdn.example.com/media/products/mug-blue-{line}.jpg",
        "quantity": 1,
        "fulfilledQuantity": 0,
        "restockedQuantity": 0,
        "unitPrice": "24.90",
        "discount": "0.00",
        "total": "24.90",
    }
