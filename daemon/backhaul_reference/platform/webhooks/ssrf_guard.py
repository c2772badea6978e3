"""Refuses webhook URLs that point into private networks."""

import ipaddress
import socket
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
# The last part of a name begins with a letter; else it would be a number.
NAME = rf"({LABEL}\.)*[A-Za-z]([A-Za-z0-9_-]{{0,61}}[A-Za-z0-9_])?\.?"
BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{BYTE}(\.{BYTE}){{3}}"
GROUP = "[0-9A-Fa-f]{1,4}"
IPV6 = "|".join(
    (
        f"({GROUP}:){{7}}{GROUP}",
        *(f"({GROUP}:){{1,{n}}}(:{GROUP}){{1,{7 - n}}}" for n in range(1, 7)),
        f"({GROUP}:){{1,7}}:",
        f":((:{GROUP}){{1,7}}|:)",
    )
)
PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9])"
ADDRESS = rf"^https?://({NAME}|{IPV4}|\[({IPV6})\])(:{PORT})?([/?#][!-~]*)?$"
"""Which addresses can be subscribed, as far as their form decides it."""
LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal")
# Beside what the standard library knows: addresses that stand for an IPv4 address
# (NAT64, SIIT, IPv4-compatible), site-local, relays, documentation, segment routing.
REFUSED = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96"),
        *("fec0::/10", "2001::/23", "2002::/16", "3fff::/20", "5f00::/16", "100::/64"),
        *("192.0.0.0/24", "192.88.99.0/24", "100.64.0.0/10", "168.63.129.16/32"),
    )
)


class PrivateTargetError(OSError):
    """The name leads to an address that may not be called."""


def refusal(address: str, *, allow_private: bool) -> str | None:
    """Why an address cannot be subscribed, or None."""
    try:
        url = URL(address)
        host, port = url.host, url.port
    except ValueError:
        return "must be a URL"
    if url.scheme not in {"http", "https"} or not host or port is None:
        return "must be an http or https URL"
    if url.user is not None or url.password is not None:
        return "must not hold credentials"
    if any(char.isspace() or ord(char) < 32 for char in address):
        return "must not hold white space"
    if not allow_private and is_private_host(host):
        return "must be a public address"
    return None


def is_private_host(host: str) -> bool:
    name = host.lower().rstrip(".")
    try:
        return not is_public_ip(_address(name))
    except ValueError:
        return name == LOCAL_NAMES[0] or name.endswith(LOCAL_NAMES[1:])


def _address(name: str) -> str:
    """The address that a resolver reads from a number: 2130706433, 0x7f.1, 0177.1."""
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return name


def is_public_ip(text: str) -> bool:
    """Whether an address is on the open internet; ValueError if it is no address."""
    ip = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
        return is_public_ip(str(ip.ipv4_mapped))
    if any(ip in network for network in REFUSED if network.version == ip.version):
        return False
    return ip.is_global and not ip.is_multicast


class PublicResolver(AbstractResolver):
    """Resolves names and drops every private address, at each connect."""

    def __init__(self, inner: AbstractResolver) -> None:
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: Any = 0
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        public = [one for one in found if is_public_ip(one["host"])]
        if not public:
            raise PrivateTargetError(None, "the name leads to a private address")
        return public

    async def close(self) -> None:
        await self._inner.close()
