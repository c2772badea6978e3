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
    """Finds the client behind proxies, by `[admin] url` and `trusted_proxies`."""

    def __init__(self, url: str | None, trusted: Iterable[str]) -> None:
        self._url = urlsplit(url or "")
        self._trusted = [ip_network(network, strict=False) for network in trusted]

    def address(self, request: web.Request) -> str:
        """Return the client's address: from a trusted proxy's header, else the peer."""
        address = request.remote or ""
        hops = ",".join(request.headers.getall("X-Forwarded-For", ())).split(",")
        # Each proxy appends the address of its own client. Read from the end and stop
        # at the first address that is not a trusted proxy: anyone can forge the rest.
        while hops and self._is_trusted(address):
            entry = hops.pop().strip()
            if not entry:
                break
            address = _without_port(entry)
        return address

    def is_https(self, request: web.BaseRequest) -> bool:
        """Return whether the browser used https, by a proxy's header or `url`."""
        if self._is_trusted(request.remote or ""):
            scheme = request.headers.get("X-Forwarded-Proto", "")
            if scheme:
                return scheme.strip().lower() == HTTPS
        return self._url.scheme == HTTPS and request.host == self._url.netloc

    def is_local(self, request: web.Request) -> bool:
        """Return whether the browser opened a loopback address, by its Host header.

        A client that forges the header only sends its own password in the clear.
        """
        host = _parts(f"//{request.host}").hostname or ""
        if host == "localhost":
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False

    def is_own_page(self, request: web.Request) -> bool:
        """Return whether a page of this dashboard sent the request."""
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
    """Return the port in the Host header; None means the default port."""
    try:
        return _parts(f"//{request.host}").port
    except ValueError:
        return None


def _parts(address: str) -> SplitResult:
    """Return the parts of an untrusted URL; empty parts if it is not a URL."""
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
"""A year, for this host only: other hosts of the domain may not support https."""


async def harden(
    origin: Origin, request: web.BaseRequest, answer: web.StreamResponse
) -> None:
    """Add security headers, and `no-store` unless the handler set a cache policy.

    Requests over https, also through a proxy, get an HSTS header; browsers ignore it
    over http.
    """
    answer.headers.update(HEADERS)
    answer.headers.setdefault("Cache-Control", "no-store")
    if origin.is_https(request):
        answer.headers["Strict-Transport-Security"] = HSTS
