"""A merchant's actions in a reference store: collections, menus, offers, mails."""

import asyncio
from pathlib import Path
from typing import Any

from scenes.reference_shop import ADDRESS, Reply, Shop, cart
from scenes.waiting import HANG_SECONDS

ONE = "/stores/demo"
QUOTE = "/api/shipping/calculate"


async def collection(shop: Shop, **values: Any) -> Any:
    body = {"title": "Summer", **values}
    return (await shop.control("POST", f"{ONE}/collections", body)).data


async def tagged(shop: Shop, *conditions: str, **values: Any) -> Any:
    rules = [{"relation": "EQUALS", "condition": one} for one in conditions]
    return await collection(shop, type="AUTOMATIC", rules=rules, **values)


async def discount(shop: Shop, **values: Any) -> Any:
    body = {"code": "SAVE10", "type": "PERCENTAGE", "value": "10", **values}
    return (await shop.control("POST", f"{ONE}/discounts", body)).data


async def zones(shop: Shop, *wanted: dict[str, Any]) -> None:
    """Replace all zones; a zone without rates gets a free one."""
    for old in (await shop.control("GET", f"{ONE}/zones")).data:
        await shop.control("DELETE", f"{ONE}/zones/{old['id']}")
    for number, values in enumerate(wanted):
        rate = {"name": "Flat", "price": str(number + 1)}
        body = {"name": "Z", "priority": number, "rates": [rate], **values}
        reply = await shop.control("POST", f"{ONE}/zones", body)
        assert reply.status == 201, reply.body


async def quote(shop: Shop, store: str = "", **values: Any) -> Reply:
    item = {"productId": "prod_x", "quantity": 2, "price": "100.00"}
    body = {
        "storeId": shop.running.access.store_id,
        "items": [item],
        "address": {"country": "IN", "city": "Pune", "zip": "411001"},
        **values,
    }
    headers = {"x-subdomain": store} if store else {}
    url = shop.running.access.public_url + QUOTE
    return await shop.ask("POST", url, headers, json=body)


async def check(shop: Shop, code: str, subtotal: str = "100.00", **more: Any) -> Reply:
    body = {"code": code, "cart": {"subtotal": subtotal, **more}}
    return await shop.shopper("POST", "/discounts/validate", body)


async def buy(shop: Shop, product: Any, quantity: int = 1, **values: Any) -> Reply:
    return await shop.shopper("POST", "/orders", cart(product, quantity, **values))


async def scan_and_pay(shop: Shop, **settings: Any) -> None:
    custom_qr = {"enabled": True, **settings}
    cod = {"enabled": True}
    await shop.settings(paymentSettings={"cod": cod, "customQr": custom_qr})


async def advance(shop: Shop, seconds: float) -> None:
    reply = await shop.control("POST", "/clock", {"advance": seconds})
    assert reply.status == 200, reply.body


async def outbox(shop: Shop) -> list[Any]:
    """Return all mails of the outbox, the oldest first."""
    listed = (await shop.control("GET", "/outbox?limit=100")).data
    return list(reversed(listed))


async def idle_outbox(shop: Shop) -> list[Any]:
    """Wait until no mail is due; return the mails of the outbox."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            found = await outbox(shop)
            if all(one["status"] != "PENDING" or one["attempts"] for one in found):
                return found


def mail_text(folder: Path, mail: Any) -> bytes:
    return (folder / "mails" / f"{mail['id']}.eml").read_bytes()


def address(**values: Any) -> dict[str, Any]:
    return {**ADDRESS, **values}
