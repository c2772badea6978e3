"""The web page for the shop floor, and the routes that serve its files."""

from __future__ import annotations

import hashlib
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
        "worker-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
VERSION_HEADER = "Backhaul-Page-Version"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_SCRIPT = "text/javascript; charset=utf-8"
FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", _SCRIPT),
    "/answers.js": ("answers.js", _SCRIPT),
    "/offline.js": ("offline.js", _SCRIPT),
    "/queue.js": ("queue.js", _SCRIPT),
    "/sender.js": ("sender.js", _SCRIPT),
    "/manifest.webmanifest": ("manifest.webmanifest", "application/manifest+json"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/icon-192.png": ("icon-192.png", "image/png"),
    "/icon-512.png": ("icon-512.png", "image/png"),
}
"""The path of each file of the page, its name and its type."""
WORKER = "/worker.js"
"""The path of the service worker, which keeps all other files for use offline."""
MODES = b"data-modes"


def routes(modes: Sequence[str]) -> list[Route]:
    """Return the routes of the page, which offers these modes.

    The page itself is public: every scan that it sends needs a device's token.
    """
    contents = {path: _content(name) for path, (name, _) in FILES.items()}
    offered = MODES + b'="' + " ".join(modes).encode() + b'"'
    contents["/"] = contents["/"].replace(MODES, offered, 1)
    kinds = {path: kind for path, (_, kind) in FILES.items()}
    version = _version_of([*contents.values(), _content("worker.js")])
    contents[WORKER], kinds[WORKER] = _worker(version), _SCRIPT
    return [
        Route("GET", path, _serve(contents[path], kinds[path], version))
        for path in contents
    ]


def _version_of(contents: Sequence[bytes]) -> str:
    """Return a digest of the page's files: a browser keeps all of one version."""
    digests = [hashlib.sha256(content).digest() for content in contents]
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


def _worker(version: str) -> bytes:
    names = " ".join(f".{path}" for path in FILES)
    content = _content("worker.js").replace(b"@version", version.encode(), 1)
    return content.replace(b"@files", names.encode(), 1)


def _serve(content: bytes, kind: str, version: str) -> HttpHandler:
    headers = {**HEADERS, "Content-Type": kind, VERSION_HEADER: version}

    async def handle(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200, headers=headers, content=content)

    return handle


@cache
def _content(name: str) -> bytes:
    return (files(__package__) / name).read_bytes()
