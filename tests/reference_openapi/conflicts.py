"""A walk through the refusals that the state of a shop brings about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from scenes.reference_shop import cart

if TYPE_CHECKING:
    from reference_openapi.conversation import Conversation
    from scenes.reference_shop import Receiver

LONG_AGO, LATER = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
OFF = {"type": "PERCENTAGE", "value": "10"}
DISCOUNTS = (
    {"code": "OVER", "endsAt": LONG_AGO},
    {"code": "EARLY", "startsAt": LATER},
    {"code": "BIG", "minimumSubtotal": "99999.00"},
    {"code": "ONCE", "usageLimit": 1},
)
MOST = 1_000_000_000


async def conflict(talk: Conversation, receiver: Receiver) -> None:
    lamp = await _names(talk)
    await _stock(talk, lamp)
    await _checkout(talk, lamp)
    await _payments(talk, lamp)
    await _back_office(talk, lamp)
    await _customers(talk)
    await _disabled(talk, receiver)


async def _names(talk: Conversation) -> Any:
    body = {"title": "Desk", "price": "10.00", "stock": 50}
    named = {"handle": "desk", "sku": "DESK", "externalId": "ERP-1"}
    desk = (await talk.v1("POST", "/products", body | named)).data
    other = (await talk.v1("POST", "/products", body)).data
    variant = {"id": other["variants"][0]["id"], "price": "10.00"}
    for name, value in named.items():
        await talk.v1("POST", "/products", body | {name: value})
    for change in (
        *({"handle": "desk"}, {"externalId": "ERP-1"}),
        *({"variants": [variant | one]} for one in ({"sku": "DESK"}, {"stock": 5})),
    ):
        await talk.v1("PUT", f"/products/{other['id']}", change)
    key = {"Idempotency-Key": "desk-1"}
    for title in ("Chair", "Stool"):
        await talk.v1("POST", "/products", body | {"title": title}, more=key)
    return desk


async def _stock(talk: Conversation, desk: Any) -> None:
    one: dict[str, Any] = {"productId": desk["id"]}
    for change in (
        *({"adjustment": -999}, {"adjustment": -1, "expectedStock": 7}),
        {"adjustment": -1, "variantId": "nothing"},
    ):
        await talk.v1("POST", "/inventory/adjust", one | change)
    nine: dict[str, Any] = one | {"stock": 9}
    for wrong in ({"variantId": "nothing"}, {"expectedStock": 7}):
        await talk.v1("POST", "/inventory/set", nine | wrong)
    await talk.v1("POST", "/inventory/set", one | {"stock": MOST})
    await talk.v1("POST", "/inventory/adjust", one | {"adjustment": 1})


async def _checkout(talk: Conversation, desk: Any) -> None:
    for discount in DISCOUNTS:
        await talk.shop.control("POST", "/stores/demo/discounts", OFF | discount)
    await talk.shopper("POST", "/orders", cart(desk, discountCode="ONCE"))
    for code in ("NOSUCH", *(str(one["code"]) for one in DISCOUNTS)):
        checked = {"code": code, "cart": {"subtotal": "10.00"}}
        await talk.shopper("POST", "/discounts/validate", checked)
        await talk.shopper("POST", "/orders", cart(desk, discountCode=code))
    sizes = [{"title": one, "price": "1.00", "stock": 5} for one in ("S", "M")]
    body = {"title": "Shirt", "variants": sizes}
    shirt = (await talk.v1("POST", "/products", body)).data
    item = {"productId": shirt["id"], "quantity": 1}
    await talk.shopper("POST", "/orders", cart(shirt, items=[item]))
    await talk.shop.settings(paymentSettings={"customQr": {"enabled": False}})
    await talk.shopper("POST", "/orders", cart(desk, paymentMethod="CUSTOM_QR"))
    await talk.shop.settings(paymentSettings={"customQr": {"enabled": True}})
    await talk.shop.settings(customerAccounts={"mode": "REQUIRED"})
    await talk.shopper("POST", "/orders", cart(desk))
    await talk.shop.settings(customerAccounts={"mode": "OPTIONAL"})


async def _payments(talk: Conversation, desk: Any) -> None:
    report = {"transactionId": "UTR9"}
    for method, act in (
        ("COD", ""),
        ("CUSTOM_QR", "mark-paid"),
        ("CUSTOM_QR", "cancel"),
    ):
        placed = await talk.shopper("POST", "/orders", cart(desk, paymentMethod=method))
        order = placed.data["id"]
        if act == "cancel":
            await talk.v1("POST", f"/orders/{order}/cancel", {"restock": True})
        elif act:
            await talk.shop.control("POST", f"/stores/demo/orders/{order}/{act}")
        token = placed.data["trackingToken"]
        await talk.shopper("POST", f"/orders/track/{token}/payment", report)


async def _back_office(talk: Conversation, desk: Any) -> None:
    item = {"productId": desk["id"], "quantity": 1, "price": "10.00"}
    made = (
        await talk.v1("POST", "/orders", {"externalId": "POS-1", "items": [item]})
    ).data
    for body in (
        {"externalId": "POS-1", "items": [item]},
        {"items": [item | {"productId": "nothing"}]},
        {"items": [item], "customer": {"id": "nothing"}},
    ):
        await talk.v1("POST", "/orders", body)
    line = {"lineItemId": made["items"][0]["id"], "quantity": 9}
    path = f"/orders/{made['id']}/fulfill"
    for parcel in ({"items": [line]}, {"trackingNumber": "1"}, {"trackingNumber": "2"}):
        await talk.v1("POST", path, parcel)
    await talk.shop.settings(codConfirmation=True)
    waiting = await talk.shopper("POST", "/orders", cart(desk))
    await talk.v1("POST", f"/orders/{waiting.data['id']}/fulfill", {})
    await talk.shop.settings(codConfirmation=False)
    one = {"productId": desk["id"], "stock": 0}
    await talk.v1("POST", "/inventory/set", one)
    await talk.v1("POST", "/orders", {"items": [item]})


async def _customers(talk: Conversation) -> None:
    first = {"email": "one@example.com", "externalId": "C-1"}
    await talk.v1("POST", "/customers", first)
    await talk.v1("POST", "/customers", first | {"email": "two@example.com"})
    other = (await talk.v1("POST", "/customers", {"email": "three@example.com"})).data
    for name, value in first.items():
        await talk.v1("PUT", f"/customers/{other['id']}", {name: value})
    for buyer in (await talk.v1("GET", "/customers?limit=100")).data:
        if buyer["ordersCount"]:
            await talk.v1("DELETE", f"/customers/{buyer['id']}")


async def _disabled(talk: Conversation, receiver: Receiver) -> None:
    """A receiver that is gone ends its subscription."""
    body = {"address": receiver.url, "topics": ["customers/create"]}
    hook = f"/webhooks/{(await talk.v1('POST', '/webhooks', body)).data['id']}"
    await talk.v1("GET", f"{hook}/deliveries/nothing")
    await talk.v1("POST", f"{hook}/deliveries/nothing/redeliver")
    sent = (await talk.v1("POST", f"{hook}/test")).data["id"]
    for act in ("rotate-secret", "test", f"deliveries/{sent}/redeliver"):
        for raw in (b"", b"x"):
            key = {"Idempotency-Key": "hook-1"}
            await talk.v1("POST", f"{hook}/{act}", raw, more=key)
    receiver.answers.append(web.Response(status=410))
    while (await talk.v1("GET", hook)).data["status"] != "DISABLED":
        await talk.v1("POST", f"{hook}/test")
    since = {"since": LONG_AGO}
    await talk.v1("POST", f"{hook}/replay", since)
    await talk.v1("POST", f"{hook}/test")
    await talk.v1("POST", f"{hook}/rotate-secret")
    await talk.v1("POST", f"{hook}/deliveries/{sent}/redeliver")
    await talk.v1("PUT", hook, {"status": "PAUSED"})
