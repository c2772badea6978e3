"""Control API access: checks the control token."""

import hmac

from aiohttp import web

from backhaul_reference.platform.context import PLATFORM, Platform
from backhaul_reference.platform.formats import bytes_sent
from backhaul_reference.platform.http.endpoint import Caller, Endpoint
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.state import inventory, stores

CONTROL_TOKEN = web.AppKey("control_token", str)


def check_token(request: web.Request) -> Platform:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    expected = request.app[CONTROL_TOKEN].encode()
    right = hmac.compare_digest(bytes_sent(token.strip()), expected)
    if scheme.lower() != "bearer" or not right:
        raise Problem(
            401,
            "CONTROL_TOKEN_INVALID",
            "the control token is required",
            headers={"WWW-Authenticate": 'Bearer realm="control"'},
        )
    return request.app[PLATFORM]


def admit(request: web.Request, endpoint: Endpoint) -> Caller:
    platform = check_token(request)
    subdomain = request.match_info["subdomain"]
    store = platform.reader.read(lambda rows: stores.by_subdomain(rows, subdomain))
    if store is None:
        raise not_found("STORE")
    return Caller(store, "dashboard", inventory.DASHBOARD)
