"""Decides which addresses a connector may connect to, at each connection.

An address in a setting or a message may lead into the merchant's own network, or to the
cloud's credentials server. So names are resolved here, each resolved address is
checked, and the connection goes to exactly that address:

    guard = Guard(settings.network)
    session = ClientSession(connector=guard.connector())
    session.get(guard.check(url), allow_redirects=False)
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from aiohttp import TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from pydantic import BaseModel, ConfigDict, Field, field_validator
from yarl import URL

from backhaul_sdk.contract import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Address: TypeAlias = IPv4Address | IPv6Address
AddressNetwork: TypeAlias = IPv4Network | IPv6Network

NARROWEST_PREFIX = 8
"""An allowed network must be named at least so exactly."""

_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.(?!-)[a-z0-9_-]{1,63})*")


class Opening(Enum):
    """What allows a range that is closed by default."""

    BY_HOST = "host"
    BY_NETWORK = "network"
    NEVER = "never"


class SpecialRange(NamedTuple):
    """A range that is not the public internet, and its common name."""

    network: AddressNetwork
    what: str
    opened: Opening


def _special(opened: Opening, ranges: Mapping[str, str]) -> list[SpecialRange]:
    return [
        SpecialRange(ip_network(text), what, opened)
        for what, texts in ranges.items()
        for text in texts.split()
    ]


# The first match counts, so narrower ranges come before wider ones.
SPECIAL: Sequence[SpecialRange] = (
    *_special(
        Opening.NEVER,
        {
            "this host": "0.0.0.0/8 ::/128",
            "multicast": "224.0.0.0/4 ff00::/8",
            "reserved": "240.0.0.0/4",
            "IPv4 in IPv6": "::ffff:0:0/96 ::ffff:0:0:0/96",
        },
    ),
    *_special(
        Opening.BY_NETWORK,
        {
            "the cloud's metadata": "169.254.169.254/32 100.100.100.200/32 "
            "168.63.129.16/32 fd00:ec2::/32 fd20:ce::254/128",
            "link-local": "169.254.0.0/16 fe80::/10",
            "NAT64": "64:ff9b::/96 64:ff9b:1::/48",
            "a tunnel": "2002::/16 2001::/32 192.88.99.0/24",
        },
    ),
    *_special(
        Opening.BY_HOST,
        {
            "loopback": "127.0.0.0/8 ::1/128",
            "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
            "shared by a provider": "100.64.0.0/10",
        },
    ),
    *_special(
        Opening.BY_NETWORK,
        {
            "IPv4 in IPv6": "::/96",
            "reserved": "192.0.0.0/24 192.0.2.0/24 198.18.0.0/15 198.51.100.0/24 "
            "203.0.113.0/24 2001::/23 2001:db8::/32 3fff::/20",
        },
    ),
)

# All other addresses are public; of IPv6 only this part is assigned.
PUBLIC_IPV6 = IPv6Network("2000::/3")
UNASSIGNED = SpecialRange(IPv6Network("::/0"), "not assigned", Opening.BY_NETWORK)
ISATAP = SpecialRange(PUBLIC_IPV6, "IPv4 in IPv6", Opening.BY_NETWORK)


class AddressRefused(CheckFailed):
    """The address is not allowed; the text says how to allow it."""


class Network(BaseModel):
    """What a connector may reach besides public HTTPS servers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow: tuple[str, ...] = Field(
        default=(),
        description="Hosts such as erp.lan and networks such as 10.1.0.0/16 that may "
        "be reached though they are not public.",
    )
    ports: tuple[int, ...] = Field(
        default=(80, 443, 8080, 8443),
        description="Ports that are allowed.",
    )
    allow_http: bool = Field(
        default=False,
        description="Whether unencrypted http:// is allowed.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="File with certificates (PEM) to trust besides the system's.",
    )

    @field_validator("allow")
    @classmethod
    def _is_exact(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        for entry in entries:
            _require_exact(entry)
        return entries

    def hosts(self) -> frozenset[str]:
        """Return the allowed entries that are host names."""
        names = (each for each in self.allow if _network_of(each) is None)
        return frozenset(name.lower().rstrip(".") for name in names)

    def networks(self) -> tuple[AddressNetwork, ...]:
        """Return the allowed entries that are networks or single addresses."""
        return tuple(filter(None, map(_network_of, self.allow)))


class Guard(AbstractResolver):
    """Resolves names for aiohttp and checks each address again at each connection.

    `resolver` resolves a name; by default the system's resolver.
    """

    def __init__(
        self, network: Network, resolver: AbstractResolver | None = None
    ) -> None:
        self._network = network
        self._hosts = network.hosts()
        self._networks = network.networks()
        self._resolver = resolver
        self._granted: set[Address] = set()

    def connector(self, *, keep_alive: bool = True) -> TCPConnector:
        """Return an aiohttp connector with this guard; needs a running loop.

        Without `keep_alive` no request is sent on a connection that the other side may
        be closing at that moment.
        """
        options: dict[str, Any] = {"ssl": self._context()} if self._ca_file else {}
        return TCPConnector(
            resolver=self,
            use_dns_cache=False,
            socket_factory=self._socket,
            force_close=not keep_alive,
            **options,
        )

    def check(self, url: str | URL) -> URL:
        """Return the URL if it is allowed. Raises AddressRefused."""
        url = _parsed(url)
        host = url.host or ""
        if url.scheme == "http" and not self._network.allow_http:
            raise AddressRefused(
                f"http:// to {host} is not encrypted: use https://, or set "
                "network.allow_http = true"
            )
        if url.port not in self._network.ports:
            allowed = ", ".join(map(str, self._network.ports))
            raise AddressRefused(
                f"port {url.port} of {host} is not allowed; the allowed ports are"
                f" {allowed}. To allow it, add it to network.ports"
            )
        if address := _address_of(host):
            self._judge(address, host)
        return url

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,
    ) -> list[ResolveResult]:
        """Return the allowed addresses of a name.

        Raises AddressRefused if none is allowed; OSError if the name is unknown.
        """
        if self._resolver is None:
            self._resolver = ThreadedResolver()
        found = await self._resolver.resolve(host, port, family=family)
        problems = {each["host"]: self._problem(each["host"], host) for each in found}
        sound = [each for each in found if not problems[each["host"]]]
        if found and not sound:
            raise AddressRefused(next(iter(problems.values())))
        if host.lower().rstrip(".") in self._hosts:
            self._granted = {ip_address(each["host"]) for each in sound}
        return sound

    async def close(self) -> None:
        """Close the resolver."""
        if self._resolver is not None:
            await self._resolver.close()

    def _problem(self, text: str, host: str) -> str:
        try:
            self._judge(ip_address(text), host)
        except ValueError:
            return f"{host} resolves to {text!r}, which is not an address"
        except AddressRefused as refused:
            return str(refused)
        return ""

    def _judge(self, address: Address, host: str) -> None:
        """Raise AddressRefused unless the address is allowed."""
        special = special_range_of(address)
        if special is None or self._is_open(address, special, host):
            return
        where = host if host == str(address) else f"{host} ({address})"
        raise AddressRefused(
            f"{where} is not a public address but {special.what}: {_advice(special)}"
        )

    def _is_open(self, address: Address, special: SpecialRange, host: str) -> bool:
        if special.opened is Opening.NEVER:
            return False
        if (
            special.opened is Opening.BY_HOST
            and host.lower().rstrip(".") in self._hosts
        ):
            return True
        if not any(address in network for network in self._networks):
            return False
        inner = embedded(address)
        closed = special_range_of(inner) if inner is not None else None
        return inner is None or closed is None or self._is_open(inner, closed, host)

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Create the socket for an address, after a last check of the address."""
        family, kind, protocol, _, address = info
        target = ip_address(address[0])
        if target not in self._granted:
            try:
                self._judge(target, str(target))
            except AddressRefused as refused:
                # aiohttp expects the system's exceptions.
                raise OSError(errno.EACCES, str(refused)) from None
        return socket.socket(family=family, type=kind, proto=protocol)

    @property
    def _ca_file(self) -> Path | None:
        return self._network.ca_file

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        try:
            context.load_verify_locations(self._ca_file)
        except OSError as error:
            reason = (error.strerror or "no certificates in it").lower()
            raise AddressRefused(
                f"the file of certificates {self._ca_file} cannot be used: {reason}"
            ) from None
        return context


def special_range_of(address: Address) -> SpecialRange | None:
    """Return the non-public range that contains the address; None if public."""
    found = next((each for each in SPECIAL if address in each.network), None)
    if found is not None:
        return found
    if isinstance(address, IPv6Address):
        if address not in PUBLIC_IPV6:
            return UNASSIGNED
        if embedded(address) is not None:
            return ISATAP
    return None


def embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to, if it does."""
    if isinstance(address, IPv4Address) or address.is_loopback:
        return None
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    last = IPv4Address(int(address) & 0xFFFF_FFFF)
    is_isatap = (int(address) >> 32) & 0xFFFF_FFFF in {0x5EFE, 0x0200_5EFE}
    holds_one = any(address in network for network in _HOLDS_IPV4)
    return last if is_isatap or holds_one else None


_HOLDS_IPV4 = tuple(
    IPv6Network(text)
    for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
)
_ADVICE: Mapping[Opening, str] = {
    Opening.BY_HOST: "if it is yours, add the host or its network to network.allow",
    Opening.BY_NETWORK: "if this is intended, add its network to network.allow",
    Opening.NEVER: "name another",
}


def _advice(special: SpecialRange) -> str:
    return _ADVICE[special.opened]


def _parsed(text: str | URL) -> URL:
    """Parse a URL without trusting it; errors show no secrets."""
    try:
        url = URL(text)
        host, port = url.host, url.port
    except (ValueError, TypeError):
        raise AddressRefused("the URL cannot be read") from None
    if url.scheme not in ("https", "http") or not host or port is None:
        raise AddressRefused("the URL must begin with https:// and name a host")
    if url.user is not None or url.password is not None:
        raise AddressRefused(
            f"the URL of {host} contains a user name or password: use the separate "
            "settings for them"
        )
    if _is_number_in_disguise(host):
        raise AddressRefused(
            f"{host} is neither a host name nor a complete IPv4 address"
        )
    return url


def reachable(url: str, network: Network) -> URL:
    """Return the URL of a setting. Raises ValueError if it is not allowed."""
    try:
        return Guard(network).check(url)
    except AddressRefused as refused:
        raise ValueError(str(refused)) from None


def _is_number_in_disguise(host: str) -> bool:
    """Return True if a resolver may read the host as an IPv4 address: 127.1, 0x7f.1."""
    last = host.rstrip(".").rpartition(".")[2]
    looks_so = re.fullmatch(r"\d+|0x[0-9a-f]*", last, re.IGNORECASE) is not None
    return looks_so and _address_of(host) is None


def _address_of(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _network_of(entry: str) -> AddressNetwork | None:
    try:
        return ip_network(entry)
    except ValueError:
        return None


def _require_exact(entry: str) -> None:
    network = _network_of(entry)
    if network is not None and network.prefixlen < NARROWEST_PREFIX:
        raise ValueError(
            f"the network {entry} is too large; name only your own network"
        )
    if network is None and ("/" in entry or not _HOST.fullmatch(entry.lower())):
        raise ValueError(
            f"{entry!r} is neither a host such as erp.lan nor a network such as "
            "10.1.0.0/16"
        )
