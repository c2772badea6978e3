"""Finds out why an address cannot be reached: name, port or certificate."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies

from backhaul.doctor.result import Result, fail, ok

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONNECT_SECONDS = 5.0


async def look(base_url: str, about: str) -> AsyncIterator[Result]:
    """Look the name up and connect; what needs a proxy is left to it."""
    address = urlsplit(base_url)
    host = address.hostname or ""
    port = address.port or (443 if address.scheme == "https" else 80)
    if address.scheme in getproxies():
        yield ok("connection", "by the proxy of the environment", about)
        return
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        said = f"{host} is no name that is known here: {error.strerror or error}"
        fix = f"correct base_url; if it is right, mend DNS: getent hosts {host}"
        yield fail("dns", said, fix, about)
        return
    yield ok("dns", f"{host} is {found[0][4][0]}", about)
    yield await _connection(host, port, about)


async def _connection(host: str, port: int, about: str) -> Result:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        words = getattr(error, "strerror", None) or f"no answer in {CONNECT_SECONDS:g}s"
        said = f"{host}:{port} takes no connection: {words}"
        fix = "correct the port of base_url, or let this machine out through firewalls"
        return fail("connection", said, fix, about)
    writer.close()
    return ok("connection", f"{host}:{port} takes connections", about)


def unspoken(base_url: str, error: Exception, about: str) -> Result:
    """Say why a server that can be connected to does not answer."""
    words = str(error)
    if "CERTIFICATE" in words:
        return fail(
            "tls",
            f"{base_url}: its certificate is not trusted: {words}",
            "use the name that the certificate is for; for an authority of your own,"
            " name its file in SSL_CERT_FILE",
            about,
        )
    if "SSL" in words:
        fix = "correct base_url: does the server speak https at that port?"
        return fail("tls", f"{base_url}: {words}", fix, about)
    fix = "correct base_url; if it is right, the platform is down: try again later"
    return fail("platform", f"{base_url} does not answer: {words}", fix, about)
