"""Answers as a store's quirks give them."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from backhaul_reference import readings
from backhaul_reference.context import PLATFORM
from backhaul_reference.documents import decode_stored, encode
from backhaul_reference.quirks import NONE, Quirks
from backhaul_reference.state.stores import Store
from backhaul_reference.web.access_log import template_of

ADMITTED: web.RequestKey[Store] = web.RequestKey("admitted", Store)
LEVERS: web.AppKey[bool] = web.AppKey("levers", bool)
"""Marks the surfaces whose requests quirks and faults may touch."""
ACKNOWLEDGED = (
    "/api/v1/inventory/adjust",
    "/api/v1/inventory/set",
    "/storefront/orders/track/{token}/payment",
)
PROBLEM = "application/problem+json"
Next = Callable[[web.Request], Awaitable[web.StreamResponse]]


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
    """The store's, or before any store is known those of the command line."""
    store = request.get(ADMITTED)
    return request.app[PLATFORM].quirks if store is None else store.quirks


def _reshape(quirks: Quirks, request: web.Request, response: web.Response) -> None:
    if not isinstance(response.body, bytes) or "json" not in response.content_type:
        return
    document = readings.reword(quirks, decode_stored(response.body))
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
