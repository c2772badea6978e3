"""Which addresses webhooks may be subscribed for and sent to."""

import re
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from backhaul_reference.platform.webhooks.ssrf_guard import (
    ADDRESS,
    PrivateTargetError,
    PublicResolver,
    is_public_ip,
    refusal,
)
from scenes.reference_shop import open_receiver, open_shop
from scenes.waiting import until

PRIVATE_IPV4 = (
    *("127.0.0.1", "127.0.0.2", "127.8.9.1", "127.255.255.255"),
    *("10.0.0.0", "10.1.2.3", "10.255.255.255"),
    *("172.16.0.1", "172.20.10.5", "172.31.255.255"),
    *("192.168.0.1", "192.168.1.1", "192.168.255.255"),
    *("169.254.0.1", "169.254.169.254", "169.254.170.2", "168.63.129.16"),
    *("100.64.0.1", "100.100.100.200", "100.127.255.255"),
    *("0.0.0.0", "0.1.2.3", "192.0.0.1", "192.0.0.192"),  # noqa: S104  - not bound
    *("192.0.2.1", "192.88.99.1"),
    *("198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7"),
    *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
)
PRIVATE_IPV6 = (
    *("::", "::1", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd12:3456::1"),
    *("fd00:ec2::254", "ff02::1", "ff0e::1", "::127.0.0.1", "::8.8.8.8"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
    *("::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1"),
    *("64:ff9b:1::1", "64:ff9b::169.254.169.254", "2002:7f00:1::", "2002:a00:1::1"),
    *("2001::1", "2001:db8::1", "3fff::1", "5f00::1", "100::1"),
)
PRIVATE_NAMES = (
    *("localhost", "LOCALHOST.", "a.localhost", "db.internal", "printer.local"),
    *("metadata.google.internal", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1"),
    *("127.1", "127.0.1", "10.1", "017700000001", "3232235521", "0xa9.0xfe.43518"),
)
PRIVATE = (*PRIVATE_IPV4, *(f"[{one}]" for one in PRIVATE_IPV6), *PRIVATE_NAMES)
PUBLIC = (
    *("8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.255.255"),
    *("172.32.0.0", "192.167.255.255", "169.253.255.255", "11.0.0.0", "126.255.0.1"),
    *("[2606:4700::1111]", "[2a00:1450:4001::1]", "[::ffff:8.8.8.8]"),
    *("erp.example", "example.com", "localhost.example", "internal.example.com"),
)


def test_the_table_is_long_enough() -> None:
    assert len(set(PRIVATE)) >= 60


@pytest.mark.parametrize("host", PRIVATE)
def test_private_hosts_cannot_be_subscribed(host: str) -> None:
    address = f"http://{host}/"
    assert refusal(address, allow_private=False) is not None
    assert refusal(address, allow_private=True) is None


@pytest.mark.parametrize("host", PUBLIC)
def test_public_hosts_can(host: str) -> None:
    assert refusal(f"https://{host}:8443/x", allow_private=False) is None


class Rebound(AbstractResolver):
    """A resolver whose names lead where the test says."""

    def __init__(self, *hosts: str) -> None:
        self.hosts = hosts

    async def resolve(
        self, host: str, port: int = 0, family: Any = 0
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=one,
                port=port,
                family=socket.AF_INET,
                proto=0,
                flags=0,
            )
            for one in self.hosts
        ]

    async def close(self) -> None:
        return


@pytest.mark.parametrize("ip", [*PRIVATE_IPV4, *PRIVATE_IPV6, "fe80::1%eth0"])
async def test_private_addresses_are_dropped_at_connect(ip: str) -> None:
    with pytest.raises(PrivateTargetError):
        await PublicResolver(Rebound(ip)).resolve("erp.example", 80)
    mixed = await PublicResolver(Rebound(ip, "8.8.8.8")).resolve("erp.example", 80)
    assert [one["host"] for one in mixed] == ["8.8.8.8"]


async def test_a_rebound_name_is_never_connected() -> None:
    async with open_receiver() as receiver:
        connector = aiohttp.TCPConnector(resolver=PublicResolver(Rebound("127.0.0.1")))
        url = receiver.url.replace("127.0.0.1", "erp.example")
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.post(url)
        assert receiver.received == []


@pytest.mark.parametrize("host", ["2130706433", "127.0.0.1", "localhost"])
async def test_an_address_that_turned_private_is_not_called(
    tmp_path: Path, host: str
) -> None:
    """As after a rebinding, or a start without the permission it had before."""
    async with open_receiver() as receiver, open_shop(tmp_path, private=False) as shop:
        body = {"address": "https://erp.example/", "topics": ["products/create"]}
        webhook = (await shop.v1("POST", "/webhooks", body)).data
        address = receiver.url.replace("127.0.0.1", host)
        await shop.running.platform.writer.run(
            lambda tx: tx.update("subscription", webhook["id"], {"address": address})
        )
        await shop.product()
        read = shop.running.platform.reader.read
        sql = "SELECT error FROM delivery_attempt"
        assert await until(lambda: read(lambda rows: rows.one(sql)), "an attempt")
        assert receiver.received == []


def test_an_invalid_address_is_reported() -> None:
    with pytest.raises(ValueError, match="does not appear"):
        is_public_ip("erp.example")


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        *(
            (host, True)
            for host in ("erp", "ERP.example.", "my_erp.example", "1and1.de")
        ),
        *((host, True) for host in ("8.8.8.8:65529", "erp.example:1", "255.0.0.1")),
        *(
            (f"[{ip}]", True)
            for ip in ("2606:4700::1111", "::1", "1::", "1:2:3:4:5:6:7:8")
        ),
        *(
            (host, False)
            for host in ("", "-erp", "erp-", "a..b", "a b", "a@b", "a:b@c")
        ),
        *((host, False) for host in ("256.0.0.1", "1.2.3", "0x7f.1", "2130706433")),
        *(
            (host, False)
            for host in ("erp:0", "erp:65536", "erp:x", "[::g]", "[1::2::3]")
        ),
        *(
            (f"[{ip}]", False)
            for ip in ("1:2:3", "1:2:3:4:5:6:7:8:9", "v1.x", "::1%lo")
        ),
    ],
)
@pytest.mark.parametrize("rest", ["", "/hook?a=*&b#c"])
def test_which_addresses_have_the_form(host: str, rest: str, accepted: bool) -> None:
    address = f"https://{host}{rest}"
    assert bool(re.search(ADDRESS, address)) is accepted
    if accepted:
        assert refusal(address, allow_private=True) is None
