"""Injects HTTP faults before a request runs or after it commits."""

import math
from collections.abc import Awaitable, Callable

from aiohttp import web

from backhaul_reference.platform import faults
from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.faults import Rule
from backhaul_reference.platform.http.middleware import template_of
from backhaul_reference.platform.http.quirk_adapter import ADMITTED
from backhaul_reference.platform.problems import Problem

PROXY_PAGE = """<html><head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center><hr></body></html>
"""
Next = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def before(request: web.Request) -> web.Response | None:
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
