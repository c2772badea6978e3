"""Rate limits: quotas, callers, and independence of each other (contract 1.1)."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from backhaul_reference.arguments import parse
from backhaul_reference.platform.rate_limits import NAMES
from reference_contract.moves import placed
from scenes.merchant import quote
from scenes.reference_shop import Reply, Shop, cart, open_shop

Ask = Callable[[Shop, Any], Awaitable[Reply]]


async def of_key(shop: Shop, order: Any) -> Reply:
    return await shop.v1("GET", "/store")


async def reads(shop: Shop, order: Any) -> Reply:
    return await shop.shopper("GET", "/store")


async def orders(shop: Shop, order: Any) -> Reply:
    return await shop.shopper("POST", "/orders", {})


async def discounts(shop: Shop, order: Any) -> Reply:
    return await shop.shopper("POST", "/discounts/validate", {})


async def quotes(shop: Shop, order: Any) -> Reply:
    return await quote(shop)


async def tracking(shop: Shop, order: Any) -> Reply:
    return await shop.shopper("GET", f"/orders/track/{order['trackingToken']}")


async def reports(shop: Shop, order: Any) -> Reply:
    path = f"/orders/track/{order['trackingToken']}/payment"
    return await shop.shopper("POST", path, {})


async def unknown_tokens(shop: Shop, order: Any) -> Reply:
    return await shop.shopper("GET", "/orders/track/nobody-has-this")


# Name -> who asks, and the quota the contract gives.
LIMITS: dict[str, tuple[Ask, int]] = {
    "key": (of_key, 240),
    "reads": (reads, 600),
    "orders": (orders, 30),
    "discounts": (discounts, 30),
    "quotes": (quotes, 120),
    "tracking": (tracking, 60),
    "reports": (reports, 5),
    "reports-address": (reports, 30),
    "unknown-tokens": (unknown_tokens, 20),
}
BURSTS = {"key": 40}
OFF = dict.fromkeys(NAMES, 0)


async def rested(shop: Shop) -> Any:
    """An order, and a minute in which nobody asked; then the clock stands still."""
    order = await placed(shop)
    await shop.control("POST", "/clock", {"advance": 60, "freeze": True})
    return order


def test_every_limit_is_held_here() -> None:
    assert set(LIMITS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
async def test_each_limit_allows_exactly_its_quota(folder: Path, name: str) -> None:
    """Alone, with all others off; what is refused for its body counts too."""
    ask, quota = LIMITS[name]
    only = {other: 0 for other in NAMES if other != name}
    async with open_shop(folder, limits=True, quotas=only) as shop:
        order = await rested(shop)
        for _ in range(BURSTS.get(name, quota)):
            assert (await ask(shop, order)).status != 429
        refused = await ask(shop, order)
        assert (refused.status, refused.code) == (429, "RATE_LIMITED")
        assert refused.body["violated-policies"] == [name]
        assert refused.headers["RateLimit-Policy"] == f'"{name}";q={quota};w=60'
        wait = int(refused.headers["Retry-After"])
        assert refused.headers["RateLimit"] == f'"{name}";r=0;t={wait}'
        await shop.control("POST", "/clock", {"advance": wait})
        assert (await ask(shop, order)).status != 429


@pytest.mark.parametrize("name", NAMES)
async def test_a_quota_can_be_set_for_each_limit(folder: Path, name: str) -> None:
    ask, _ = LIMITS[name]
    async with open_shop(folder, limits=True, quotas={**OFF, name: 24}) as shop:
        order = await rested(shop)
        answered = [await ask(shop, order) for _ in range(25)]
        assert answered[-1].status == 429
        assert [one.status for one in answered].count(429) == (
            21 if name == "key" else 1
        )
        policy = f'"{name}";q=24;w=60'
        assert answered[-1].headers["RateLimit-Policy"] == policy


async def test_all_off_one_by_one(folder: Path) -> None:
    async with open_shop(folder, limits=True, quotas=OFF) as shop:
        order = await placed(shop)
        for ask, _ in LIMITS.values():
            replies = [await ask(shop, order) for _ in range(45)]
            assert 429 not in {one.status for one in replies}
            assert "RateLimit" not in replies[-1].headers


async def test_each_limit_counts_its_own_callers(folder: Path) -> None:
    """Each order has its reports, each key its calls, each store its shoppers."""
    quotas = {**OFF, "reports": 1, "key": 1, "orders": 2}
    async with open_shop(folder, limits=True, quotas=quotas) as shop:
        await shop.control("POST", "/clock", {"freeze": True})
        made = await shop.control("POST", "/stores", {"subdomain": "other"})
        assert (await shop.v1("GET", "/store", key=made.data["apiKey"])).status == 200
        product = {"id": "prod_x", "variants": [{"id": "var_x"}]}
        for store in ("demo", "other"):
            asked = [
                await shop.shopper("POST", "/orders", cart(product), store=store)
                for _ in range(3)
            ]
            assert [one.status for one in asked] == [409, 409, 429]


async def test_a_reset_clears_the_request_counts(folder: Path) -> None:
    quotas = {**OFF, "unknown-tokens": 1, "reads": 1}
    async with open_shop(folder, limits=True, quotas=quotas) as shop:
        for reset in ("/stores/demo/reset", "/reset", "/reset"):
            for ask in (unknown_tokens, reads):
                assert (await ask(shop, None)).status != 429
                assert (await ask(shop, None)).status == 429
            await shop.control("POST", reset)


def test_quotas_on_the_command_line() -> None:
    options = parse(["--limit", "reports=0", "--limit", "key=1200"])
    assert options.quotas == {"reports": 0, "key": 1200}
    for bad in ("reports", "reports=", "reports=-1", "nothing=1", "key=1e3", "key=٣"):
        with pytest.raises(SystemExit):
            parse(["--limit", bad])
