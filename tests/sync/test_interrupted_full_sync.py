"""An interrupted full sync continues and remembers the differences that it found."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest

from backhaul.errors import Unusable
from backhaul.sync import full_sync
from backhaul.sync.list_pass import ListPage
from scenes import payloads
from scenes.pushing import cancel_task
from scenes.scripted_platform import document, message
from scenes.stored import count
from sync.conftest import reconciling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store.mirror import Pass
    from scenes.scripted_platform import Connection, Request
    from sync.conftest import Place

UNREADABLE: dict[str, payloads.Document] = {
    "cannot be folded": {"id": "ord_bad", "updatedAt": "2026-03-01T10:00:00Z"},
    "has no id": {"number": 7},
}
PAGES = 14
FAILING = 10
LATE = (2, 6)
"""Pages that are slow, so that all rows before them are repaired."""


@dataclass(slots=True)
class Orders:
    """A list with one order a page; page `FAILING` answers 500 `failures` times."""

    place: Place
    bad: payloads.Document
    failures: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: Request, connection: Connection) -> None:
        number = int(parse_qs(request.query)["page"][0])
        if number in LATE:
            await self.place.clock.sleep(30)
        if number == FAILING and self.failures:
            self.failures -= 1
            self.reached.set()
            await connection.send(message(500))
            return
        row = self.bad
        if number > 1:
            row = payloads.order(f"ord_{number}", customer=None)
        more = {"total": PAGES, "hasMore": number < PAGES}
        shown = [row] if number <= PAGES else []
        await connection.send(document({"data": shown, "meta": more}))


def show(place: Place, why: str) -> Orders:
    bad = UNREADABLE[why]
    orders = Orders(place, bad)
    place.platform.respond("/orders", orders)
    place.platform.respond("/orders/ord_bad", document({"data": bad}))
    return orders


async def run_pass(place: Place) -> Pass:
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.read_lists("full", ["orders"])
    return ended


def first_pages(place: Place) -> int:
    """Return how often the page with the row was requested."""
    pages = [parse_qs(r.query).get("page") for r in place.server.of("GET", "/orders")]
    return pages.count(["1"])


def quarantined(place: Place) -> int:
    return count(place.store.place, "events", state="quarantined")


@pytest.mark.parametrize("failures", [0, 1, 3])
@pytest.mark.parametrize("why", UNREADABLE)
async def test_a_page_that_fails_does_not_hide_unrepaired_rows(
    why: str, failures: int, place: Place
) -> None:
    show(place, why).failures = failures
    ended = await run_pass(place)
    assert (ended.note, ended.unrepaired) == ("", 1)
    # Rows within their grace are read again after a failed page. How often depends
    # on when the progress was saved; never more often than the list was read.
    assert 1 <= quarantined(place) <= (first_pages(place) if failures else 1)


@pytest.mark.parametrize("why", UNREADABLE)
async def test_neither_does_the_end_of_the_program(why: str, place: Place) -> None:
    orders = show(place, why)
    orders.failures = 1_000_000
    async with reconciling(place) as reconciler:

        async def run() -> None:
            await reconciler.read_lists("full", ["orders"])

        reading = asyncio.ensure_future(run())
        await orders.reached.wait()
        await cancel_task(reading)
    orders.failures = 0
    ended = await run_pass(place)
    assert (ended.note, ended.unrepaired) == ("", 1)


async def test_a_full_sync_counts_a_quarantined_row_as_unrepaired(
    place: Place,
) -> None:
    show(place, "cannot be folded")
    async with reconciling(place) as reconciler:
        for _ in range(2):
            (ended,) = await reconciler.read_lists("full", ["orders"])
            assert ended.unrepaired == 1
    assert quarantined(place) == 1


async def test_nothing_is_kept_of_a_full_sync_that_has_ended(place: Place) -> None:
    show(place, "cannot be folded")
    ended = await run_pass(place)
    assert await place.store.mirror.repairs(ended.id, 0) == []


async def test_more_rows_than_a_query_allows_are_looked_up(place: Place) -> None:
    await place.store.inbox.append(
        payloads.read("orders/read", payloads.order("ord_1", customer=None))
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        most = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
    ids = [f"absent_{n}" for n in range(most + 1)] + ["ord_1"]
    async with reconciling(place) as reconciler:
        await reconciler.repair.caught_up()
        held = await place.store.mirror.versions("order", "main", ids)
    assert list(held) == ["ord_1"]


class FailingPass:
    """A pass that fails when a test sets `now`."""

    def __init__(self) -> None:
        self.now = asyncio.Event()

    async def pages(self) -> AsyncIterator[ListPage]:
        await self.now.wait()
        for page in list[ListPage]():
            yield page
        raise Unusable("the platform's response contains no list")


async def test_a_stop_at_the_moment_of_a_failure_is_heard(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_pass = FailingPass()
    monkeypatch.setattr(full_sync, "ListPass", lambda *_: run_pass)
    async with reconciling(place) as reconciler:
        reading = asyncio.ensure_future(reconciler.read_lists("full", ["products"]))
        for _ in range(100):
            await asyncio.sleep(0.001)
        run_pass.now.set()
        reading.cancel()
        await asyncio.wait([reading], timeout=5)
        assert reading.cancelled()
