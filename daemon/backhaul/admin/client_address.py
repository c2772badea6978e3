"""Client address behind proxies, same-origin check and security headers."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web


HTTPS = "https"


class Origin:
    """Judges requests by `[admin] url` and `trusted_proxies`."""

    def __init__(self, url: str | None, trusted: Iterable[str]) -> None:
        self._url = urlsplit(url or "")
        self._trusted = [ip_network(network, strict=False) for network in trusted]

    def address(self, request: web.Request) -> str:
        """Return whose request it is: what a trusted proxy says, else the peer."""
        address = request.remote or ""
        told = ",".join(request.headers.getall("X-Forwarded-For", ())).split(",")
        # Each proxy adds whom it was called by: behind the last one that is trusted
        # stands its own word, and everything before that is anybody's.
        while told and self._is_trusted(address):
            entry = told.pop().strip()
            if not entry:
                break
            address = _without_port(entry)
        return address

    def is_https(self, request: web.BaseRequest) -> bool:
        """Tell whether the browser came by https: a proxy's word, or our address."""
        if self._is_trusted(request.remote or ""):
            told = request.headers.get("X-Forwarded-Proto", "")
            if told:
                return told.strip().lower() == HTTPS
        return self._url.scheme == HTTPS and request.host == self._url.netloc

    def is_local(self, request: web.Request) -> bool:
        """Tell whether the browser believes to be on this machine.

        Its word is enough: who lies here sends his own password in the clear.
        """
        host = _parts(f"//{request.host}").hostname or ""
        if host == "localhost":
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False

    def is_own_page(self, request: web.Request) -> bool:
        """Tell whether one of our own pages sent this; a browser always says."""
        site = request.headers.get("Sec-Fetch-Site")
        origin = request.headers.get("Origin")
        if site is None and origin is None:
            return False
        if site not in {None, "same-origin"}:
            return False
        own = {request.host, self._url.netloc} - {""}
        return origin is None or _parts(origin).netloc in own

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        found = getattr(address, "ipv4_mapped", None) or address
        return any(found in network for network in self._trusted)


def _without_port(entry: str) -> str:
    """Return the address of an entry that may have a port, as some proxies write it."""
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    host, colon, _ = entry.partition(":")
    return host if colon and entry.count(":") == 1 else entry


def port(request: web.Request) -> int | None:
    """Return the port that the browser believes to talk to; none is the usual one."""
    try:
        return _parts(f"//{request.host}").port
    except ValueError:
        return None


def _parts(address: str) -> SplitResult:
    """Return the parts of an address that anybody sent; of what is none, no part."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


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
