"""Checks a store's platform: network, clock, key and scopes."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies

from backhaul.core.rate_limit import policy_in_words
from backhaul.doctor import Result, fail, ok, warn
from backhaul.errors import OtherStore, ReadFailed, Unusable
from backhaul.platform.transport import NotSent, OutcomeUnknown
from backhaul.store import database_at
from backhaul.sync.store_identity import known_facts, require_same

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from backhaul.core.clock import Clock
    from backhaul.platform.client import PlatformClient, StoreFacts
    from backhaul.platform.responses import Response
    from backhaul.platform.transport import Pause, Transport
    from backhaul.settings import Settings


CONNECT_SECONDS = 5.0


async def check_network(base_url: str, about: str) -> AsyncIterator[Result]:
    """Resolve the name and connect, unless the environment names a proxy."""
    address = urlsplit(base_url)
    host = address.hostname or ""
    port = address.port or (443 if address.scheme == "https" else 80)
    if address.scheme in getproxies():
        yield ok("connection", "through the proxy of the environment", about)
        return
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        said = f"DNS does not resolve {host}: {error.strerror or error}"
        fix = f"correct base_url; if it is right, correct DNS: getent hosts {host}"
        yield fail("dns", said, fix, about)
        return
    yield ok("dns", f"{host} is {found[0][4][0]}", about)
    yield await _connection(host, port, about)


async def _connection(host: str, port: int, about: str) -> Result:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        words = f"no answer in {CONNECT_SECONDS:g}s"
        if error.errno is not None:
            words = os.strerror(error.errno)  # asyncio's own text repeats the address
        said = f"{host}:{port} cannot be connected to: {words}"
        fix = "correct the port of base_url, or allow this connection in the firewall"
        return fail("connection", said, fix, about)
    writer.close()
    return ok("connection", f"{host}:{port} accepts connections", about)


def explain_silence(base_url: str, error: Exception, about: str) -> Result:
    """Return why a server does not answer although it accepts connections."""
    words = str(error)
    if "CERTIFICATE" in words:
        return fail(
            "tls",
            f"{base_url}: its certificate is not trusted: {words}",
            "use the name in the certificate; for a private certificate authority, set"
            " SSL_CERT_FILE to its file",
            about,
        )
    if "WRONG_VERSION_NUMBER" in words:
        said = f"{base_url}: the server does not speak TLS (HTTPS) at this port"
        fix = (
            "correct the port of base_url, or set up HTTPS on the server; write"
            " http:// if the server has no HTTPS"
        )
        return fail("tls", said, fix, about)
    if "SSL" in words:
        fix = "correct base_url; check that the server speaks HTTPS at that port"
        return fail("tls", f"{base_url}: {words}", fix, about)
    fix = "correct base_url; if it is right, the platform is down: try again later"
    return fail("platform", f"{base_url} does not answer: {words}", fix, about)


NEEDED = {
    "/orders": "orders:read",
    "/products": "products:read",
    "/inventory": "inventory:read",
}
"""The scopes Backhaul needs; a list that the platform lacks needs no scope."""
USEFUL = {"/customers": "customers:read", "/store": "store:read"}
SKEW_SECONDS = 30.0
WRONG_SECONDS = 300.0
DASHBOARD = "under Settings > API & Webhooks of the platform"


async def check(
    settings: Settings,
    name: str,
    transport: Transport,
    client: PlatformClient,
    clock: Clock,
) -> AsyncIterator[Result]:
    """Check from the network to the scopes; stop where a failure hides the rest."""
    base_url = settings.stores[name].base_url
    is_unreachable = False
    async for found in check_network(base_url, name):
        yield found
        is_unreachable = is_unreachable or bool(found.fix)
    if is_unreachable:
        return
    try:
        answers = {path: await _get(transport, path) for path in (*NEEDED, *USEFUL)}
    except (NotSent, OutcomeUnknown) as error:
        yield explain_silence(base_url, error, name)
        return
    first = answers["/orders"]
    yield _skew(first, clock, name)
    problem = _not_the_platform(base_url, answers, name) or _refused(
        settings, answers, name
    )
    if problem is not None:
        yield problem
        return
    yield ok("api key", "is accepted", name)
    for path, answer in answers.items():
        yield _scope(path, answer, name)
    if (pause := transport.pause()) is not None:
        yield _paused(pause, name)
        return
    async for found in _facts(settings, name, client, first):
        yield found


async def _get(transport: Transport, path: str) -> Response:
    return await transport.probe(path, {} if path == "/store" else {"limit": 1})


def _skew(answer: Response, clock: Clock, name: str) -> Result:
    """Compare this machine's clock with the Date header, which has whole seconds."""
    try:
        theirs = parsedate_to_datetime(answer.headers.get("date", ""))
    except ValueError:
        return ok("clock", "the platform sends no Date header", name)
    ahead = (clock.now() - theirs).total_seconds()
    said = f"this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'}"
    said += " the platform"
    fix = "set the time by NTP: timedatectl set-ntp true"
    if abs(ahead) > WRONG_SECONDS:
        return fail("clock", said, fix, name)
    if abs(ahead) > SKEW_SECONDS:
        return warn("clock", said, fix, name)
    return ok("clock", "agrees with the platform's", name)


def _not_the_platform(
    base_url: str, answers: dict[str, Response], name: str
) -> Result | None:
    """Return a failure if the server does not answer like the platform."""
    seen = [answers[path] for path in NEEDED]
    if any(a.ok or (a.problem() and a.status != 404) for a in seen):
        return None
    said = f"{base_url}/api/v1/orders answered {seen[0].status}, unlike the platform"
    fix = "correct base_url: it is the platform's address without /api/v1"
    return fail("platform", said, fix, name)


def _refused(
    settings: Settings, answers: dict[str, Response], name: str
) -> Result | None:
    for answer in answers.values():
        if answer.status == 401:
            said = f"the platform refuses the key ({answer.said()})"
            key = f"give it as stores.{name}.api_key"
            if (file := settings.key_files.get(name)) is not None:
                key = f"write it into {file}"
            fix = f"create a key {DASHBOARD}, and {key}"
            return fail("api key", said, fix, name)
    return None


def _scope(path: str, answer: Response, name: str) -> Result:
    scope = (NEEDED | USEFUL)[path]
    if answer.ok:
        return ok("scope", f"{scope}: GET {path} works", name)
    if answer.status in {404, 405, 501}:
        return ok("scope", f"{scope}: this platform has no {path}", name)
    said = f"{scope}: the platform answered GET {path} with {answer.said()}"
    if answer.status != 403:
        return warn("scope", said, "try again later: backhaul doctor", name)
    say = fail if path in NEEDED else warn
    return say("scope", said, f"give the key {scope} {DASHBOARD}", name)


def _paused(pause: Pause, name: str) -> Result:
    """Say why nothing more is asked: doctor would wait until the pause is over."""
    said = (
        f"asks for a pause until {pause.until}, nothing more is asked: {pause.reason}"
    )
    fix = "wait until then, and run backhaul doctor again"
    return warn("platform", said, fix, name)


async def _facts(
    settings: Settings, name: str, client: PlatformClient, answer: Response
) -> AsyncIterator[Result]:
    try:
        facts = await client.facts()
    except (NotSent, OutcomeUnknown, Unusable) as error:
        fix = "try again later: backhaul doctor"
        yield warn("platform", f"does not describe itself: {error}", fix, name)
        return
    yield ok("platform", "; ".join(_advertised(facts, answer)), name)
    yield await _same(settings, name, facts)


def _advertised(facts: StoreFacts, answer: Response) -> Iterator[str]:
    yield f"advertises {', '.join(facts.features) or 'no features'}"
    yield f"limit: {policy_in_words(answer.headers.get('ratelimit-policy') or '')}"
    if facts.currency:
        yield f"currency {facts.currency}"


async def _same(settings: Settings, name: str, facts: StoreFacts) -> Result:
    """Check that the API key belongs to the mirrored store."""
    known, opened = None, database_at(settings.place)
    mirror = settings.database_name
    if opened.exists():
        # Another check reports a database that cannot be read.
        with suppress(ReadFailed), opened.readable() as store:
            known = await known_facts(name, store.mirror)
    try:
        require_same(name, settings.stores[name].base_url, known, facts, mirror)
    except OtherStore as error:
        said, _, fix = str(error).partition("; nothing is")
        return fail("store", said, f"set the previous key; nothing is{fix}", name)
    return ok(
        "store",
        "is the mirrored store" if known else "is new: nothing is mirrored yet",
        name,
    )
