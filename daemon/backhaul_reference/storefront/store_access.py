"""Finds the store of a shopper's request and limits their rate."""

import re

from aiohttp import web

from backhaul_reference.platform.context import PLATFORM, Platform
from backhaul_reference.platform.http.endpoint import Caller, Endpoint
from backhaul_reference.platform.http.middleware import EXTRA_HEADERS
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.rate_limits import (
    DISCOUNT_CHECKS,
    PAYMENT_REPORTS,
    PAYMENT_REPORTS_BY_ADDRESS,
    STOREFRONT_ORDERS,
    STOREFRONT_READS,
    TRACKING,
    UNKNOWN_TOKENS,
)
from backhaul_reference.platform.state import inventory, order_views, stores
from backhaul_reference.platform.state.stores import Store

SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
PRIVATE = {
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex, nofollow",
    "Referrer-Policy": "no-referrer",
}
POLICIES = {
    "/storefront/orders": STOREFRONT_ORDERS,
    "/storefront/discounts/validate": DISCOUNT_CHECKS,
}


def admit(request: web.Request, endpoint: Endpoint) -> Caller:
    platform = request.app[PLATFORM]
    store = store_of_header(request)
    if store is None:
        raise Problem(400, "STORE_HEADER_REQUIRED", "x-subdomain is required")
    if "token" in request.match_info:
        spent = _spend_on_token(request, platform, store, endpoint.method)
    else:
        policy = POLICIES.get(endpoint.path, STOREFRONT_READS)
        spent = platform.limits.spend(policy, f"{store.id} {request.remote}")
    request[EXTRA_HEADERS] |= spent
    return shopper(store)


def shopper(store: Store) -> Caller:
    return Caller(store, "storefront", inventory.STOREFRONT)


def store_of_header(request: web.Request) -> Store | None:
    """Return the active store that x-subdomain names; None without the header."""
    subdomain = request.headers.get("x-subdomain", "").strip().lower()
    if not subdomain:
        return None
    if not SUBDOMAIN.fullmatch(subdomain):
        raise not_found("STORE")
    platform = request.app[PLATFORM]
    store = platform.reader.recall(
        ("subdomain", subdomain), lambda rows: stores.by_subdomain(rows, subdomain)
    )
    if store is None or not store.active:
        raise not_found("STORE")
    return store


def _spend_on_token(
    request: web.Request, platform: Platform, store: Store, method: str
) -> dict[str, str]:
    """Apply the limit per token, so that no client uses up another buyer's limit."""
    limits, address = platform.limits, request.remote or ""
    if method == "POST":
        limits.count(PAYMENT_REPORTS_BY_ADDRESS, address)
    hashed = platform.tokens.hash_of(request.match_info["token"])
    if not platform.reader.read(
        lambda rows: order_views.token_exists(rows, store.id, hashed)
    ):
        limits.count(UNKNOWN_TOKENS, address)
        raise not_found("ORDER")
    who = f"{store.id} {hashed}"
    if method == "POST":
        return limits.count(PAYMENT_REPORTS, who)
    return limits.spend(TRACKING, who)


def allows_orders_without_account(caller: Caller) -> None:
    if caller.store.account_mode == "REQUIRED":
        raise Problem(
            401,
            "LOGIN_REQUIRED",
            "the store takes orders from signed-in customers only",
            headers={"WWW-Authenticate": "CustomerSession"},
        )
