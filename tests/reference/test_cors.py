"""CORS: what customers' browsers may send and read across origins."""

import pytest

from scenes.reference_shop import Shop

PUBLIC = [
    ("/storefront/store", "GET"),
    ("/storefront/products", "GET"),
    ("/storefront/products/x", "GET"),
    ("/storefront/collections", "GET"),
    ("/storefront/collections/x", "GET"),
    ("/storefront/navigation", "GET"),
    ("/storefront/navigation/x", "GET"),
    ("/storefront/discounts/validate", "POST"),
    ("/storefront/orders", "POST"),
    ("/storefront/orders/track/x", "GET"),
    ("/storefront/orders/track/x/payment", "POST"),
    ("/api/shipping/calculate", "POST"),
]
EXPOSED = "Link, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"
ALLOWED = "x-subdomain, content-type, idempotency-key"


@pytest.mark.parametrize(("path", "method"), PUBLIC)
async def test_preflight(shop: Shop, path: str, method: str) -> None:
    """A browser asks without x-subdomain: it only announces it."""
    headers = {
        "Origin": "https://shop.example",
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "x-subdomain,content-type",
    }
    url = shop.running.access.public_url + path
    reply = await shop.ask("OPTIONS", url, headers)
    assert reply.status == 204
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert reply.headers["Access-Control-Allow-Methods"] == method
    assert reply.headers["Access-Control-Allow-Headers"] == ALLOWED
    assert reply.headers["Access-Control-Expose-Headers"] == EXPOSED
    assert "Access-Control-Allow-Credentials" not in reply.headers


@pytest.mark.parametrize(("path", "method"), PUBLIC)
async def test_answers_and_refusals_can_be_read(
    shop: Shop, path: str, method: str
) -> None:
    for wanted in (method, "DELETE"):
        url = shop.running.access.public_url + path
        reply = await shop.ask(wanted, url, {"x-subdomain": "demo"})
        assert reply.headers["Access-Control-Allow-Origin"] == "*"
        assert reply.headers["Access-Control-Expose-Headers"] == EXPOSED
    assert reply.status == 405
    assert method in reply.headers["Allow"].split(",")


async def test_the_keyed_api_is_not_for_browsers(shop: Shop) -> None:
    url = shop.running.access.public_url + "/api/v1/products"
    headers = {"Origin": "https://x.example", "Access-Control-Request-Method": "GET"}
    reply = await shop.ask("OPTIONS", url, headers)
    assert reply.status == 405
    for one in (reply, await shop.v1("GET", "/products")):
        assert not [name for name in one.headers if name.startswith("Access-Control")]
