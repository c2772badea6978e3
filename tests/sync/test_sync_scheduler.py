"""The sync loops of one store: a failing list blocks no other list."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from loguru import logger

from backhaul.core.rate_limit import Priority
from backhaul.platform.transport import ResponseTooLong
from backhaul.sync.diff_repair import MirrorRepair
from backhaul.sync.full_sync import GivenUp
from scenes import payloads
from scenes.clock import PacedClock
from scenes.pushing import cancel_task
from scenes.scripted_platform import Connection, Request, document, message
from scenes.stored import count, passes, values_of
from scenes.waiting import until
from sync.conftest import opened, reconciling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from backhaul.store import Place as DatabasePlace
    from backhaul.sync.sync_scheduler import Reconciler
    from sync.conftest import Place

    Answer = Callable[[Request], bytes]


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[Reconciler]:
    async with reconciling(place) as reconciler:
        task = asyncio.ensure_future(reconciler.run())
        yield reconciler
        await cancel_task(task)


def ended(place: Place, job: str) -> set[str]:
    found = passes(place.store.place)
    return {one.kind for one in found if one.job == job and one.ended_at}


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """Collect the action of every warning in the log."""
    words: list[str] = []
    sink = logger.add(
        lambda line: words.append(line.record["extra"].get("action", "")),
        level="WARNING",
    )
    yield words
    logger.remove(sink)


OTHERS = {"products", "levels", "customers"}


async def fail(_: Request, connection: Connection) -> None:
    """Answer 500 after a short pause, because on this clock retries do not wait."""
    await asyncio.sleep(0.05)
    await connection.send(message(500))


async def test_a_list_that_always_fails_holds_up_no_other(place: Place) -> None:
    place.platform.respond("/orders", fail)
    guarded: list[None] = []

    async def guard() -> None:
        guarded.append(None)

    async with reconciling(place, guard) as reconciler:
        task = asyncio.ensure_future(reconciler.run())
        await until(lambda: ended(place, "backfill") == OTHERS, "the other lists")
        await until(lambda: guarded, "the guard")
        place.platform.respond("/products", document({"data": [payloads.product()]}))
        reconciler.request_poll()
        await until(lambda: count(place.store.place, "products"), "a poll")
        reconciler.request_full_sync()
        await until(lambda: ended(place, "full") == OTHERS, "the other full syncs")
        reconciler.request_full_sync()
        assert not reconciler.filled.is_set()
        await cancel_task(task)


LATE = 600.0
PACE = 10.0
"""The seconds on the clock for each request."""


@dataclass(frozen=True, slots=True)
class Paced:
    """A place whose clock advances with the requests for some lists."""

    place: Place
    clock: PacedClock

    def says(self, answer: Answer, path: str = "/orders") -> None:
        async def answered(request: Request, connection: Connection) -> None:
            if "Since" in request.query:
                # the number of polls during a pass depends on the machine
                await connection.send(document({"data": []}))
                return
            self.clock.pass_seconds(PACE)
            await connection.send(answer(request))

        self.place.platform.respond(path, answered)

    async def run_until_filled(self, reconciler: Reconciler) -> float:
        """Run until all lists are read, or for an hour; return the seconds."""
        task = asyncio.ensure_future(reconciler.run())
        ends = [
            asyncio.ensure_future(each)
            for each in (reconciler.filled.wait(), self.clock.await_seconds(3_600))
        ]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        took = self.clock.monotonic()
        for each in ends:
            each.cancel()
        await cancel_task(task)
        return took


@pytest.fixture
async def paced(database: DatabasePlace) -> AsyncIterator[Paced]:
    clock = PacedClock()
    async with opened(database, clock) as place:
        yield Paced(place, clock)


async def test_records_do_not_wait_for_ever_for_a_list_that_always_fails(
    paced: Paced, warnings: list[str]
) -> None:
    paced.says(lambda _: message(500))
    async with reconciling(paced.place) as reconciler:
        assert LATE <= await paced.run_until_filled(reconciler) < 2 * LATE
    assert warnings.count("reconcile.not_awaited") == 1
    # the list must still be read
    assert await paced.place.store.kv.get("backfill:main") is None


async def test_an_unreachable_platform_is_waited_for(paced: Paced) -> None:
    for path in ("/orders", "/products", "/customers", "/inventory"):
        paced.says(lambda _: message(503), path)
    async with reconciling(paced.place) as reconciler:
        await paced.run_until_filled(reconciler)
        assert not reconciler.filled.is_set()


async def test_a_list_of_which_new_pages_come_is_waited_for(paced: Paced) -> None:
    """Every third page fails for minutes, and succeeds in the end."""
    asked: Counter[int] = Counter()

    def orders(request: Request) -> bytes:
        number = int(parse_qs(request.query)["page"][0])
        asked[number] += 1
        if number % 3 == 0 and asked[number] < 15:
            return message(500)
        shown = [payloads.order(f"ord_{number}", customer=None)]
        return document({"data": shown, "meta": {"hasMore": number < 9}})

    paced.says(orders)
    async with reconciling(paced.place) as reconciler:
        assert await paced.run_until_filled(reconciler) > LATE
    assert count(paced.place.store.place, "orders") == 9


async def test_pages_before_one_that_fails_are_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page fails while the previous one is still compared."""
    failed = asyncio.Event()

    async def orders(request: Request, connection: Connection) -> None:
        if "page=2" in request.query:
            await connection.send(message(500))
            failed.set()
        else:
            shown = [payloads.order("ord_1", customer=None)]
            await connection.send(document({"data": shown, "meta": {"hasMore": True}}))

    compare = MirrorRepair.differing

    async def slow(*arguments: Any) -> Any:
        await failed.wait()
        await asyncio.sleep(0.05)
        return await compare(*arguments)

    monkeypatch.setattr(MirrorRepair, "differing", slow)
    place.platform.respond("/orders", orders)
    async with reconciling(place) as reconciler:
        with pytest.raises(GivenUp):
            await reconciler.read_lists("backfill", ["orders"], patience_seconds=0)
    assert values_of(place.store.place, "orders", "id") == ["ord_1"]


async def test_a_list_is_polled_once_it_was_read(place: Place) -> None:
    """Otherwise rows that were not read yet would count as missed changes."""
    seen = asyncio.Event()
    go_on = asyncio.Event()

    async def slow(_: Request, connection: Connection) -> None:
        seen.set()
        await go_on.wait()
        await connection.send(document({"data": []}))

    place.platform.respond("/orders", slow)
    async with running(place) as reconciler:
        await seen.wait()
        reconciler.request_poll()
        await until(lambda: ended(place, "backfill") == OTHERS, "the other lists")
        looked = [r for r in place.server.of("GET", "/orders") if "Since" in r.query]
        assert looked == []
        go_on.set()
        await until(reconciler.filled.is_set, "the end")


async def test_an_outage_is_logged_once_and_so_is_its_end(
    place: Place, warnings: list[str]
) -> None:
    async with reconciling(place) as reconciler:
        for path in ("/orders", "/products", "/customers", "/inventory/history"):
            place.platform.respond(path, message(500))
        for _ in range(5):
            await reconciler.poll()
        failures = warnings.count("reconcile.failed")
        # each list is logged once
        assert failures == 4
        place.platform.responses.clear()
        place.platform.respond("/inventory/history", document({"data": []}))
        place.platform.respond("/customers", document({"data": []}))
        for _ in range(2):
            await reconciler.poll()
    assert warnings.count("reconcile.failed") == failures
    assert warnings.count("reconcile.resumed") == 1


class Wide:
    """A list whose rows together exceed the size limit; row `widest` does so alone."""

    def __init__(self, count: int, widest: int = 30_000) -> None:
        note = "x" * widest
        numbers = range(count)
        self.listed = [payloads.order(f"o{n}", number=n, note=note) for n in numbers]
        self.limits: list[int] = []

    async def __call__(self, request: Request, connection: Connection) -> None:
        query = {name: int(value) for name, (value,) in parse_qs(request.query).items()}
        page, limit = query["page"], query["limit"]
        self.limits.append(limit)
        shown = self.listed[(page - 1) * limit : page * limit]
        more = {"total": len(self.listed), "hasMore": page * limit < len(self.listed)}
        await connection.send(document({"data": shown, "meta": more}))


def ids(listed: list[Any]) -> list[str]:
    return sorted(row["id"] for row in listed)


async def test_a_page_that_is_too_long_is_read_in_parts(place: Place) -> None:
    wide = Wide(130)
    place.platform.respond("/orders", wide)
    async with reconciling(place) as reconciler:
        (walk,) = await reconciler.read_lists("backfill", ["orders"])
    assert values_of(place.store.place, "orders", "id") == ids(wide.listed)
    assert walk.read == 130
    # a page that was too long is not requested in the same size again
    assert wide.limits[:3] == [100, 50, 25]


async def test_a_row_that_is_too_long_by_itself_is_reported(place: Place) -> None:
    wide = Wide(1, widest=1_100_000)
    place.platform.respond("/orders", wide)
    with pytest.raises(ResponseTooLong, match="1000000 bytes"):
        await place.client.page("/orders", 1, Priority.SWEEP)
    assert wide.limits == [100, 50, 25, 5, 1]
