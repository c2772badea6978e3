"""Which store a shopper means, and how often they may ask."""

import re

from aiohttp import web

from backhaul_reference.context import PLATFORM
from backhaul_reference.limits import (
    STOREFRONT_ORDERS,
    STOREFRONT_READS,
    TRACKING,
    Policy,
)
from backhaul_reference.problems import Problem, not_found
from backhaul_reference.state import stock, stores
from backhaul_reference.web.endpoint import Caller, Endpoint
from backhaul_reference.web.middleware import EXTRA_HEADERS

SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def admit(request: web.Request, endpoint: Endpoint) -> Caller:
    subdomain = request.headers.get("x-subdomain", "").strip().lower()
    if not subdomain:
        raise Problem(400, "STORE_HEADER_REQUIRED", "x-subdomain is required")
    store = None
    platform = request.app[PLATFORM]
    if SUBDOMAIN.fullmatch(subdomain):
        store = platform.reader.read(lambda rows: stores.by_subdomain(rows, subdomain))
    if store is None or not store.active:
        raise not_found("STORE")
    policy, who = _partition(request, endpoint)
    spent = platform.limits.spend(policy, f"{store.id} {who}")
    request[EXTRA_HEADERS] |= spent
    return Caller(store, "storefront", stock.STOREFRONT)


def _partition(request: web.Request, endpoint: Endpoint) -> tuple[Policy, str]:
    token = request.match_info.get("token")
    if token is not None:
        tokens = request.app[PLATFORM].tokens
        return TRACKING, tokens.hash_of(token)
    policy = STOREFRONT_ORDERS if endpoint.method == "POST" else STOREFRONT_READS
    return policy, request.remote or ""


def guests_may_order(caller: Caller) -> None:
    if caller.store.account_mode == "REQUIRED":
        raise Problem(
            401,
            "LOGIN_REQUIRED",
            "the store takes orders from signed-in customers only",
            headers={"WWW-Authenticate": "CustomerSession"},
        )
