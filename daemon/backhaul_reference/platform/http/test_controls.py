"""Applies a store's test controls, quirks and faults, to requests and responses."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from multidict import MultiDict, MultiMapping

from backhaul_reference.platform import faults
from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.faults import Rule
from backhaul_reference.platform.http.middleware import template_of
from backhaul_reference.platform.http.query_params import MAX_LIMIT
from backhaul_reference.platform.json_codec import Document, decode_stored, encode
from backhaul_reference.platform.problems import Flaw, Problem, invalid
from backhaul_reference.platform.quirks import NONE, Quirks, reword
from backhaul_reference.platform.state.stores import Store

ADMITTED: web.RequestKey[Store] = web.RequestKey("admitted", Store)
TEST_CONTROLS: web.AppKey[bool] = web.AppKey("test controls", bool)
"""Marks the surfaces whose requests quirks and faults may touch."""
Next = Callable[[web.Request], Awaitable[web.StreamResponse]]

V1 = "/api/v1"
ADJUST, SET = V1 + "/inventory/adjust", V1 + "/inventory/set"
FULFILL, CANCEL = V1 + "/orders/{id}/fulfill", V1 + "/orders/{id}/cancel"
ORDERS = V1 + "/orders"

ABSENT = {
    "no-store-endpoint": (V1 + "/store",),
    "no-history": (V1 + "/inventory/history",),
    "no-levels": (V1 + "/inventory", V1 + "/inventory/{product_id}"),
    "no-webhook-api": (V1 + "/webhooks",),
}
"""Which quirk leaves out which endpoints; webhooks with all that is below them."""

SHOWN = {
    ADJUST: ("productId", "adjustment", "reason"),
    FULFILL: NONE.tracking_fields,
    CANCEL: ("restock",),
}
"""The members that the specification itself shows, where it shows a body."""
ACKNOWLEDGED = (
    ADJUST,
    SET,
    "/storefront/orders/track/{token}/payment",
)
PROBLEM = "application/problem+json"
PROXY_PAGE = """<html><head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center><hr></body></html>
"""


def check_offered(quirks: Quirks, route: str) -> None:
    for name, routes in ABSENT.items():
        if name not in quirks:
            continue
        below = name == "no-webhook-api" and route.startswith(routes[0] + "/")
        if route in routes or below:
            raise Problem(404, "NOT_FOUND", "there is nothing here")


def query_by_quirks(
    quirks: Quirks, route: str, sent: MultiMapping[str]
) -> MultiMapping[str]:
    """Return the query parameters that the store's quirks support."""
    read = MultiDict(sent)
    if "no-updated-since" in quirks:
        _drop(read, "updatedSince", "sort")
    if ignores_pages(quirks, route):
        _drop(read, "page", "limit")
    if "clamp-limit" in quirks and "limit" in read:
        read["limit"] = _clamped(read["limit"])
    return read


def ignores_pages(quirks: Quirks, route: str) -> bool:
    return "ignore-page" in quirks and route == ORDERS


def _drop(read: MultiDict[str], *names: str) -> None:
    for name in names:
        read.popall(name, None)


def _clamped(text: str) -> str:
    digits = text.isascii() and text.isdigit() and len(text) <= 10
    return str(min(int(text), MAX_LIMIT)) if digits else text


def body_by_quirks(quirks: Quirks, route: str, sent: Document) -> Document:
    """Return the body with the schemas' member names; 422 for rejected members."""
    renamed = _renamed(quirks, route)
    if "strict-body" in quirks and route in SHOWN:
        _check_shown(sent, {renamed.get(name, name) for name in SHOWN[route]})
    read = dict(sent)
    for ours, theirs in renamed.items():
        read.pop(ours, None)
        if theirs in sent:
            read[ours] = sent[theirs]
    if "no-note" in quirks:
        read.pop("note", None)
    if route in (ADJUST, SET):
        _read_adjustment(quirks, read)
    return read


def _renamed(quirks: Quirks, route: str) -> dict[str, str]:
    if route == CANCEL and "restock-field" in quirks:
        return {NONE.restock_field: quirks.restock_field}
    if route == FULFILL and "tracking-fields" in quirks:
        return dict(zip(NONE.tracking_fields, quirks.tracking_fields, strict=True))
    return {}


def _check_shown(sent: Document, allowed: set[str]) -> None:
    flaws = [
        Flaw(f"/{name}", "UNKNOWN_MEMBER", "is not a member of this request")
        for name in sent
        if name not in allowed
    ]
    if flaws:
        raise invalid(flaws)


def _read_adjustment(quirks: Quirks, read: Document) -> None:
    if "ignore-variant" in quirks:
        read.pop("variantId", None)
    reason = read.get("reason", "MANUAL_ADJUSTMENT")
    if "manual-reason" in quirks and reason != "MANUAL_ADJUSTMENT":
        detail = "must be MANUAL_ADJUSTMENT"
        raise invalid([Flaw("/reason", "NOT_ALLOWED", detail)])


@web.middleware
async def answer_by_quirks(request: web.Request, handler: Next) -> web.StreamResponse:
    response = await handler(request)
    quirks = _words(request)
    if quirks and isinstance(response, web.Response) and not response.prepared:
        _reshape(quirks, request, response)
    return response


def quirks_of(request: web.Request) -> Quirks:
    """The quirks of the store that admitted the request."""
    store = request.get(ADMITTED)
    return NONE if store is None else store.quirks


def _words(request: web.Request) -> Quirks:
    """Return the store's quirks, or those of the command line without a store."""
    store = request.get(ADMITTED)
    return request.app[PLATFORM].quirks if store is None else store.quirks


def _reshape(quirks: Quirks, request: web.Request, response: web.Response) -> None:
    if not isinstance(response.body, bytes) or "json" not in response.content_type:
        return
    document = reword(quirks, decode_stored(response.body))
    if response.content_type == PROBLEM:
        if "plain-errors" in quirks:
            response.content_type = "application/json"
            document = {"error": document["detail"]}
    elif "bare-v1" in quirks and request.path.startswith("/api/v1/"):
        response.headers.popall("Link", None)
        document = _bare(document)
    response.body = encode(document)
    route = template_of(request)
    if "ack-202" in quirks and response.status == 200 and route in ACKNOWLEDGED:
        response.set_status(202)


def _bare(document: Any) -> Any:
    return document.get("data", document) if isinstance(document, dict) else document


async def inject_refusal(request: web.Request) -> web.Response | None:
    """Return the response of a fault that replaces the handler's, if one fires."""
    for rule in _firing(request, faults.BEFORE):
        if rule.fault == "latency":
            await request.app[PLATFORM].clock.sleep(rule.seconds)
        else:
            return _refusal(request, rule)
    return None


def _refusal(request: web.Request, rule: Rule) -> web.Response:
    if rule.fault == "rate429":
        raise _limited(rule)
    if rule.fault == "5xx":
        raise Problem(
            rule.status,
            "INJECTED_FAULT",
            "a fault rule of the tests caused this failure",
        )
    if rule.fault == "html":
        return web.Response(status=502, text=PROXY_PAGE, content_type="text/html")
    _hang_up(request)
    return web.Response(status=503)


def _limited(rule: Rule) -> Problem:
    wait = str(math.ceil(rule.seconds))
    return Problem(429, "RATE_LIMITED", "slow down", headers={"Retry-After": wait})


@web.middleware
async def inject_failure(request: web.Request, handler: Next) -> web.StreamResponse:
    """Apply the faults that follow a commit."""
    response = await handler(request)
    for rule in _firing(request, faults.AFTER):
        if rule.fault == "drop-after-commit":
            _hang_up(request)
        elif isinstance(response, web.Response):
            return await _truncated(request, response)
    return response


def _firing(request: web.Request, kinds: tuple[str, ...]) -> list[Rule]:
    store = request.get(ADMITTED)
    if store is None:
        return []
    places = {request.path, template_of(request)}
    armed = request.app[PLATFORM].faults
    return armed.firing(store.id, kinds, request.method, places)


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _truncated(
    request: web.Request, response: web.Response
) -> web.StreamResponse:
    """Send the headers of the whole response and half of its body."""
    whole = response.body if isinstance(response.body, bytes) else b""
    half = web.StreamResponse(status=response.status, headers=response.headers)
    half.content_length = len(whole)
    await half.prepare(request)
    await half.write(whole[: len(whole) // 2])
    if request.transport is not None:
        request.transport.close()
    return half
