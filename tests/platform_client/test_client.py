"""Reads of a store: pages for every platform behavior, store facts, and the probe."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

import pytest

from backhaul.core.rate_limit import Priority
from backhaul.errors import Unusable
from backhaul.platform.client import PAGE_ROWS, PlatformClient, ReadRefused, StoreFacts
from backhaul.platform.responses import Listing
from backhaul.platform.transport import NotSent, OutcomeUnknown, Transport
from scenes.scripted_platform import (
    Connection,
    Request,
    document,
    message,
    problem,
    saying,
    serving,
    unused_url,
)

Connect: TypeAlias = Callable[[str], Transport]

ROW = b'{ "total" : 1499.00,\n "b":1, "a":"\xc3\xbc" }'
META = b'{"page":2,"limit":100,"total":137,"totalPages":2,"hasMore":false}'
PAGES = {
    "wrapped": (b'{"data":[ ' + ROW + b" ]}", Listing((ROW,))),
    "bare": (b" [" + ROW + b"]", Listing((ROW,))),
    "empty": (b'{"data":[]}', Listing(())),
    "empty-bare": (b"[]", Listing(())),
    "meta": (b'{"meta":' + META + b',"data":[]}', Listing((), 137, False)),
    "no-meta": (b'{"meta":null,"data":[]}', Listing(())),
    "meta-list": (b'{"meta":[7],"data":[]}', Listing(())),
    "meta-text": (b'{"data":[],"meta":"x"}', Listing(())),
    "meta-number": (b'{"data":[],"meta":7}', Listing(())),
    "total-text": (
        b'{"meta":{"page":"2","total":"12","hasMore":true},"data":[]}',
        Listing((), has_more=True),
    ),
    "more-text": (
        b'{"meta":{"page":[],"total":12,"hasMore":"true"},"data":[]}',
        Listing((), 12),
    ),
    "total-unknown": (b'{"meta":{"total":-1,"hasMore":0},"data":[]}', Listing(())),
    "half-an-emoji": (
        rb'{"data":[{"id":1}, {"note":"tea \ud83d"},' + ROW + b"]}",
        Listing((b'{"id":1}', rb'{"note":"tea \ufffd"}', ROW)),
    ),
    "half-an-emoji-bare": (rb'["\ude00", 2]', Listing((rb'"\ufffd"', b"2"))),
}


async def page(url: str, connect: Connect) -> Listing:
    client = PlatformClient(connect(url))
    return await client.page("/orders", 2, Priority.SWEEP, {"updatedSince": "T"})


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_read_with_the_exact_bytes_of_its_rows(
    name: str, connect: Connect
) -> None:
    body, listing = PAGES[name]
    async with serving(saying(message(200, body))) as server:
        assert await page(server.url, connect) == listing
        assert server.requests[0].query == f"page=2&limit={PAGE_ROWS}&updatedSince=T"


async def test_the_platform_s_clock_is_read(connect: Connect) -> None:
    answer = message(200, b"[]", Date="Sun, 01 Mar 2026 12:00:07 GMT")
    async with serving(saying(answer)) as server:
        dated = (await page(server.url, connect)).dated
    assert dated == datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC)


NO_LISTS = [
    *[b"<html>", b"", b"null", b'"x"', b"[1,", b"{}", b"\xff"],
    *[b'{"data":{}}', b'{"rows":[]}', b'{"data":7,"meta":{}}'],
    *[b'{"data":[],"meta":{]}', rb'{"data":"\ud83d"}', rb'[ "\ud83d"'],
]


@pytest.mark.parametrize("body", NO_LISTS, ids=repr)
async def test_answer_without_a_list_is_unusable(body: bytes, connect: Connect) -> None:
    async with serving(saying(message(200, body))) as server:
        with pytest.raises(Unusable):
            await page(server.url, connect)


async def test_a_refused_page_is_an_error(connect: Connect) -> None:
    async with serving(saying(problem(403, "INSUFFICIENT_SCOPE"))) as server:
        with pytest.raises(ReadRefused, match="403 INSUFFICIENT_SCOPE: no") as refusal:
            await page(server.url, connect)
    assert refusal.value.status == 403


STORE = {"id": "sto_1", "currency": "INR"}
ABLE = {**STORE, "features": ["updatedSince"]}
FACTS = [
    (document({"data": ABLE}), StoreFacts("sto_1", "INR", ("updatedSince",))),
    (document({"data": {**STORE, "features": 7}}), StoreFacts("sto_1", "INR")),
    (document({"data": STORE}), StoreFacts("sto_1", "INR")),
    (document(STORE), StoreFacts("sto_1", "INR")),
    (document({"data": {"id": None}}), StoreFacts()),
    (problem(404, "NOT_FOUND"), StoreFacts()),
    (problem(403, "INSUFFICIENT_SCOPE"), StoreFacts()),
    (message(405), StoreFacts()),
]


@pytest.mark.parametrize(("answer", "facts"), FACTS, ids=range(len(FACTS)))
async def test_facts_of_the_store(
    answer: bytes, facts: StoreFacts, connect: Connect
) -> None:
    async with serving(saying(answer)) as server:
        assert await PlatformClient(connect(server.url)).facts() == facts


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_failing_platform_does_not_say_that_there_are_no_facts(
    status: int, connect: Connect
) -> None:
    """Empty facts would forget the currency, and so misread every price."""
    async with serving(saying(message(status))) as server:
        with pytest.raises(ReadRefused):
            await PlatformClient(connect(server.url)).facts()


async def test_read_returns_the_object(connect: Connect) -> None:
    async with serving(saying(document({"data": {"id": "ord_1"}}))) as server:
        client = PlatformClient(connect(server.url))
        assert await client.read("/orders/ord_1") == {"id": "ord_1"}
        assert server.requests[0].path == "/orders/ord_1"


async def only(path: str, request: Request, connection: Connection) -> None:
    good = request.path == path
    await connection.send(document([]) if good else problem(403, "INSUFFICIENT_SCOPE"))


@pytest.mark.parametrize("path", ["/orders", "/products", "/inventory"])
async def test_a_probe_succeeds_if_a_list_can_be_read(
    path: str, connect: Connect
) -> None:
    async def behave(request: Request, connection: Connection) -> None:
        await only(path, request, connection)

    async with serving(behave) as server:
        assert await PlatformClient(connect(server.url)).opens()


SHUT = {
    "401": problem(401, "API_KEY_INVALID"),
    "403": problem(403, "STORE_INACTIVE"),
    "404": problem(404, "NOT_FOUND"),
    "500": message(500, b"[]"),
    "503-list": message(503, b'{"data":[]}'),
    "html": message(200, b"<html>", "text/html"),
    "301": message(301, Location="/login"),
    "empty": message(200),
    "object": document({"data": {}}),
}


@pytest.mark.parametrize("name", SHUT)
async def test_a_probe_fails_unless_a_list_comes(name: str, connect: Connect) -> None:
    async with serving(saying(SHUT[name])) as server:
        assert not await PlatformClient(connect(server.url)).opens()
        assert {request.method for request in server.requests} == {"GET"}


async def test_a_probe_of_an_absent_platform_fails(connect: Connect) -> None:
    assert not await PlatformClient(connect(unused_url())).opens()


async def test_absent_platform_is_not_hidden(connect: Connect) -> None:
    with pytest.raises((NotSent, OutcomeUnknown)):
        await PlatformClient(connect(unused_url())).read("/orders/ord_1")


# A scope of one list may be missing; a platform that fails, or has no room, is one.
PROBES = {200: (True, 1), 403: (False, 3), 429: (False, 1), 503: (False, 1)}


@pytest.mark.parametrize("status", PROBES)
async def test_a_probe_sends_no_needless_request(status: int, connect: Connect) -> None:
    async with serving(saying(document([], status, Retry_After="60"))) as server:
        answered = await PlatformClient(connect(server.url)).probe()
        assert (answered, len(server.requests)) == PROBES[status]
