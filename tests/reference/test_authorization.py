"""Who is allowed to call each route: keys, scopes, stores and limits."""

from pathlib import Path
from typing import Any

import pytest

from backhaul_reference.platform.state.api_keys import SCOPES
from scenes.reference_shop import Shop, open_shop

ROUTES = [
    ("GET", "/products", "products:read"),
    ("POST", "/products", "products:write"),
    ("PUT", "/products/x", "products:write"),
    ("DELETE", "/products/x", "products:write"),
    ("GET", "/orders", "orders:read"),
    ("GET", "/orders/x", "orders:read"),
    ("POST", "/orders", "orders:write"),
    ("POST", "/orders/x/fulfill", "orders:write"),
    ("POST", "/orders/x/cancel", "orders:write"),
    ("GET", "/inventory", "inventory:read"),
    ("GET", "/inventory/history", "inventory:read"),
    ("GET", "/inventory/x", "inventory:read"),
    ("POST", "/inventory/adjust", "inventory:write"),
    ("POST", "/inventory/set", "inventory:write"),
    ("GET", "/customers", "customers:read"),
    ("GET", "/customers/x", "customers:read"),
    ("GET", "/store", "store:read"),
]


async def new_key(shop: Shop, *scopes: str) -> str:
    reply = await shop.control("POST", "/stores/demo/keys", {"scopes": list(scopes)})
    return str(reply.data["key"])


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
async def test_each_route_needs_its_scope(
    shop: Shop, method: str, path: str, scope: str
) -> None:
    others = await new_key(shop, *(one for one in SCOPES if one != scope))
    refused = await shop.v1(method, path, key=others)
    assert (refused.status, refused.code) == (403, "INSUFFICIENT_SCOPE")
    assert refused.body["requiredScopes"] == [scope]
    assert f'scope="{scope}"' in refused.headers["WWW-Authenticate"]
    alone = await new_key(shop, scope)
    assert (await shop.v1(method, path, key=alone)).status != 403


async def test_keys_in_either_header(shop: Shop) -> None:
    key = shop.running.access.api_key
    url = f"{shop.running.access.public_url}/api/v1/store"
    bearer, plain = {"Authorization": f"Bearer {key}"}, {"X-Service-Access-Token": key}
    wrong = {"X-Service-Access-Token": "svc_live_x"}
    for headers, status, code in (
        (bearer, 200, None),
        (plain, 200, None),
        (bearer | plain, 200, None),
        (bearer | wrong, 400, "AMBIGUOUS_CREDENTIALS"),
        (wrong, 401, "API_KEY_INVALID"),
        ({}, 401, "API_KEY_MISSING"),
        ({"Authorization": f"Basic {key}"}, 401, "API_KEY_MISSING"),
    ):
        reply = await shop.ask("GET", url, headers)
        assert reply.status == status
        assert code is None or reply.code == code
    assert len(key) == len("svc_live_") + 40


async def test_revoked_keys_stop(shop: Shop) -> None:
    made = (await shop.control("POST", "/stores/demo/keys")).data
    assert (await shop.v1("GET", "/store", key=made["key"])).status == 200
    await shop.control("DELETE", f"/stores/demo/keys/{made['id']}")
    reply = await shop.v1("GET", "/store", key=made["key"])
    assert (reply.status, reply.code) == (401, "API_KEY_INVALID")


async def test_order_of_checks(shop: Shop) -> None:
    reader = await new_key(shop, "orders:read")
    raw: dict[str, Any] = {
        "data": b"{",
        "headers": {"Content-Type": "application/json"},
    }
    url = shop.running.access.public_url + "/api/v1/orders"
    assert (await shop.ask("POST", url, {}, data=b"{")).status == 401
    assert (await shop.v1("POST", "/orders", key=reader, **raw)).status == 403
    assert (await shop.v1("POST", "/orders", **raw)).code == "INVALID_JSON"
    text: dict[str, Any] = {"data": b"{}", "headers": {"Content-Type": "text/plain"}}
    assert (await shop.v1("POST", "/orders", **text)).status == 415
    assert (await shop.v1("POST", "/orders/x/fulfill", {"items": 1})).status == 422
    assert (await shop.v1("POST", "/orders/x/fulfill", {})).code == "ORDER_NOT_FOUND"
    assert (await shop.v1("GET", "/nothing", key="x")).code == "NOT_FOUND"
    wrong = await shop.v1("PATCH", "/orders", key="x")
    assert wrong.status == 405
    assert set(wrong.headers["Allow"].split(",")) == {"GET", "HEAD", "POST"}


async def test_stores_do_not_see_each_other(shop: Shop) -> None:
    order = await shop.order(await shop.product())
    await shop.control("POST", "/stores", {"subdomain": "other"})
    key = (await shop.control("POST", "/stores/other/keys")).data["key"]
    for method, path in (
        ("GET", f"/orders/{order['id']}"),
        ("POST", f"/orders/{order['id']}/cancel"),
        ("DELETE", f"/products/{order['items'][0]['productId']}"),
        ("GET", f"/inventory/{order['items'][0]['productId']}"),
    ):
        assert (await shop.v1(method, path, key=key)).status == 404


async def test_storefront_needs_a_store(shop: Shop) -> None:
    missing = await shop.shopper("GET", "/store", store="")
    assert (missing.status, missing.code) == (400, "STORE_HEADER_REQUIRED")
    for name in ("nothing", "no_such", "a b", "x" * 100):
        reply = await shop.shopper("GET", "/store", store=name)
        assert (reply.status, reply.code) == (404, "STORE_NOT_FOUND")
    await shop.settings(active=False)
    assert (await shop.shopper("GET", "/store")).status == 404
    inactive = await shop.v1("GET", "/store")
    assert (inactive.status, inactive.code) == (403, "STORE_INACTIVE")


async def test_browsers_may_shop_but_not_manage(shop: Shop) -> None:
    url = shop.running.access.public_url
    for method, path in (("OPTIONS", "/storefront/orders"), ("GET", "/storefront/x")):
        reply = await shop.ask(method, url + path, {"Origin": "https://shop.example"})
        assert reply.headers["Access-Control-Allow-Origin"] == "*"
    reply = await shop.v1("GET", "/store")
    assert "Access-Control-Allow-Origin" not in reply.headers
    robots = await shop.ask("GET", url + "/robots.txt", {})
    assert "Disallow: /storefront/orders/track/" in robots.body


async def test_control_needs_its_token(shop: Shop) -> None:
    base = shop.running.access.control_url + "/_control"
    assert (await shop.ask("GET", base + "/healthz", {})).status == 200
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer é"}):
        reply = await shop.ask("GET", base + "/stores/demo/state", headers)
        assert reply.status == 401
    public = shop.running.access.public_url
    assert (await shop.ask("GET", public + "/_control/healthz", {})).status == 404


async def test_limits_speak_and_refuse(tmp_path: Path) -> None:
    async with open_shop(tmp_path, limits=True) as shop:
        first = await shop.v1("GET", "/store")
        assert first.headers["RateLimit-Policy"] == '"key";q=240;w=60'
        assert first.headers["RateLimit"].startswith('"key";r=39;t=')
        replies = [await shop.v1("GET", "/store") for _ in range(60)]
        refused = next(reply for reply in replies if reply.status == 429)
        assert refused.code == "RATE_LIMITED"
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.body["violated-policies"] == ["key"]
        assert refused.body["type"].endswith("#quota-exceeded")
        # Another key has a bucket of its own; 429 comes before 403.
        other = await new_key(shop)
        assert (await shop.v1("GET", "/store", key=other)).status == 403


async def test_limits_off_say_nothing(shop: Shop) -> None:
    assert "RateLimit" not in (await shop.v1("GET", "/store")).headers


async def test_reset_keeps_the_key(shop: Shop) -> None:
    await shop.order(await shop.product())
    assert (await shop.control("POST", "/reset")).status == 200
    state = await shop.state()
    assert (state["orders"], state["sequence"]) == ([], 0)
    store = (await shop.v1("GET", "/store")).data
    assert store["id"] == shop.running.access.store_id
    assert store["features"] == ["updatedSince", "idempotencyKey", "expectedStock"]
