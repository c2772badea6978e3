"""Conflicting objects are refetched by id, through the inbox, until resolved."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import Busy
from backhaul.runtime.loop import IDLE_SECONDS
from backhaul.runtime.signals import StoreContext
from backhaul.store.inbox import LONGEST_REST_SECONDS
from backhaul.sync.refetcher import Refetcher
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.databases import event_states, fold_all
from scenes.pushing import Answer, cancel_task
from scenes.scripted_platform import Connection, Request, document, message, problem
from scenes.stored import arrivals, bodies, documents, lists, values_of
from scenes.waiting import until
from sync.conftest import opened

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from backhaul.store import Place as DatabasePlace
    from backhaul.store.inbox import Arrival, FoldOne, FoldReport, Inbox
    from sync.conftest import Place


def rereader(
    place: Place,
    arrived: list[None] | None = None,
    inbox: Inbox | None = None,
) -> Refetcher:
    wakes: list[None] = [] if arrived is None else arrived
    work = place.store.open_work
    context = StoreContext("main", place.clock, lambda: 0.5, open_work=work)
    context.signals.events_arrived.connect(lambda: wakes.append(None))
    queue = place.store.refetch_queue
    return Refetcher(context, place.client, inbox or place.store.inbox, queue)


async def ask(place: Place, kind: str = "order", object_id: str = "ord_1") -> None:
    await place.store.refetch_queue.enqueue("main", kind, object_id, "a tie")


async def queued(place: Place) -> list[Any]:
    """Return the whole queue: after the longest delay every row is due."""
    place.clock.set_back(-LONGEST_REST_SECONDS)
    found = await place.store.refetch_queue.next("main", 99)
    place.clock.set_back(LONGEST_REST_SECONDS)
    assert len(found) == queue_length(place)
    return [(row.kind, row.object_id, row.asks, row.failures) for row in found]


def queue_length(place: Place) -> int:
    with lists(place.store.place) as reader:
        return reader.counts().in_doubt


def read(place: Place) -> list[str]:
    return [arrival.topic for arrival in arrivals(place.store.place)]


def note(place: Place) -> str:
    (order,) = documents(place.store.place, "orders")
    return str(order["note"])


LEVEL = {
    "productId": "prod_1",
    "variantId": "var_1",
    "stock": 7,
    "updatedAt": payloads.instant(3),
}
KINDS: dict[str, tuple[str, str, Any, list[str]]] = {
    "order": ("/orders", "ord_1", payloads.order(), ["orders/reread"]),
    "product": ("/products", "prod_1", payloads.product(), ["products/reread"]),
    "customer": ("/customers", "cus_1", payloads.customer(), ["customers/reread"]),
    "level": (
        "/inventory",
        "prod_1",
        [LEVEL, LEVEL | {"variantId": "var_2"}],
        ["inventory/reread", "inventory/reread"],
    ),
}


@pytest.mark.parametrize("wrapped", [True, False], ids=["wrapped", "bare"])
@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_is_read_by_its_id(
    kind: str, wrapped: bool, place: Place
) -> None:
    path, object_id, shown, topics = KINDS[kind]
    answer = {"data": shown} if wrapped else shown
    place.platform.respond(f"{path}/{object_id}", document(answer))
    await ask(place, kind, object_id)
    arrived: list[None] = []
    assert await rereader(place, arrived).work_off() == 1
    assert await queued(place) == []
    assert read(place) == topics
    assert arrived
    assert await fold_all(place.store) == []


async def test_the_answer_wins_over_the_mirror(place: Place) -> None:
    said = payloads.envelope("orders/updated", payloads.order(at=50, note="wrong"))
    await place.store.inbox.append(payloads.arrival(said, at=0))
    await fold_all(place.store)
    place.platform.respond("/orders/ord_1", document(payloads.order(note="right")))
    await ask(place)
    await rereader(place).work_off()
    await fold_all(place.store)
    assert note(place) == "right"


async def test_objects_are_refetched_in_the_order_of_their_requests(
    place: Place,
) -> None:
    for object_id in ("b", "a", "c"):
        place.platform.respond(
            f"/orders/{object_id}", document(payloads.order(object_id))
        )
        await ask(place, "order", object_id)
        await place.clock.sleep(1)
    await rereader(place).work_off()
    paths = [request.path for request in place.server.requests]
    assert paths == ["/orders/b", "/orders/a", "/orders/c"]


@pytest.mark.parametrize("kind", ["order", "product", "customer"])
async def test_a_missing_object_is_deleted_if_its_list_can_be_read(
    kind: str, place: Place
) -> None:
    path, object_id, _, _ = KINDS[kind]
    place.platform.respond(path, document({"data": []}))
    await ask(place, kind, object_id)
    await rereader(place).work_off()
    assert read(place) == [f"{path[1:]}/gone"]
    assert await queued(place) == []
    assert await fold_all(place.store) == []


@pytest.mark.parametrize("answer", [message(404), problem(403, "NO"), message(500)])
async def test_a_missing_object_stays_queued_if_its_list_is_missing_too(
    answer: Answer, place: Place
) -> None:
    place.platform.respond("/orders", answer)
    await ask(place)
    await rereader(place).work_off()
    assert read(place) == []
    assert await queued(place) == [("order", "ord_1", 1, 1)]


async def test_a_platform_without_levels_shows_them_with_the_product(
    place: Place,
) -> None:
    place.platform.respond("/inventory", message(404))
    place.platform.respond("/products/prod_1", document({"data": payloads.product()}))
    await ask(place, "level", "prod_1")
    await rereader(place).work_off()
    assert read(place) == ["inventory/shown/reread"]
    await fold_all(place.store)
    assert values_of(place.store.place, "inventory_levels", "stock") == [12]


async def test_levels_of_a_product_that_is_gone_are_gone(place: Place) -> None:
    await ask(place, "level", "prod_1")
    await rereader(place).work_off()
    assert read(place) == ["products/gone"]


async def cut(_: Request, connection: Connection) -> None:
    connection.reset()


FAILURES: dict[str, Answer] = {
    "500": message(500, b"{}"),
    "html": message(200, b"<html>", "text/html"),
    "empty": message(200),
    "another": document({"data": payloads.order("ord_2")}),
    "no id": document({"data": {}}),
    "a list": document({"data": [payloads.order()]}),
    "reset": cut,
}


@pytest.mark.parametrize("name", FAILURES)
async def test_an_answer_of_no_use_is_tried_again_and_again(
    name: str, place: Place
) -> None:
    answers = [FAILURES[name]] * 9
    place.platform.respond("/orders/ord_1", *answers, document(payloads.order()))
    await ask(place)
    working = rereader(place)
    for _ in range(40):
        await working.work_off()
        await place.clock.sleep(150)
    assert await queued(place) == []
    kept = [json.loads(body)["id"] for body in bodies(place.store.place)]
    assert kept == ["ord_1"]


async def test_a_refetch_that_fails_does_not_block_the_others(place: Place) -> None:
    place.platform.respond("/orders/bad", message(500))
    place.platform.respond("/orders/ord_1", document(payloads.order()))
    await ask(place, "order", "bad")
    await place.clock.sleep(1)
    await ask(place)
    await rereader(place).work_off()
    assert read(place) == ["orders/reread"]
    assert [row[1] for row in await queued(place)] == ["bad"]


ITS_OWN = {name: FAILURES[name] for name in ("html", "another", "no id", "a list")}
ITS_OWN |= {"410": message(410), "too long": message(200, b"x" * 1_000_001)}


@pytest.mark.parametrize("name", ITS_OWN)
async def test_the_trouble_of_one_keeps_no_other_waiting(
    name: str, place: Place
) -> None:
    place.platform.respond("/orders/bad", ITS_OWN[name])
    place.platform.respond("/orders/ord_1", document(payloads.order()))
    await ask(place, "order", "bad")
    await ask(place)
    await rereader(place).work_off()
    assert read(place) == ["orders/reread"]
    assert await queued(place) == [("order", "bad", 1, 1)]
    assert place.clock.slept == []


async def test_a_forbidden_object_is_left_alone_for_long(place: Place) -> None:
    place.platform.respond("/customers/a", problem(403, "INSUFFICIENT_SCOPE"))
    for object_id in "abc":
        await ask(place, "customer", object_id)
    working = rereader(place)
    await working.work_off()
    await place.clock.sleep(100)
    assert await working.work_off() == 0
    assert len(place.server.requests) == 1
    place.platform.respond("/customers/a", document(payloads.customer("a")))
    await place.clock.sleep(250)
    assert await working.work_off() == 3
    assert "customers/reread" in read(place)


async def test_a_conflict_found_during_the_read_is_read_again(place: Place) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def behave(_: Request, connection: Connection) -> None:
        asked.set()
        await answered.wait()
        await connection.send(document(payloads.order()))

    place.platform.respond("/orders/ord_1", behave, document(payloads.order(at=1)))
    await ask(place)
    working = rereader(place)
    first = asyncio.ensure_future(working.work_off())
    await asked.wait()
    await ask(place)
    answered.set()
    await first
    assert await queued(place) == [("order", "ord_1", 2, 0)]
    await working.work_off()
    assert await queued(place) == []
    assert len(place.server.requests) == 2


class FullInbox:
    """An inbox on a full disk."""

    def append(self, _: Arrival) -> Awaitable[int]:
        raise Busy("the disk is full")

    async def newest(self) -> int:
        return 0

    async def fold(self, fold_one: FoldOne, slice_seconds: float) -> FoldReport:
        raise NotImplementedError


async def test_the_row_stays_until_the_answer_is_durable(place: Place) -> None:
    place.platform.respond("/orders/ord_1", document(payloads.order()))
    await ask(place)
    with pytest.raises(Busy):
        await rereader(place, inbox=FullInbox()).work_off()
    assert await queued(place) == [("order", "ord_1", 1, 0)]
    await rereader(place).work_off()
    assert await queued(place) == []


@pytest.mark.parametrize("object_id", ["../orders", "a/b", "a?limit=1", "é%2F", "#"])
async def test_an_id_cannot_lead_elsewhere(object_id: str, place: Place) -> None:
    await ask(place, "order", object_id)
    await rereader(place).work_off()
    (first, *_) = place.server.requests
    assert first.path.startswith("/orders/")
    assert "/" not in first.path.removeprefix("/orders/")
    assert first.query == ""


async def test_the_refetcher_runs_when_woken_and_when_due(place: Place) -> None:
    place.platform.respond("/orders/ord_1", document(payloads.order()))
    working = rereader(place)
    running = asyncio.ensure_future(working.run())
    await ask(place)
    working.wake()
    await until(lambda: read(place) == ["orders/reread"], "the read")
    await until(lambda: queue_length(place) == 0, "an empty queue")
    await cancel_task(running)


async def test_parents_are_looked_up_once_the_mirror_is_whole(place: Place) -> None:
    place.platform.respond("/customers/cus_1", document(payloads.customer()))
    await place.store.inbox.append(payloads.read("orders/read", payloads.order()))
    await fold_all(place.store)
    working = rereader(place)
    running = asyncio.ensure_future(working.run())
    working.release()
    await until(lambda: "customers/reread" in read(place), "the customer")
    await cancel_task(running)
    assert len(place.server.requests) == 1


async def test_a_parent_that_is_missing_later_is_fetched_without_a_wake(
    database: DatabasePlace,
) -> None:
    async with opened(database, VirtualClock()) as place:
        working = rereader(place)
        running = asyncio.ensure_future(working.run())
        working.release()
        await place.clock.await_sleeper()
        place.platform.respond("/customers/cus_1", document(payloads.customer()))
        for _ in range(2):  # nothing is there to be found
            await place.clock.advance(IDLE_SECONDS)
            await place.clock.await_sleeper()
        await place.store.inbox.append(payloads.read("orders/read", payloads.order()))
        await fold_all(place.store)
        await place.clock.advance(IDLE_SECONDS)
        await until(lambda: "customers/reread" in read(place), "the customer")
        await cancel_task(running)


async def test_an_empty_queue_sends_no_request(place: Place) -> None:
    working = rereader(place)
    running = asyncio.ensure_future(working.run())
    working.release()
    assert await working.work_off() == 0
    await cancel_task(running)
    assert place.server.requests == []
    assert place.clock.slept == []


AHEAD_SECONDS = 3_000


async def test_a_conflict_from_before_a_clock_was_set_back_is_resolved_at_once(
    place: Place,
) -> None:
    said = payloads.envelope("orders/updated", payloads.order(note="wrong"))
    await place.store.inbox.append(payloads.arrival(said, at=AHEAD_SECONDS))
    await fold_all(place.store)
    await ask(place)
    place.platform.respond("/orders/ord_1", document(payloads.order(note="right")))
    await rereader(place).work_off()
    await fold_all(place.store)
    assert await queued(place) == []
    assert note(place) == "right"


async def test_a_refetch_delayed_by_a_fast_clock_does_not_wait_for_it(
    place: Place,
) -> None:
    place.platform.respond("/orders/ord_1", document(payloads.order()))
    await ask(place)
    (row,) = await place.store.refetch_queue.next("main", 1)
    await place.store.refetch_queue.postpone(row, payloads.instant(AHEAD_SECONDS))
    assert await rereader(place).work_off() == 1
    assert await queued(place) == []


UNREADABLE: dict[str, Any] = {
    "order": payloads.order(status=None),
    "product": payloads.product() | {"variants": 5},
    "customer": payloads.customer() | {"updatedAt": None},
    "level": [LEVEL, LEVEL | {"variantId": "var_2", "stock": None}],
}


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_an_answer_that_cannot_be_read_is_quarantined_once(
    kind: str, place: Place
) -> None:
    """The queue keeps the object until its response can be read."""
    path, object_id, shown, topics = KINDS[kind]
    answer = document({"data": UNREADABLE[kind]})
    place.platform.respond(f"{path}/{object_id}", answer)
    await ask(place, kind, object_id)
    again = rereader(place)
    for _ in range(4):
        await again.work_off()
        await fold_all(place.store)
        await place.clock.sleep(400)
    assert event_states(place.store.place).count("quarantined") == 1
    assert [(row[0], row[3]) for row in await queued(place)] == [(kind, 4)]
    place.platform.respond(f"{path}/{object_id}", document({"data": shown}))
    await again.work_off()
    await fold_all(place.store)
    assert await queued(place) == []
    assert read(place)[-len(topics) :] == topics


async def test_a_refetch_lets_the_commands_of_its_order_go(place: Place) -> None:
    place.platform.respond("/orders/ord_1", document({"data": payloads.order(at=9)}))
    event = payloads.envelope("orders/updated", payloads.order(status=None))
    await place.store.inbox.append(payloads.arrival(event))
    await fold_all(place.store)
    assert unreadable(place) == ["ord_1"]
    assert await rereader(place).work_off() == 1
    await fold_all(place.store)
    assert unreadable(place) == []


def unreadable(place: Place) -> list[str]:
    with lists(place.store.place) as reader:
        return [order.order_id for order in reader.counts().unreadable_orders]
