"""v1 access: API keys, rate limits and scopes, in the contract's order."""

from aiohttp import web

from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.formats import sha256_hex
from backhaul_reference.platform.http.endpoint import Caller, Endpoint
from backhaul_reference.platform.http.middleware import EXTRA_HEADERS
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.rate_limits import PER_KEY
from backhaul_reference.platform.state import api_keys, stores
from backhaul_reference.platform.state.api_keys import ApiKey
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.inventory import Source
from backhaul_reference.platform.state.stores import Store

CHALLENGE = 'Bearer realm="v1"'


def admit(request: web.Request, endpoint: Endpoint) -> Caller:
    """Return the caller, or raise 401, 429 or 403, checked in this order."""
    platform = request.app[PLATFORM]
    request[EXTRA_HEADERS] |= platform.retirement.headers()
    secret = presented(request)
    key, store = platform.reader.recall(
        ("api key", sha256_hex(secret)), lambda rows: _known(rows, secret)
    )
    if key.has_ended(platform.clock.now_ms()):
        raise _invalid()
    platform.key_uses.note(key.id)
    request[EXTRA_HEADERS] |= platform.limits.spend(PER_KEY, key.id)
    if endpoint.scope is not None:
        require_scopes(key.scopes, [endpoint.scope])
    if not store.active:
        raise Problem(403, "STORE_INACTIVE", "the store is not active")
    return Caller(store, key.id, Source("API_KEY", key.id), key.scopes)


def presented(request: web.Request) -> str:
    """Return the key from either header; both headers must have the same key."""
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    candidates = request.headers.getall("X-Service-Access-Token", [])
    if scheme.lower() == "bearer":
        candidates = [*candidates, bearer]
    found = {one.strip() for one in candidates if one.strip()}
    if not found:
        raise Problem(
            401,
            "API_KEY_MISSING",
            "an API key is required",
            headers={"WWW-Authenticate": CHALLENGE},
        )
    if len(found) > 1:
        raise Problem(
            400, "AMBIGUOUS_CREDENTIALS", "the two headers hold different keys"
        )
    return found.pop()


def _known(rows: Rows, secret: str) -> tuple[ApiKey, Store]:
    key = api_keys.find(rows, secret)
    store = stores.by_id(rows, key.store_id) if key is not None else None
    if key is None or store is None:
        raise _invalid()
    return key, store


def _invalid() -> Problem:
    """Return the same 401 for an unknown, revoked or expired key."""
    return Problem(
        401,
        "API_KEY_INVALID",
        "the API key is not valid",
        headers={"WWW-Authenticate": f'{CHALLENGE}, error="invalid_token"'},
    )


def require_scopes(held: frozenset[str], needed: list[str]) -> None:
    missing = sorted(set(needed) - held)
    if missing:
        words = " ".join(missing)
        challenge = f'{CHALLENGE}, error="insufficient_scope", scope="{words}"'
        raise Problem(
            403,
            "INSUFFICIENT_SCOPE",
            "the API key does not hold the scope",
            headers={"WWW-Authenticate": challenge},
            requiredScopes=missing,
        )
