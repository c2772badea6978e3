"""The span of a request to the platform, which the request names in its header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.runtime.tracing import present_span

if TYPE_CHECKING:
    import httpx

    from backhaul.runtime.tracing import Span

TRACEPARENT = "traceparent"
"""The header of W3C Trace Context."""
FIRST_ERROR = 400


def begin_request(request: httpx.Request) -> Span | None:
    """Begin the span of a request within the span of the present work.

    None if there is none: polls and full syncs belong to no trace. The query is left
    out, because it may name a customer. A request that is sent again has a span of its
    own each time.
    """
    if (work := present_span()) is None:
        return None
    url = request.url
    attributes: dict[str, str | int | bool] = {
        "http.request.method": request.method,
        "server.address": url.host,
        "url.full": str(url.copy_with(query=None, username="", password="")),
    }
    if url.port is not None:
        attributes["server.port"] = url.port
    span = work.child(request.method, "client", attributes)
    request.headers[TRACEPARENT] = span.traceparent
    return span


def end_request(span: Span | None, came: str) -> None:
    """End the span with the status of the response, or with why there is none."""
    if span is None:
        return
    failed = not came.isdigit() or int(came) >= FIRST_ERROR
    if came.isdigit():
        span.put("http.response.status_code", int(came))
    if failed:
        span.put("error.type", came)
    span.end(came if failed else "")
