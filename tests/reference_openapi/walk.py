"""One walk through the contract: shop, pay, dispatch, count, subscribe."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scenes.reference_shop import cart

if TYPE_CHECKING:
    from reference_openapi.conversation import Conversation

ORIGIN = {"Origin": "https://shop.example"}
NOBODY = {"Authorization": "Bearer nobody"}


async def walk(talk: Conversation, address: str) -> None:
    hook = (
        await talk.v1(
            "POST",
            "/webhooks",
            {
                "address": address,
                "topics": [
                    *("orders/create", "orders/updated", "orders/fulfilled"),
                    *("orders/cancelled", "products/create", "products/update"),
                    *("products/delete", "inventory/level_update", "customers/create"),
                ],
            },
        )
    ).data["id"]
    product = await _catalogue(talk)
    order = await _shop(talk, product)
    await _dispatch(talk, order["id"])
    await _count(talk, product)
    await _people(talk)
    await _subscriptions(talk, hook)
    await _errors(talk, product)
    await talk.v1("DELETE", f"/products/{product['id']}")
    await talk.v1("DELETE", f"/webhooks/{hook}")
    for path in ("/healthz", "/robots.txt", "/openapi.json"):
        await talk.ask("GET", path, None, {})
    for path, offered in talk.document["paths"].items():
        if "options" in offered:
            await talk.ask("OPTIONS", re.sub(r"\{\w+\}", "x", path), None, ORIGIN)


async def _catalogue(talk: Conversation) -> Any:
    body = {
        "title": "Lamp",
        "price": "100.00",
        "stock": 10,
        "images": [{"url": "https://example.com/lamp.png"}],
    }
    made = await talk.v1("POST", "/products", body, more={"Idempotency-Key": "lamp-1"})
    again = await talk.v1("POST", "/products", body, more={"Idempotency-Key": "lamp-1"})
    assert again.headers["Idempotency-Replayed"] == "true"
    product = made.data
    await talk.v1("PUT", f"/products/{product['id']}", {"tags": ["light"]})
    await talk.v1("GET", f"/products/{product['id']}")
    for path in ("/products?limit=2", "/orders?status=PENDING", "/store"):
        await talk.v1("GET", path)
    for path in ("/store", "/products?limit=2", "/collections", "/navigation"):
        await talk.shopper("GET", path)
    await talk.shopper("GET", f"/products/{product['handle']}")
    await talk.shopper("GET", "/navigation/main-menu")
    for one in (await talk.shopper("GET", "/collections")).data[:1]:
        await talk.shopper("GET", f"/collections/{one['handle']}")
    return product


async def _shop(talk: Conversation, product: Any) -> Any:
    item = {"productId": product["id"], "quantity": 2, "price": "100.00"}
    quote = {
        "storeId": talk.shop.running.access.store_id,
        "items": [item],
        "address": {"country": "IN", "zip": "411001"},
    }
    await talk.ask("POST", "/api/shipping/calculate", quote, {})
    checked = {"code": "NOSUCH", "cart": {"subtotal": "200.00", "items": [item]}}
    assert (await talk.shopper("POST", "/discounts/validate", checked)).status == 400
    placed = await talk.shopper(
        "POST", "/orders", cart(product, 2, paymentMethod="CUSTOM_QR")
    )
    track = f"/orders/track/{placed.data['trackingToken']}"
    await talk.shopper("GET", track)
    report = {"transactionId": "UTR1", "payerName": "Asha Rao"}
    await talk.shopper("POST", f"{track}/payment", report)
    await talk.shopper("GET", track)
    return (await talk.v1("GET", f"/orders/{placed.data['id']}")).data


async def _dispatch(talk: Conversation, order_id: str) -> None:
    order = (await talk.v1("GET", f"/orders/{order_id}")).data
    parcel = {
        "trackingCompany": "BlueDart",
        "trackingNumber": "BD1",
        "items": [{"lineItemId": order["items"][0]["id"], "quantity": 1}],
    }
    sent = await talk.v1("POST", f"/orders/{order_id}/fulfill", parcel)
    assert sent.data["fulfillmentStatus"] == "PARTIALLY_FULFILLED"
    gone = await talk.v1("POST", f"/orders/{order_id}/cancel", {"restock": True})
    assert gone.data["status"] == "CANCELLED"
    again = await talk.v1("POST", f"/orders/{order_id}/cancel", {"restock": False})
    assert again.code == "ORDER_ALREADY_CANCELLED"
    item = {"title": "By hand", "quantity": 1, "price": "5.00"}
    await talk.v1("POST", "/orders", {"items": [item], "financialStatus": "PAID"})


async def _count(talk: Conversation, product: Any) -> None:
    change = {"productId": product["id"], "adjustment": -2, "reason": "DAMAGED"}
    await talk.v1("POST", "/inventory/adjust", change)
    await talk.v1("POST", "/inventory/adjust", {**change, "expectedStock": 99})
    await talk.v1("POST", "/inventory/set", {"productId": product["id"], "stock": 20})
    for path in ("", "/history", f"/{product['id']}"):
        await talk.v1("GET", f"/inventory{path}")


async def _people(talk: Conversation) -> None:
    body = {"email": "ravi@example.com", "name": "Ravi", "tags": ["vip"]}
    made = (await talk.v1("POST", "/customers", body)).data
    assert (await talk.v1("POST", "/customers", body)).code == "EMAIL_TAKEN"
    await talk.v1("PUT", f"/customers/{made['id']}", {"note": "calls often"})
    await talk.v1("GET", f"/customers/{made['id']}")
    await talk.v1("GET", "/customers")
    await talk.v1("DELETE", f"/customers/{made['id']}")


async def _subscriptions(talk: Conversation, hook: str) -> None:
    await talk.v1("GET", "/webhooks")
    await talk.v1("PUT", f"/webhooks/{hook}", {"description": "the warehouse"})
    await talk.v1("GET", f"/webhooks/{hook}")
    await talk.v1("POST", f"/webhooks/{hook}/rotate-secret")
    tested = (await talk.v1("POST", f"/webhooks/{hook}/test")).data
    await talk.v1("GET", f"/webhooks/{hook}/deliveries?limit=1")
    delivery = f"/webhooks/{hook}/deliveries/{tested['id']}"
    await talk.v1("GET", delivery)
    await talk.v1("POST", f"{delivery}/redeliver")
    since = {"since": "2026-01-01T00:00:00Z", "topics": ["orders/create"]}
    await talk.v1("POST", f"/webhooks/{hook}/replay", since)


async def _errors(talk: Conversation, product: Any) -> None:
    refused = (
        await talk.v1("GET", "/products", more=NOBODY),
        await talk.v1("GET", "/products/nothing"),
        await talk.v1("POST", "/products", {"title": ""}),
        await talk.v1("GET", "/products?limit=1000"),
        await talk.shopper("GET", "/products/nothing"),
        await talk.shopper("GET", "/store", more={"x-subdomain": "nowhere"}),
        await talk.shopper("POST", "/orders", cart(product, 900)),
        await talk.shopper("POST", "/orders", {}),
    )
    found = [reply.status for reply in refused]
    assert found == [401, 404, 422, 422, 404, 404, 409, 422]
