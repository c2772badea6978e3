"""Where a request comes from: whose address, by https or not, from our own pages."""

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
        peer = request.remote or ""
        told = request.headers.get("X-Forwarded-For", "")
        # The last entry is the proxy's own word; those before it are anybody's.
        last = told.rpartition(",")[2].strip()
        return last if last and self._is_trusted(peer) else peer

    def is_https(self, request: web.Request) -> bool:
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
