"""The first reading of a store: whole, once, and through the inbox."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from backhaul.reconcile.backfill import LISTS, Backfill

from backhaul.core.clock import to_text
from support import payloads
from support.databases import fold_all, locked, rows
from support.push_scene import Answer, killed
from support.push_server import Connection, Request, document, message, problem
from support.waiting import until

if TYPE_CHECKING:
    from reconcile.conftest import Place

MARK = "backfill:main"


def backfill(place: Place, arrived: list[None] | None = None) -> Backfill:
    told: list[None] = [] if arrived is None else arrived
    return Backfill(
        "main",
        place.client,
        place.store.inbox,
        place.store.marks,
        place.clock,
        lambda: 0.5,
        lambda: told.append(None),
    )


class Paged:
    """A list of orders in pages of two."""

    def __init__(self, orders: list[dict[str, Any]]) -> None:
        self.orders = orders

    async def __call__(self, request: Request, connection: Connection) -> None:
        start = 2 * (int(parse_qs(request.query)["page"][0]) - 1)
        await connection.send(document({"data": self.orders[start : start + 2]}))


ORDERS = [payloads.order(f"ord_{n}", number=n) for n in range(1, 6)]
LEVEL = {"productId": "prod_1", "variantId": "var_1", "stock": 7}


def stocked(place: Place) -> None:
    place.platform.says("/orders", Paged(ORDERS))
    place.platform.says(
        "/products", document({"data": [payloads.product()]}), document({"data": []})
    )
    level = LEVEL | {"updatedAt": payloads.instant(3)}
    place.platform.says("/inventory", document([level]), document([]))


def read(place: Place) -> list[tuple[str, str]]:
    found = rows(place.store.path, "SELECT kind, topic, body FROM inbox ORDER BY id")
    assert {row[0] for row in found} <= {"read"}
    return [(topic, json.loads(body).get("id", "")) for _, topic, body in found]


async def test_everything_is_read_and_folded(place: Place) -> None:
    stocked(place)
    arrived: list[None] = []
    await backfill(place, arrived).run()
    orders = [("orders/read", f"ord_{n}") for n in range(1, 6)]
    rest = [("products/read", "prod_1"), ("inventory/read", "")]
    assert read(place) == rest + orders
    assert len(arrived) == 5
    assert await fold_all(place.store) == []
    mirrored = rows(place.store.path, "SELECT id FROM orders ORDER BY id")
    assert [row[0] for row in mirrored] == [f"ord_{n}" for n in range(1, 6)]
    assert rows(place.store.path, "SELECT stock FROM inventory_levels") == [(7,)]


async def test_done_is_done(place: Place) -> None:
    stocked(place)
    await backfill(place).run()
    requests = len(place.server.requests)
    await backfill(place).run()
    assert len(place.server.requests) == requests
    assert await place.store.marks.get(MARK) is not None


async def test_mark_is_when_the_reading_began(place: Place) -> None:
    began = to_text(place.clock.now())
    place.platform.says("/orders", message(500), document([]))
    await backfill(place).run()
    assert await place.store.marks.get(MARK) == began < to_text(place.clock.now())


async def never(_: Request, connection: Connection) -> None:
    await connection.reader.read()


async def test_reading_that_was_broken_off_begins_again(place: Place) -> None:
    """The last list hangs: no mark is left, and the next start reads all."""
    stocked(place)
    hangs = asyncio.Event()

    async def hang(request: Request, connection: Connection) -> None:
        hangs.set()
        await never(request, connection)

    place.platform.says("/orders", hang)
    running = asyncio.ensure_future(backfill(place).run())
    await hangs.wait()
    await killed(running)
    assert await place.store.marks.get(MARK) is None
    assert ("products/read", "prod_1") in read(place)
    stocked(place)
    await backfill(place).run()
    assert await place.store.marks.get(MARK) is not None
    assert [id_ for topic, id_ in read(place) if topic == "orders/read"] == [
        f"ord_{n}" for n in range(1, 6)
    ]


async def cut(_: Request, connection: Connection) -> None:
    connection.reset()


FAILURES: dict[str, Answer] = {
    "500": message(500, b"{}"),
    "503": message(503),
    "401": problem(401, "API_KEY_INVALID"),
    "429": message(429),
    "html": message(200, b"<html>", "text/html"),
    "empty": message(200),
    "no-list": document({"data": {}}),
    "reset": cut,
}


@pytest.mark.parametrize("name", FAILURES)
async def test_failing_read_is_tried_until_it_works(name: str, place: Place) -> None:
    stocked(place)
    failure = FAILURES[name]
    page = document({"data": [ORDERS[0]]})
    answers: list[Answer] = [*[failure] * 9, page, document([])]
    place.platform.says("/orders", *answers)
    await backfill(place).run()
    assert ("orders/read", "ord_1") in read(place)
    assert max(place.clock.slept) <= 60


async def test_failure_on_a_later_page_reads_the_list_again(place: Place) -> None:
    first, second = document({"data": ORDERS[:2]}), document({"data": ORDERS[2:4]})
    pages = [first, message(500), first, second, document([])]
    place.platform.says("/orders", *pages)
    await backfill(place).run()
    ids = [id_ for topic, id_ in read(place) if topic == "orders/read"]
    assert ids == ["ord_1", "ord_2", "ord_1", "ord_2", "ord_3", "ord_4"]
    assert await fold_all(place.store) == []
    assert rows(place.store.path, "SELECT count(*) FROM orders") == [(4,)]


@pytest.mark.parametrize("status", [403, 404, 405])
async def test_list_that_may_not_be_read_is_skipped(status: int, place: Place) -> None:
    stocked(place)
    place.platform.says("/inventory", problem(status, "NO"))
    await backfill(place).run()
    topics = {topic for topic, _ in read(place)}
    assert topics == {"products/read", "orders/read"}
    assert await place.store.marks.get(MARK) is not None
    assert len(place.server.of("GET", "/inventory")) == 1


async def test_database_that_takes_no_writes_is_waited_for(place: Place) -> None:
    stocked(place)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def behave(_: Request, connection: Connection) -> None:
        asked.set()
        await answered.wait()
        await connection.send(document({"data": []}))

    page = document({"data": ORDERS[:2]})
    place.platform.says("/products", behave, document([]))
    place.platform.says("/orders", page, document([]))
    running = asyncio.ensure_future(backfill(place).run())
    await asked.wait()
    with locked(place.store.path):
        answered.set()
        await until(lambda: place.clock.slept, "a rest")
        assert rows(place.store.path, "SELECT * FROM marks") == []
    await running
    assert {id_ for topic, id_ in read(place) if topic == "orders/read"}


async def test_rows_keep_their_bytes(place: Place) -> None:
    row = b'{ "id":"ord_1",  "total":1.10 }'
    place.platform.says("/orders", message(200, b"[" + row + b"]"), document([]))
    await backfill(place).run()
    kept = rows(place.store.path, "SELECT body FROM inbox WHERE topic = 'orders/read'")
    assert kept == [(row,)]


def test_every_list_has_its_topic() -> None:
    assert set(LISTS) == {"/products", "/inventory", "/orders"}
