"""Reads of a store: pages in every reading of the contract, facts, and its door."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import pytest

from backhaul.errors import Unusable
from backhaul.shop.client import PAGE_ROWS, ReadRefused, ShopClient, StoreFacts
from backhaul.shop.transport import InDoubt, NotSent, Transport
from support.push_server import (
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
Rows: TypeAlias = list[dict[str, Any]]

ROWS: Rows = [{"id": f"ord_{number}"} for number in range(230)]


class Listing:
    """A list on the platform, in the readings that the contract leaves open."""

    def __init__(
        self,
        rows: Rows,
        *,
        wrapped: bool = True,
        most: int = 100,
        ignores_page: bool = False,
    ) -> None:
        self.rows = rows
        self.wrapped = wrapped
        self.most = most
        self.ignores_page = ignores_page

    async def __call__(self, request: Request, connection: Connection) -> None:
        query = parse_qs(request.query)
        limit = min(int(query["limit"][0]), self.most)
        start = 0 if self.ignores_page else (int(query["page"][0]) - 1) * limit
        page = self.rows[start : start + limit]
        await connection.send(document({"data": page} if self.wrapped else page))


async def walked(url: str, connect: Connect) -> list[bytes]:
    client = ShopClient(connect(url))
    return [row async for page in client.pages("/orders") for row in page]


READINGS = {
    "wrapped": (Listing(ROWS), 4),
    "bare": (Listing(ROWS, wrapped=False), 4),
    "clamped": (Listing(ROWS, most=20), 13),
    "clamped-bare": (Listing(ROWS, most=50, wrapped=False), 6),
    "a-full-last-page": (Listing(ROWS[:200]), 3),
    "empty": (Listing([]), 1),
    "empty-bare": (Listing([], wrapped=False), 1),
    "one": (Listing(ROWS[:1]), 2),
}


@pytest.mark.parametrize("name", READINGS)
async def test_every_row_is_read_once(name: str, connect: Connect) -> None:
    listing, requests = READINGS[name]
    async with serving(listing) as server:
        found = await walked(server.url, connect)
        assert [json.loads(row) for row in found] == listing.rows
        assert len(server.requests) == requests


@pytest.mark.parametrize("wrapped", [True, False], ids=["wrapped", "bare"])
async def test_platform_that_ignores_the_page_is_left(
    wrapped: bool, connect: Connect
) -> None:
    listing = Listing(ROWS[:30], wrapped=wrapped, ignores_page=True)
    async with serving(listing) as server:
        found = await walked(server.url, connect)
        assert [json.loads(row) for row in found] == listing.rows
        assert len(server.requests) == 2


async def test_row_that_moved_to_the_next_page_is_read_once(connect: Connect) -> None:
    pages = [ROWS[:100], ROWS[99:199], ROWS[199:], []]
    answers = [document({"data": page}) for page in pages]
    async with serving(saying(*answers)) as server:
        found = await walked(server.url, connect)
    assert [json.loads(row) for row in found] == ROWS


async def test_rows_keep_their_exact_bytes(connect: Connect) -> None:
    row = b'{ "total" : 1499.00,\n "b":1, "a":"\xc3\xbc" }'
    body = b'{"meta":{},"data":[ ' + row + b" ]}"
    async with serving(saying(message(200, body), document([]))) as server:
        assert await walked(server.url, connect) == [row]


async def test_pages_are_asked_for_at_the_largest_size(connect: Connect) -> None:
    async with serving(saying(document([]))) as server:
        await walked(server.url, connect)
        assert server.requests[0].query == f"page=1&limit={PAGE_ROWS}"


NO_LISTS = [
    *[b"<html>", b"", b"null", b'"x"', b"[1,", b"{}"],
    *[b'{"data":{}}', b'{"rows":[]}'],
]


@pytest.mark.parametrize("body", NO_LISTS, ids=repr)
async def test_answer_without_a_list_is_unusable(body: bytes, connect: Connect) -> None:
    async with serving(saying(message(200, body))) as server:
        with pytest.raises(Unusable):
            await walked(server.url, connect)


async def test_refused_page_says_so(connect: Connect) -> None:
    async with serving(saying(problem(403, "INSUFFICIENT_SCOPE"))) as server:
        with pytest.raises(ReadRefused, match="403 INSUFFICIENT_SCOPE: no") as refusal:
            await walked(server.url, connect)
    assert refusal.value.status == 403


STORE = {"id": "sto_1", "currency": "INR"}
FACTS = [
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
        assert await ShopClient(connect(server.url)).facts() == facts


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_failing_platform_does_not_say_that_there_are_no_facts(
    status: int, connect: Connect
) -> None:
    """Empty facts would forget the currency, and so misread every price."""
    async with serving(saying(message(status))) as server:
        with pytest.raises(ReadRefused):
            await ShopClient(connect(server.url)).facts()


async def test_read_returns_the_object(connect: Connect) -> None:
    async with serving(saying(document({"data": {"id": "ord_1"}}))) as server:
        client = ShopClient(connect(server.url))
        assert await client.read("/orders/ord_1") == {"id": "ord_1"}
        assert server.requests[0].path == "/orders/ord_1"


async def only(path: str, request: Request, connection: Connection) -> None:
    good = request.path == path
    await connection.send(document([]) if good else problem(403, "INSUFFICIENT_SCOPE"))


@pytest.mark.parametrize("path", ["/orders", "/products", "/inventory"])
async def test_door_is_open_if_a_list_can_be_read(path: str, connect: Connect) -> None:
    async def behave(request: Request, connection: Connection) -> None:
        await only(path, request, connection)

    async with serving(behave) as server:
        assert await ShopClient(connect(server.url)).opens()


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
async def test_door_is_shut_unless_a_list_comes(name: str, connect: Connect) -> None:
    async with serving(saying(SHUT[name])) as server:
        assert not await ShopClient(connect(server.url)).opens()
        assert {request.method for request in server.requests} == {"GET"}


async def test_door_of_an_absent_platform_is_shut(connect: Connect) -> None:
    assert not await ShopClient(connect(unused_url())).opens()


async def test_absent_platform_is_not_hidden(connect: Connect) -> None:
    with pytest.raises((NotSent, InDoubt)):
        await ShopClient(connect(unused_url())).read("/orders/ord_1")
