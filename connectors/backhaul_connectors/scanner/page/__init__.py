"""The web page for the shop floor, and the routes that serve its files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from backhaul_sdk import HttpResponse, Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_sdk import HttpRequest
    from backhaul_sdk.contract import HttpHandler

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
MODES = b"data-modes"


def routes(modes: Sequence[str]) -> list[Route]:
    """Return the routes of the page, which offers these modes.

    The page itself is public: every scan that it sends needs a device's token.
    """
    return [Route("GET", path, _serve(path, modes)) for path in FILES]


def _serve(path: str, modes: Sequence[str]) -> HttpHandler:
    async def handle(_: HttpRequest) -> HttpResponse:
        name, kind = FILES[path]
        offered = MODES + b'="' + " ".join(modes).encode() + b'"'
        content = _content(name).replace(MODES, offered, 1)
        return HttpResponse(
            200, headers={**HEADERS, "Content-Type": kind}, content=content
        )

    return handle


@cache
def _content(name: str) -> bytes:
    return (files(__package__) / name).read_bytes()
