"""The address guard allows public addresses and configured networks, and no others."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientConnectorError, ClientSession, web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer
from pydantic import ValidationError

from backhaul_sdk.addresses import AddressRefused, Guard, Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255
128.0.0.1 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.167.255.255
192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700:4700::1111
2a00:1450:4001:81b::200e 2001:200::1 2003::1 3ffe::1 2620:fe::fe
"""

NOT_PUBLIC = """
0.0.0.0 0.1.2.3 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 100.100.100.200
127.0.0.1 127.255.255.254 168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1
172.31.255.255 192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 192.168.0.1
192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1
239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::2 ::127.0.0.1 ::8.8.8.8
::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:169.254.169.254 ::ffff:0:10.0.0.1
64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::10.0.0.1 100::1 2001::1 2001:10::1
2001:db8::1 2002:7f00:1:: 2002:808:808:: 3fff::1 4000::1 5f00::1 fc00::1 fd00::1
fd00:ec2::254 fd20:ce::254 fe80::1 fe80::1%eth0 febf::1 fec0::1 ff02::1 ff0e::1
2a00:1450:4001:81b:0:5efe:a00:1 2a00:1450:4001:81b:200:5efe:a00:1
"""


def url_of(address: str) -> str:
    return f"https://[{address}]/" if ":" in address else f"https://{address}/"


@pytest.mark.parametrize("address", PUBLIC.split())
def test_the_public_internet_is_open(address: str) -> None:
    Guard(Network()).check(url_of(address))


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_all_other_addresses_are_closed_with_a_reason(address: str) -> None:
    with pytest.raises(AddressRefused, match="is not a public address but") as caught:
        Guard(Network()).check(url_of(address))
    assert "network.allow" in str(caught.value) or "name another" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "allow"),
    [
        ("10.1.2.3", "10.1.0.0/16"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("fd12:3456::1", "fd12:3456::/32"),
        ("169.254.10.10", "169.254.10.10"),
        ("100.64.1.1", "100.64.0.0/10"),
        ("64:ff9b::8.8.8.8", "64:ff9b::/96"),
    ],
)
def test_a_network_is_opened_by_name(address: str, allow: str) -> None:
    Guard(Network(allow=(allow,))).check(url_of(address))


@pytest.mark.parametrize(
    ("address", "allow"),
    [
        ("10.2.0.1", "10.1.0.0/16"),
        ("255.255.255.255", "255.255.255.255"),
        ("0.1.2.3", "0.0.0.0/8"),
        ("224.0.0.1", "224.0.0.0/8"),
        ("::ffff:10.1.2.3", "10.1.0.0/16"),
        ("::ffff:10.1.2.3", "::ffff:0:0/96"),
        ("64:ff9b::7f00:1", "64:ff9b::/96"),
        ("2002:a00:1::", "2002::/16"),
    ],
)
def test_the_guard_opens_no_other_address(address: str, allow: str) -> None:
    with pytest.raises(AddressRefused):
        Guard(Network(allow=(allow,))).check(url_of(address))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.com/", "use https://"),
        ("https://example.com:22/", "add it to network.ports"),
        ("ftp://example.com/", "must begin with https://"),
        ("file:///etc/passwd", "must begin with https://"),
        ("https://", "must begin with https://"),
        ("//example.com", "must begin with https://"),
        ("https://key:canary@example.com/", "separate settings"),
        ("https://canary@example.com/", "separate settings"),
        ("https://example.com:99999/", "cannot be read"),
        ("https://[::1", "cannot be read"),
        ("https://127.1/", "complete IPv4 address"),
        ("https://2130706433/", "complete IPv4 address"),
        ("https://0x7f000001/", "complete IPv4 address"),
        ("https://0x7f.1/", "complete IPv4 address"),
        ("https://0177.0.0.1/", "complete IPv4 address"),
        ("https://127.0.0.1./", "complete IPv4 address"),
    ],
)
def test_a_strange_url_is_refused(url: str, said: str) -> None:
    with pytest.raises(AddressRefused, match=said) as caught:
        Guard(Network()).check(url)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "entry", ["0.0.0.0/0", "::/0", "10.0.0.0/7", "10.1.2.3/16", "a b", "https://x", ""]
)
def test_an_allowance_is_exact(entry: str) -> None:
    with pytest.raises(ValidationError):
        Network(allow=(entry,))


class Names(AbstractResolver):
    """A resolver that gives one answer after the other, and the last for ever."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked += 1
        answer = self._answers.pop(0) if self._answers[1:] else self._answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in answer.split()
        ]

    async def close(self) -> None:
        return None


class Pair:
    """Two servers on one port: that of a partner, and one of the house."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Pair]:
        app = web.Application()
        app.router.add_get("/{tail:.*}", self._answer)
        async with TestServer(app, host="127.0.0.2") as partner:
            self.port = partner.port or 0
            async with TestServer(app, host="127.0.0.3", port=self.port):
                yield self

    async def _answer(self, request: web.Request) -> web.Response:
        transport = request.transport
        assert transport is not None
        self.seen.append(transport.get_extra_info("sockname")[0])
        return web.Response(text="hello")

    async def get(self, guard: Guard, host: str) -> str:
        """Ask on a new connection."""
        async with ClientSession(connector=guard.connector(keep_alive=False)) as client:
            return await self.get_by(client, guard, host)

    async def get_by(self, client: ClientSession, guard: Guard, host: str) -> str:
        url = guard.check(f"http://{host}:{self.port}/")
        async with client.get(url, allow_redirects=False) as answer:
            return await answer.text()

    def network(self, *allow: str) -> Network:
        return Network(allow=allow, ports=(self.port,), allow_http=True)


async def test_a_name_that_changes_its_address_is_judged_each_time() -> None:
    async with Pair().running() as pair:
        names = Names("127.0.0.2", "127.0.0.3")
        guard = Guard(pair.network("127.0.0.2"), names)
        async with ClientSession(connector=guard.connector(keep_alive=False)) as client:
            assert await pair.get_by(client, guard, "partner.example") == "hello"
            with pytest.raises(AddressRefused, match=r"example \(127.0.0.3\)"):
                await pair.get_by(client, guard, "partner.example")
        assert pair.seen == ["127.0.0.2"]
        # One answer per connect: what was judged is what was connected to.
        assert names.asked == 2


async def test_a_mixed_answer_uses_only_its_open_addresses() -> None:
    async with Pair().running() as pair:
        guard = Guard(pair.network("127.0.0.2"), Names("127.0.0.3 127.0.0.2 ::1"))
        assert await pair.get(guard, "partner.example") == "hello"
        assert pair.seen == ["127.0.0.2"]


async def test_an_allowed_host_may_be_private_but_never_link_local() -> None:
    async with Pair().running() as pair:
        network = pair.network("erp.lan")
        assert await pair.get(Guard(network, Names("127.0.0.3")), "ERP.lan") == "hello"
        for address in ("169.254.169.254", "fd00:ec2::254", "0.1.2.3", "not one"):
            with pytest.raises(AddressRefused):
                await pair.get(Guard(network, Names(address)), "erp.lan")
        with pytest.raises(AddressRefused, match=r"other.lan"):
            await pair.get(Guard(network, Names("127.0.0.3")), "other.lan")
        assert pair.seen == ["127.0.0.3"]


async def test_localhost_is_known_by_its_address() -> None:
    async with Pair().running() as pair:
        with pytest.raises(AddressRefused, match="loopback"):
            await pair.get(Guard(pair.network()), "localhost")


async def test_an_unchecked_url_is_refused_at_the_connection() -> None:
    async with (
        Pair().running() as pair,
        ClientSession(connector=Guard(pair.network()).connector()) as session,
    ):
        with pytest.raises(ClientConnectorError, match="loopback"):
            await session.get(f"http://127.0.0.3:{pair.port}/")
        assert pair.seen == []


def test_a_file_of_certificates_is_named_when_it_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    for content in (None, "none"):
        if content:
            file.write_text(content, "ascii")
        with pytest.raises(AddressRefused, match=r"ca.pem cannot be used"):
            Guard(Network(ca_file=file)).connector()
