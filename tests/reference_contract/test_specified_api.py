"""The specification of the API, line by line (contract 0, 15 to 20)."""

import base64
import hashlib
import hmac
import json
import re
from typing import Any

import pytest

from reference_contract.moves import TRACKING, cancel, fulfill, placed, settle, shown
from scenes.merchant import ONE, collection
from scenes.reference_shop import Receiver, Shop, cart, subscribe

SCOPES = (
    *("orders:read", "orders:write", "products:read", "products:write"),
    *("inventory:read", "inventory:write", "customers:read", "customers:write"),
    "store:read",
)
TOPICS = (
    *("orders/create", "orders/updated", "orders/fulfilled", "orders/cancelled"),
    *("products/create", "products/update", "products/delete"),
    *("inventory/level_update", "customers/create"),
)
# A call that each scope alone admits; what it names need not exist.
ADMITTED: dict[str, tuple[str, str]] = {
    "orders:read": ("GET", "/orders"),
    "orders:write": ("POST", "/orders/ord_x/cancel"),
    "products:read": ("GET", "/products"),
    "products:write": ("DELETE", "/products/prod_x"),
    "inventory:read": ("GET", "/inventory"),
    "inventory:write": ("POST", "/inventory/adjust"),
    "customers:read": ("GET", "/customers"),
    "customers:write": ("DELETE", "/customers/cus_x"),
    "store:read": ("GET", "/store"),
}
SIZES = [
    {"title": "S", "price": "1", "stock": 5},
    {"title": "M", "price": "1", "stock": 7},
]


@pytest.mark.parametrize("header", ["Authorization", "X-Service-Access-Token"])
async def test_line_15_two_headers(shop: Shop, header: str) -> None:
    key = shop.running.access.api_key
    assert re.fullmatch(r"svc_live_\w+", key)
    url = shop.running.access.public_url + "/api/v1/store"
    sent = {header: f"Bearer {key}" if header == "Authorization" else key}
    assert (await shop.ask("GET", url, sent)).status == 200
    wrong = {header: sent[header] + "x"}
    refused = await shop.ask("GET", url, wrong)
    assert (refused.status, refused.code) == (401, "API_KEY_INVALID")


@pytest.mark.parametrize("held", SCOPES)
async def test_line_15_nine_scopes(shop: Shop, held: str) -> None:
    """A key admits to what its scope says, and to nothing else."""
    made = await shop.control("POST", f"{ONE}/keys", {"scopes": [held]})
    key = made.data["key"]
    assert key.startswith("svc_live_")
    for scope, (method, path) in ADMITTED.items():
        sent: Any = {} if method == "POST" else None
        reply = await shop.v1(method, path, sent, key=key)
        assert (reply.status != 403) == (scope == held)
        if scope != held:
            assert reply.code == "INSUFFICIENT_SCOPE"
            assert reply.body["requiredScopes"] == [scope]


async def test_line_15_there_is_no_tenth_scope(shop: Shop) -> None:
    reply = await shop.control("POST", f"{ONE}/keys", {"scopes": ["store:write"]})
    assert reply.status == 422


@pytest.mark.parametrize("steps", [(), ("mark-paid",), ("cancel",)])
async def test_line_16_any_order_is_fulfilled(
    shop: Shop, steps: tuple[str, ...]
) -> None:
    order = await placed(shop)
    for step in steps:
        if step == "cancel":
            await cancel(shop, order)
        else:
            await settle(shop, order, step)
    before = await shop.sequence()
    done = (await fulfill(shop, order, **TRACKING)).data
    assert done["fulfillmentStatus"] == "FULFILLED"
    assert done["shipments"][0].items() >= TRACKING.items()
    assert "orders/fulfilled" in await shop.topics_since(before)


@pytest.mark.parametrize("restock", [False, True], ids=["keep", "restock"])
@pytest.mark.parametrize("steps", [(), ("mark-paid",), ("fulfill",)])
async def test_line_16_any_order_is_cancelled(
    shop: Shop, steps: tuple[str, ...], restock: bool
) -> None:
    order = await placed(shop)
    for step in steps:
        if step == "fulfill":
            await fulfill(shop, order)
        else:
            await settle(shop, order, step)
    before = await shop.sequence()
    assert (await cancel(shop, order, restock=restock)).data["status"] == "CANCELLED"
    assert "orders/cancelled" in await shop.topics_since(before)
    assert (await shop.state())["levels"][0]["stock"] == (100 if restock else 99)


async def test_line_17_deleting_unlinks_the_snapshots(shop: Shop) -> None:
    product = await shop.product(sku="LAMP")
    order = await shop.order(product, 2)
    await shop.v1("DELETE", f"/products/{product['id']}")
    (before,), (after,) = order["items"], (await shown(shop, order))["items"]
    assert after == {**before, "productId": None, "variantId": None}


async def test_line_17_adjustments_are_logged_across_variants(shop: Shop) -> None:
    product = await shop.product(variants=SIZES)
    body = {"productId": product["id"], "adjustment": -2, "reason": "DAMAGED"}
    done = (await shop.v1("POST", "/inventory/adjust", body)).data
    assert [one["stock"] for one in done["levels"]] == [3, 5]
    logged = (await shop.v1("GET", "/inventory/history?reason=DAMAGED")).data
    assert {one["adjustmentId"] for one in logged} == {done["adjustmentId"]}
    assert sorted(one["stockAfter"] for one in logged) == [3, 5]


async def test_line_17_stock_cannot_change_unlogged(shop: Shop) -> None:
    product = await shop.product(stock=3)
    changed = [{"id": product["variants"][0]["id"], "stock": 9}]
    reply = await shop.v1("PUT", f"/products/{product['id']}", {"variants": changed})
    assert (reply.status, reply.body["errors"][0]["code"]) == (422, "READ_ONLY")
    assert (await shop.state())["levels"][0]["stock"] == 3


async def everything(shop: Shop) -> None:
    """Move what there is, so that every topic has its event."""
    product = await shop.product(title="Lämp ☀ \u2028")
    await shop.v1("PUT", f"/products/{product['id']}", {"vendor": "V"})
    placed_as = await shop.shopper("POST", "/orders", cart(product))
    await fulfill(shop, placed_as.data)
    await cancel(shop, placed_as.data)
    await shop.v1("DELETE", f"/products/{product['id']}")


async def test_line_18_nine_topics_all_signed(shop: Shop, receiver: Receiver) -> None:
    webhook = await subscribe(shop, receiver, *TOPICS)
    await everything(shop)
    told = await receiver.until(await shop.sequence())
    assert {json.loads(one.body)["topic"] for one in told} == set(TOPICS)
    for one in told:
        digest = hmac.digest(webhook["secret"].encode(), one.body, hashlib.sha256)
        sent = one.headers["X-Service-Hmac-Sha256"]
        assert sent == base64.b64encode(digest).decode()
        assert one.body.decode() == json.dumps(
            json.loads(one.body), ensure_ascii=False, separators=(",", ":")
        )


async def test_line_18_there_is_no_tenth_topic(shop: Shop, receiver: Receiver) -> None:
    body = {"address": receiver.url, "topics": ["customers/delete"]}
    assert (await shop.v1("POST", "/webhooks", body)).status == 422


async def test_line_19_a_store_starts_with_two_menus(shop: Shop) -> None:
    menus = (await shop.shopper("GET", "/navigation")).data
    assert set(menus) == {"main-menu", "footer"}


async def test_line_19_urls_follow_the_handles(shop: Shop) -> None:
    product, made = await shop.product(), await collection(shop)
    targets = (("PRODUCT", product["id"]), ("COLLECTION", made["id"]))
    items = [{"label": kind, "type": kind, "target": one} for kind, one in targets]
    await shop.control("PUT", f"{ONE}/menus/footer", {"items": items})
    await shop.v1("PUT", f"/products/{product['id']}", {"handle": "lantern"})
    await shop.control("PUT", f"{ONE}/collections/{made['id']}", {"handle": "autumn"})
    shown_items = (await shop.shopper("GET", "/navigation/footer")).data["items"]
    assert [one["url"] for one in shown_items] == [
        "/products/lantern",
        "/collections/autumn",
    ]
    assert [one["children"] for one in shown_items] == [[], []]


def extended(body: Any) -> Any:
    """The same body with a member in every object that nobody knows."""
    if isinstance(body, dict):
        return {"fromTomorrow": 1, **{k: extended(v) for k, v in body.items()}}
    return [extended(one) for one in body] if isinstance(body, list) else body


async def test_line_20_unknown_members_are_ignored(shop: Shop) -> None:
    """What answers may gain, requests may bring, so that an answer can be sent back."""
    body = {"title": "L", "variants": [{"price": "1.00", "stock": 9}]}
    product = (await shop.v1("POST", "/products", extended(body))).data
    placed_as = await shop.shopper("POST", "/orders", extended(cart(product)))
    assert placed_as.status == 201
    for step in ("fulfill", "cancel"):
        path = f"/orders/{placed_as.data['id']}/{step}"
        reply = await shop.v1("POST", path, extended({}))
        assert reply.status == 200
        assert "fromTomorrow" not in str(reply.body)
    adjust = {"productId": product["id"], "adjustment": 1}
    assert (await shop.v1("POST", "/inventory/adjust", extended(adjust))).status == 200
    assert (await shop.shopper("GET", "/products?fromTomorrow=1")).status == 200
