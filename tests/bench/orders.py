"""Order deliveries as the platform sends them, about 2.6 KB, signed, no two alike."""

from __future__ import annotations

import hmac
import itertools
from datetime import timedelta
from time import time
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core import webhook
from backhaul.core.clock import from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

STORE = "main"
SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
PATH = f"/webhooks/{STORE}"
HEX_HEADER = "X-Signature-Hex"
"""The same signature in the form that Debian's `webhook` understands."""
STRIPE_HEADER = "Stripe-Signature"
ITEMS = 3
FIRST = 100_000_000
"""The number of the first order; ids contain their order's number and grow with it."""
LATER = 200_000_000
"""The sequence number of the first change; each event of a store has a new one."""
_MARK = 777_000_777
_SEQUENCE = 888_000_888
_PLACED = "2026-03-01T10:00:00.000Z"
_CHANGED = "2026-03-02T10:00:00.000Z"


def bodies(count: int, first: int = FIRST, items: int = ITEMS) -> Iterator[bytes]:
    """Yield `count` envelopes of orders with different ids."""
    envelope = _envelope()
    del envelope["data"]["items"][items:]
    return _numbered(envelope, range(first, first + count), first)


def changes(numbers: Iterable[int]) -> Iterator[bytes]:
    """Yield an envelope that tells of a change, for each order of such a number."""
    changed = {"note": "No need to ring.", "updatedAt": _CHANGED, "version": 2}
    envelope = _envelope() | {
        "id": f"evt_2_{_MARK}",
        "topic": "orders/updated",
        "createdAt": _CHANGED,
        "data": _order() | changed,
    }
    return _numbered(envelope, numbers, LATER)


def versions(count: int, version: int) -> Iterator[bytes]:
    """Yield an envelope with this version of each of the first `count` orders."""
    at = to_text(from_text(_CHANGED) + timedelta(milliseconds=version))
    changed = {"note": f"Change {version}.", "updatedAt": at, "version": version}
    envelope = _envelope() | {
        "id": f"evt_{version}_{_MARK}",
        "topic": "orders/updated",
        "createdAt": at,
        "data": _order() | changed,
    }
    sequence = LATER + version * count
    return _numbered(envelope, range(FIRST, FIRST + count), sequence)


def _numbered(
    envelope: dict[str, Any], numbers: Iterable[int], sequence: int
) -> Iterator[bytes]:
    """Yield the envelope for each number; the sequence numbers start at `sequence`."""
    head, tail = msgspec.json.encode(envelope).split(b"%d" % _SEQUENCE)
    mark = b"%d" % _MARK
    heads, tails = head.split(mark), tail.split(mark)
    for place, number in enumerate(numbers, sequence):
        text = b"%d" % number
        yield b"%b%d%b" % (text.join(heads), place, text.join(tails))


def requests(count: int) -> list[bytes]:
    """Return whole HTTP requests, ready to be written to a socket."""
    return [request(body) for body in bodies(count)]


def hex_requests(count: int) -> list[bytes]:
    """Return the same requests, signed in hexadecimal as well."""
    return [
        request(body, {HEX_HEADER: hmac.digest(SECRET, body, "sha256").hex()})
        for body in bodies(count)
    ]


def stripe_requests() -> Iterator[bytes]:
    """Yield, without end, customers as Stripe sends them, as large as our orders.

    Signed when they are asked for: a signature ages.
    """
    size = len(next(bodies(1)))
    for number in itertools.count(FIRST):
        body = _stripe_customer(number, size)
        now = int(time())
        digest = hmac.digest(SECRET, b"%d.%s" % (now, body), "sha256").hex()
        yield request(body, {STRIPE_HEADER: f"t={now},v1={digest}"})


def _stripe_customer(number: int, size: int) -> bytes:
    customer = {
        "id": f"cus_{number}",
        "object": "customer",
        "name": "Ana Example",
        "email": f"ana.{number}@example.com",
        "created": 1_772_359_200,
        "metadata": {},
    }
    event = {
        "id": f"evt_{number}",
        "object": "event",
        "api_version": "2020-08-27",
        "created": 1_772_359_200,
        "type": "customer.created",
        "data": {"object": customer},
    }
    filled = customer | {"description": "x" * (size - len(msgspec.json.encode(event)))}
    return msgspec.json.encode(event | {"data": {"object": filled}})


def request(body: bytes, more: Mapping[str, str] | None = None) -> bytes:
    """Return a whole HTTP request, ready to be written to a socket."""
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
        f"{webhook.HEADER}: {webhook.sign(body, SECRET).decode()}",
        *(f"{name}: {value}" for name, value in (more or {}).items()),
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
        "sequence": _SEQUENCE,
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
