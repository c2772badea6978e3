"""Two stores with two keys: the objects of one are a 404 for the other."""

from dataclasses import dataclass
from typing import Any

import pytest

from scenes.reference_shop import Receiver, Shop, subscribe

FILLED: dict[str, Any] = {
    "/inventory/adjust": {"productId": "{product}", "adjustment": 1},
    "/inventory/set": {"productId": "{product}", "stock": 1},
}
WITH_IDS = (
    ("GET", "/products/{product}"),
    ("PUT", "/products/{product}"),
    ("DELETE", "/products/{product}"),
    ("GET", "/orders/{order}"),
    ("POST", "/orders/{order}/fulfill"),
    ("POST", "/orders/{order}/cancel"),
    ("GET", "/inventory/{product}"),
    ("POST", "/inventory/adjust"),
    ("POST", "/inventory/set"),
    ("GET", "/customers/{customer}"),
    ("PUT", "/customers/{customer}"),
    ("DELETE", "/customers/{customer}"),
    ("GET", "/webhooks/{webhook}"),
    ("PUT", "/webhooks/{webhook}"),
    ("DELETE", "/webhooks/{webhook}"),
    ("POST", "/webhooks/{webhook}/rotate-secret"),
    ("POST", "/webhooks/{webhook}/test"),
    ("POST", "/webhooks/{webhook}/replay"),
    ("GET", "/webhooks/{webhook}/deliveries"),
    ("GET", "/webhooks/{webhook}/deliveries/{delivery}"),
    ("POST", "/webhooks/{webhook}/deliveries/{delivery}/redeliver"),
)
LISTS = (
    *("/products", "/orders", "/inventory", "/inventory/history", "/customers"),
    *("/webhooks", "/inventory/history?productId={product}"),
)


@dataclass(frozen=True, slots=True)
class Strangers:
    """One store's ids, and another store's key."""

    shop: Shop
    ids: dict[str, str]
    key: str

    async def ask(self, method: str, path: str, key: str = "") -> Any:
        values = FILLED.get(path, {})
        body = {
            name: value.format(**self.ids) if isinstance(value, str) else value
            for name, value in values.items()
        }
        # Valid for every operation that reads a body, so that only the id is wrong.
        sent = None if method == "GET" else {"since": "2026-01-01T00:00:00Z", **body}
        return await self.shop.v1(method, path.format(**self.ids), sent, key=key)


@pytest.fixture
async def strangers(shop: Shop, receiver: Receiver) -> Strangers:
    webhook = await subscribe(shop, receiver)
    order = await shop.order(await shop.product(sku="A"))
    await receiver.until(1)
    path = f"/webhooks/{webhook['id']}/deliveries"
    ids = {
        "product": order["items"][0]["productId"],
        "order": order["id"],
        "customer": order["customer"]["id"],
        "webhook": webhook["id"],
        "delivery": (await shop.v1("GET", path)).data[0]["id"],
    }
    made = await shop.control("POST", "/stores", {"subdomain": "other"})
    return Strangers(shop, ids, made.data["apiKey"])


@pytest.mark.parametrize(("method", "path"), WITH_IDS)
async def test_an_id_of_the_other_store(
    strangers: Strangers, method: str, path: str
) -> None:
    before = await strangers.shop.state()
    refused = await strangers.ask(method, path, strangers.key)
    assert refused.status == 404, refused.body
    after = await strangers.shop.state()
    for name in ("sequence", "products", "orders", "customers", "levels"):
        assert after[name] == before[name]
    own = await strangers.ask(method, path)
    assert own.status in {200, 202, 409}, own.body


@pytest.mark.parametrize("path", LISTS)
async def test_lists_show_nothing_of_the_other(strangers: Strangers, path: str) -> None:
    assert (await strangers.ask("GET", path)).data != []
    assert (await strangers.ask("GET", path, strangers.key)).data == []


async def test_orders_cannot_name_objects_of_the_other_store(
    strangers: Strangers,
) -> None:
    shop, ids, key = strangers.shop, strangers.ids, strangers.key
    item = {"productId": ids["product"], "quantity": 1, "price": "1.00"}
    refused = await shop.v1("POST", "/orders", {"items": [item]}, key=key)
    assert (refused.status, refused.code) == (409, "PRODUCT_UNAVAILABLE")
    custom = {"title": "T", "quantity": 1, "price": "1.00"}
    body = {"items": [custom], "customer": {"id": ids["customer"]}}
    refused = await shop.v1("POST", "/orders", body, key=key)
    assert (refused.status, refused.code) == (404, "CUSTOMER_NOT_FOUND")
    for member, value in (("handle", "lamp"), ("sku", "A")):
        same = {"title": "Lamp", "price": "1.00", member: value}
        assert (await shop.v1("POST", "/products", same, key=key)).status == 201
        await shop.control("POST", "/stores/other/reset")


async def test_a_value_in_use_names_its_owner_in_the_same_store(
    strangers: Strangers,
) -> None:
    body = {"title": "Lamp", "price": "1.00", "sku": "A", "handle": "same"}
    ask, key = strangers.shop.v1, strangers.key
    theirs = {**body, "sku": "B"}
    await ask("POST", "/products", theirs)
    first = (await ask("POST", "/products", body, key=key)).data
    second = (await ask("POST", "/products", {**theirs, "handle": "b"}, key=key)).data
    for method, path in (("POST", "/products"), ("PUT", f"/products/{second['id']}")):
        taken = await ask(
            method, path, {**theirs, "handle": "same", "sku": "C"}, key=key
        )
        assert (taken.code, taken.body["existingId"]) == ("HANDLE_TAKEN", first["id"])
