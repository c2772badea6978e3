"""What every answer of the admin listener says to browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.origin import Origin

POLICY = "; ".join(
    [
        *("default-src 'none'", "script-src 'self'", "style-src 'self'"),
        *("img-src 'self'", "connect-src 'self'", "form-action 'self'"),
        *("base-uri 'none'", "frame-ancestors 'none'"),
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer a browser calls the origin of a form "null".
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


HSTS = "max-age=31536000"
"""A year, for this host only: other names of the domain may not speak https."""


async def harden(
    origin: Origin, request: web.BaseRequest, answer: web.StreamResponse
) -> None:
    """Add the headers; nothing is kept by a browser unless its handler says so.

    Where the browser came by https it is told to come only so, also behind a proxy;
    over http it is not told so, and would not heed it.
    """
    answer.headers.update(HEADERS)
    answer.headers.setdefault("Cache-Control", "no-store")
    if origin.is_https(request):
        answer.headers["Strict-Transport-Security"] = HSTS
