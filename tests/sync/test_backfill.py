"""A backfill reads a store completely, once, and continues where it stopped."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from scenes import payloads
from scenes.databases import locked
from scenes.scripted_platform import Connection, Request, document, message, problem
from scenes.stored import arrivals, bodies, count, passes, rows_of, values_of
from scenes.waiting import until
from sync.conftest import reconciling

if TYPE_CHECKING:
    from scenes.pushing import Answer
    from sync.conftest import Place


async def backfill(place: Place) -> None:
    async with reconciling(place) as reconciler:
        await reconciler.backfill()


class Paged:
    """A list in pages of two; it does not answer after `pages_left` pages."""

    def __init__(self, listed: list[dict[str, Any]]) -> None:
        self.listed = listed
        self.asked: list[int] = []
        self.pages_left = 1_000
        self.stuck = asyncio.Event()

    async def __call__(self, request: Request, connection: Connection) -> None:
        number = int(parse_qs(request.query)["page"][0])
        if self.pages_left == 0:
            self.stuck.set()
            await connection.reader.read()
            return
        self.pages_left -= 1
        self.asked.append(number)
        start = 2 * (number - 1)
        await connection.send(document({"data": self.listed[start : start + 2]}))


ORDERS = [payloads.order(f"ord_{n}", number=n) for n in range(1, 12)]
LEVEL = {"productId": "prod_1", "variantId": "var_1", "stock": 7}


def stocked(place: Place) -> Paged:
    orders = Paged(ORDERS)
    place.platform.respond("/orders", orders)
    product = document({"data": [payloads.product()]})
    place.platform.respond("/products", Paged([payloads.product()]))
    level = LEVEL | {"updatedAt": payloads.instant(3)}
    place.platform.respond("/inventory", Paged([level]))
    place.platform.respond("/customers", Paged([payloads.customer()]))
    assert product
    return orders


def appended(place: Place) -> list[tuple[str, str]]:
    found = arrivals(place.store.place)
    return sorted((one.topic, json.loads(one.body).get("id", "")) for one in found)


ALL = sorted(
    [
        *[("orders/read", order["id"]) for order in ORDERS],
        *[("products/read", "prod_1"), ("inventory/read", "")],
        ("customers/read", "cus_1"),
    ]
)


async def test_everything_is_read_and_folded(place: Place) -> None:
    stocked(place)
    await backfill(place)
    assert appended(place) == ALL
    assert count(place.store.place, "orders") == len(ORDERS)
    assert values_of(place.store.place, "inventory_levels", "stock") == [7]
    assert values_of(place.store.place, "customers", "id") == ["cus_1"]


async def test_done_is_done(place: Place) -> None:
    stocked(place)
    await backfill(place)
    requests = len(place.server.requests)
    await backfill(place)
    assert len(place.server.requests) == requests


async def test_objects_that_an_older_version_read_are_not_read_again(
    place: Place,
) -> None:
    stocked(place)
    await place.store.kv.put("backfill:main", payloads.instant(0))
    await backfill(place)
    assert place.server.requests == []


async def test_objects_in_the_mirror_are_not_imported_again(place: Place) -> None:
    stocked(place)
    async with reconciling(place) as reconciler:
        await reconciler.read_lists("backfill", ["orders", "products"])
        before = appended(place)
        await reconciler.read_lists("backfill", ["orders", "products"])
    assert appended(place) == before


def read(place: Place, kind: str) -> list[int]:
    """Return the number of rows that each pass over a list read."""
    return [one.read for one in passes(place.store.place) if one.kind == kind]


@pytest.mark.parametrize("pages", range(7))
async def test_reading_that_was_broken_off_goes_on_there(
    pages: int, place: Place
) -> None:
    orders = stocked(place)
    orders.pages_left = pages
    running = asyncio.ensure_future(backfill(place))
    await orders.stuck.wait()
    shown = len(ORDERS[: 2 * pages])
    await until(lambda: read(place, "orders") == [shown], "the progress")
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    asked = len(orders.asked)
    orders.pages_left = 1_000
    await backfill(place)
    assert orders.asked[asked:] == list(range(max(pages, 1), 8))
    assert appended(place) == ALL


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
    page = document({"data": [ORDERS[0]]})
    answers: list[Answer] = [*[FAILURES[name]] * 9, page, document([])]
    place.platform.respond("/orders", *answers)
    await backfill(place)
    assert ("orders/read", "ord_1") in appended(place)
    assert max(place.clock.slept) <= 60


async def test_failure_on_a_later_page_reads_no_row_in_twice(place: Place) -> None:
    first, second = document({"data": ORDERS[:2]}), document({"data": ORDERS[2:4]})
    place.platform.respond(
        "/orders", first, message(500), message(500), first, second, document([])
    )
    await backfill(place)
    ids = [id_ for topic, id_ in appended(place) if topic == "orders/read"]
    assert ids == ["ord_1", "ord_2", "ord_3", "ord_4"]


@pytest.mark.parametrize("status", [403, 404, 405])
async def test_list_that_may_not_be_read_is_skipped(status: int, place: Place) -> None:
    stocked(place)
    place.platform.respond("/customers", problem(status, "NO"))
    await backfill(place)
    assert appended(place) == [row for row in ALL if row[0] != "customers/read"]
    (ended,) = [one for one in passes(place.store.place) if one.kind == "customers"]
    assert str(status) in ended.note


async def test_levels_come_from_products_where_there_is_no_list(place: Place) -> None:
    stocked(place)
    place.platform.respond("/inventory", problem(404, "NOT_FOUND"))
    await backfill(place)
    assert values_of(place.store.place, "inventory_levels", "stock") == [12]


async def test_a_database_that_accepts_no_writes_is_waited_for(place: Place) -> None:
    orders = stocked(place)
    orders.pages_left = 2
    running = asyncio.ensure_future(backfill(place))
    await orders.stuck.wait()
    with locked(place.store.place):
        orders.pages_left = 1_000
        place.server.hang_up()
        await until(lambda: place.clock.slept, "a rest")
    await running
    assert appended(place) == ALL


async def test_rows_keep_their_bytes_even_where_they_mean_nothing(place: Place) -> None:
    row = b'{ "id":"ord_1",  "total":1.10 }'
    place.platform.respond("/orders", message(200, b"[" + row + b"]"), document([]))
    await backfill(place)
    kept = rows_of(place.store.place, "events", "body", "state")
    assert kept == [(row, "quarantined")]
    async with reconciling(place) as reconciler:
        place.platform.respond("/orders", message(200, b"[" + row + b"]"), document([]))
        await reconciler.read_lists("backfill", ["orders"])
        place.platform.respond("/orders", message(200, b"[" + row + b"]"), document([]))
        await reconciler.read_lists("backfill", ["orders"])
    assert len(bodies(place.store.place)) == 2


STRANGE: dict[str, payloads.Document] = {
    "unknown": {"total": 1},
    "no-order": {"id": "ord_none", "updatedAt": payloads.instant(5)},
}


@pytest.mark.parametrize("name", STRANGE)
async def test_a_row_that_cannot_be_imported_is_not_called_equal(
    name: str, place: Place
) -> None:
    place.platform.respond("/orders", Paged([*ORDERS, STRANGE[name]]))
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.read_lists("full", ["orders"])
    assert (ended.missed, ended.unrepaired) == (len(ORDERS) + 1, 1)


@pytest.mark.parametrize("name", STRANGE)
async def test_a_row_that_cannot_be_imported_is_recorded_once(
    name: str, place: Place
) -> None:
    place.platform.respond("/orders", Paged([STRANGE[name]]))
    async with reconciling(place) as reconciler:
        for _ in range(3):
            (ended,) = await reconciler.read_lists("full", ["orders"])
            assert ended.unrepaired == 1
        assert ended.missed == 0
        await reconciler.poll(["orders"])
    assert len(bodies(place.store.place)) == 1


async def test_a_row_without_an_id_does_not_keep_a_full_sync_going(
    place: Place,
) -> None:
    """A platform that ignores the page number shows the row endlessly."""
    place.platform.respond("/orders", document([STRANGE["unknown"]]))
    async with reconciling(place) as reconciler, asyncio.timeout(10):
        (ended,) = await reconciler.read_lists("full", ["orders"])
    assert ended.unrepaired == 1


async def test_orders_shifted_by_a_new_one_are_not_requested_one_by_one(
    place: Place,
) -> None:
    """A new order shifts the others, after the pass read the first page."""
    orders = Paged(ORDERS)
    new = payloads.order("ord_new", number=99)
    body = payloads.envelope("orders/create", new)

    async def come_in(request: Request, connection: Connection) -> None:
        if orders.asked == [1]:
            orders.listed = [new, *ORDERS]
            await place.store.inbox.append(payloads.arrival(body))
        await orders(request, connection)

    place.platform.respond("/orders", come_in)
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.read_lists("full", ["orders"])
    assert (ended.deleted, ended.foreign, ended.unrepaired) == (0, 0, 0)
    asked = {request.path for request in place.server.requests}
    assert asked == {"/orders"}
