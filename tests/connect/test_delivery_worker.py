"""The states of a delivery: sent, retried, checked, parked and decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import BackhaulError
from backhaul_sdk import (
    Absent,
    CheckFailed,
    Found,
    NotSent,
    Rejected,
    Uncertain,
    Unknown,
)
from scenes import payloads
from scenes.damaged_rows import insert_command, overwrite
from scenes.databases import append_and_fold
from scenes.notifications import (
    Deduplicating,
    PushOnly,
    WithLookup,
    deliver_all,
    deliveries_of,
    delivery_worker,
)
from scenes.payloads import envelope, instant
from scenes.stored import rows_of, value_of

if TYPE_CHECKING:
    from backhaul.connect.delivery_worker import DeliveryWorker
    from backhaul.runtime.tracing import Tracer
    from backhaul.store import Store
    from scenes.clock import VirtualClock

ORDERS = frozenset({"order.placed", "order.updated"})
PLACED = ("order.placed", "ord_9")


def order(at: int, id_: str = "ord_9", number: int = 9) -> bytes:
    topic = "orders/create" if at == 300 else "orders/updated"
    found = payloads.order(id_, at, number=number, placedAt=instant(300))
    return envelope(topic, found)


async def worker_with_order(
    store: Store, clock: VirtualClock, books: PushOnly, tracer: Tracer | None = None
) -> DeliveryWorker:
    """Return a delivery worker with an order to deliver."""
    sink = delivery_worker(books, store, clock, topics=ORDERS, tracer=tracer)
    await sink.subscribe()
    await append_and_fold(store, order(300))
    return sink


def reason(store: Store) -> str:
    return str(value_of(store.place, "deliveries", "reason", object_id="ord_9"))


async def test_a_delivery_that_was_not_sent_is_sent_again_later(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [NotSent("it is closed", 30.0)]
    await deliver_all(sink)
    assert deliveries_of(store)[-1] == (*PLACED, "planned")
    await clock.advance(29)
    await deliver_all(sink)
    assert books.changes == []
    await clock.advance(1)
    await deliver_all(sink)
    assert books.received() == [PLACED]


async def test_a_delivery_does_not_wait_for_a_clock_that_was_set_back(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    books.outcomes += [NotSent("it is closed", 30.0)]
    await deliver_all(await worker_with_order(store, clock, books))
    clock.set_back(3600)
    restarted = delivery_worker(books, store, clock, topics=ORDERS)
    await restarted.subscribe()
    await deliver_all(restarted)
    assert books.received() == [PLACED]


@pytest.mark.parametrize(
    "wanted",
    [
        float("nan"),
        float("inf"),
        -5.0,
        1e12,
        pytest.param(10**400, id="huge"),
        "30",
        "Wed, 21 Oct 2026",
        b"",
    ],
)
async def test_an_absurd_retry_time_is_bounded(
    store: Store, clock: VirtualClock, wanted: float
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [NotSent("later", wanted)]
    await deliver_all(sink)
    await clock.advance(3600)
    await deliver_all(sink)
    assert books.received() == [PLACED]


@pytest.mark.parametrize(
    "said", [Uncertain("no answer"), ValueError("a bug"), None, "yes", SystemExit(3)]
)
async def test_an_unclassified_failure_is_looked_up_before_the_next_attempt(
    store: Store, clock: VirtualClock, said: Any
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [said]
    books.lookup_outcomes += [Absent()]
    await deliver_all(sink)
    await clock.advance(1)
    await deliver_all(sink)
    assert len(books.lookups) == 1
    assert books.received() == [PLACED]
    assert deliveries_of(store)[-1] == (*PLACED, "applied")


async def test_a_change_that_is_found_is_not_sent_again(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Uncertain("no answer")]
    books.lookup_outcomes += [Unknown("not yet"), Found("r7")]
    await deliver_all(sink)
    assert deliveries_of(store)[-1] == (*PLACED, "uncertain")
    await clock.advance(120)
    await deliver_all(sink)
    assert books.received() == [PLACED]
    assert rows_of(store.place, "deliveries", "reference", state="applied")


async def test_an_uncertain_delivery_waits_for_a_system_that_is_away_for_long(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Uncertain("no answer")]
    books.lookup_outcomes += [CheckFailed("it cannot be reached")] * 20 + [Found("r7")]
    while len(books.lookups) < 21:
        await deliver_all(sink)
        await clock.advance(60)
    assert deliveries_of(store)[-1] == (*PLACED, "applied")
    assert books.received() == [PLACED]


async def test_an_undecidable_delivery_is_parked_with_all_that_follow(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Uncertain("no answer")]
    for _ in range(3):
        await deliver_all(sink)
        await clock.advance(600)
    await append_and_fold(store, order(301), order(300, "ord_8", 8))
    await deliver_all(sink)
    assert books.received() == [("order.placed", "ord_8")]
    assert deliveries_of(store)[2:] == [
        (*PLACED, "parked"),
        ("order.updated", "ord_9", "planned"),
        ("order.placed", "ord_8", "applied"),
    ]


async def test_a_system_without_lookup_is_not_looked_up(
    store: Store, clock: VirtualClock
) -> None:
    books = PushOnly()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Uncertain("no answer")]
    await deliver_all(sink)
    assert deliveries_of(store)[-1] == (*PLACED, "parked")
    assert reason(store) == (
        "no answer; this connector cannot check whether it arrived"
    )


async def test_a_receiver_that_takes_an_id_once_is_sent_to_until_it_answers(
    store: Store, clock: VirtualClock
) -> None:
    receiver = Deduplicating()
    sink = await worker_with_order(store, clock, receiver)
    receiver.outcomes += [
        Uncertain("no answer"),
        ValueError("a bug"),
        NotSent("closed"),
    ]
    for _ in range(60):
        await deliver_all(sink)
        await clock.advance(1)
    assert receiver.received() == [PLACED]
    assert len(receiver.received_ids) == 4
    assert len(set(receiver.received_ids)) == 1
    assert deliveries_of(store)[-1] == (*PLACED, "applied")


async def test_a_receiver_that_never_answers_is_sent_to_less_and_less(
    store: Store, clock: VirtualClock
) -> None:
    receiver = Deduplicating()
    sink = await worker_with_order(store, clock, receiver)
    receiver.outcomes += [Uncertain("no answer")] * 100
    for _ in range(600):
        await deliver_all(sink)
        await clock.advance(1)
    assert 6 <= len(receiver.received_ids) <= 12
    assert sink.state() == {"up": False, "reason": "no answer"}
    assert reason(store) == "no answer"


async def test_a_change_that_fails_each_time_is_sent_less_and_less(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Uncertain("answered 500")] * 100
    books.lookup_outcomes += [Absent()] * 100
    for _ in range(600):
        await deliver_all(sink)
        await clock.advance(1)
    assert 6 <= len(books.lookups) <= 20
    assert deliveries_of(store)[-1] == (*PLACED, "planned")


async def test_a_change_that_fails_by_itself_holds_up_no_other(
    store: Store, clock: VirtualClock
) -> None:
    class Choosy(Deduplicating):
        async def push(self, change: Any) -> Any:
            if change.object_id == "ord_9":
                return Uncertain("answered 500")
            return await super().push(change)

    choosy = Choosy()
    sink = await worker_with_order(store, clock, choosy)
    for number in range(20):
        await append_and_fold(store, order(300, f"ord_{100 + number}", 100 + number))
        await deliver_all(sink)
        await clock.advance(3)
    assert len(choosy.changes) >= 18
    assert (*PLACED, "planned") in deliveries_of(store)


class Killed(BaseException):
    """Raised as if the process was killed."""


async def test_a_kill_amid_a_change_that_is_taken_once_sends_it_again(
    store: Store, clock: VirtualClock
) -> None:
    receiver = Deduplicating()
    sink = await worker_with_order(store, clock, receiver)
    receiver.outcomes += [Killed()]
    with pytest.raises(Killed):
        await deliver_all(sink)
    again = Deduplicating()
    sink = delivery_worker(again, store, clock, topics=ORDERS)
    await sink.subscribe()
    await deliver_all(sink)
    assert again.received_ids == receiver.received_ids
    assert deliveries_of(store)[-1] == (*PLACED, "applied")


async def test_a_kill_amid_a_push_leaves_it_uncertain(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Killed()]
    with pytest.raises(Killed):
        await deliver_all(sink)
    assert deliveries_of(store)[-1] == (*PLACED, "sending")
    again = WithLookup()
    again.lookup_outcomes += [Absent()]
    sink = delivery_worker(again, store, clock, topics=ORDERS)
    await sink.subscribe()
    await deliver_all(sink)
    assert len(again.lookups) == 1
    assert again.received() == [PLACED]


async def test_a_refusal_is_kept_with_its_reason(
    store: Store, clock: VirtualClock, lines: list[str]
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Rejected("no such customer")]
    await deliver_all(sink)
    assert deliveries_of(store)[-1] == (*PLACED, "rejected")
    assert "delivery.rejected books order.placed ord_9: no such customer\n" in lines


async def test_a_dry_run_sends_nothing(store: Store, clock: VirtualClock) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, topics=ORDERS, dry_run=True)
    await sink.subscribe()
    await append_and_fold(store, order(300))
    await deliver_all(sink)
    assert books.changes == []
    assert deliveries_of(store)[-1] == (*PLACED, "planned")


async def test_changes_of_an_order_wait_while_a_command_of_it_is_uncertain(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = await worker_with_order(store, clock, books)
    insert_command(store.place, "c1", "fulfill", "ord_9", "sending", instance="books")
    await deliver_all(sink)
    assert books.changes == []
    overwrite(store.place, "commands", {"state": "applied"}, id="c1")
    await deliver_all(sink)
    assert books.received() == [PLACED]


async def test_an_operator_decides_a_parked_delivery(
    store: Store, clock: VirtualClock
) -> None:
    books = PushOnly()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Uncertain("no answer")]
    await deliver_all(sink)
    seq = value_of(store.place, "deliveries", "seq", state="parked")
    await store.deliveries.decide(seq, "resend", "kim", "lost")
    await deliver_all(sink)
    assert books.received() == [PLACED]
    with pytest.raises(
        BackhaulError, match="is applied, and this action is not possible"
    ):
        await store.deliveries.decide(seq, "resend", "kim", "again")
    assert rows_of(store.place, "audit", "who", "action", "detail") == [
        ("kim", "deliveries resend", f"delivery {seq}: lost")
    ]


async def test_a_decision_during_a_lookup_stays(
    store: Store, clock: VirtualClock
) -> None:
    class Slow(WithLookup):
        async def lookup(self, change: Any) -> Any:
            seq = value_of(store.place, "deliveries", "seq", state="uncertain")
            await store.deliveries.decide(seq, "park", "kim", "i look myself")
            return Unknown("cannot tell")

    books = Slow()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Uncertain("no answer")]
    await deliver_all(sink)
    assert deliveries_of(store)[-1] == (*PLACED, "parked")


async def test_a_delivery_that_cannot_be_looked_up_lets_others_pass(
    store: Store, clock: VirtualClock
) -> None:
    class Strange(WithLookup):
        async def lookup(self, change: Any) -> Any:
            raise ValueError("a strange answer")

    books = Strange()
    sink = await worker_with_order(store, clock, books)
    books.outcomes += [Uncertain("no answer")]
    await deliver_all(sink)
    await append_and_fold(store, order(300, "ord_8", 8))
    for _ in range(60):
        await clock.advance(10)
        await deliver_all(sink)
    assert ("order.placed", "ord_8") in books.received()
    assert (*PLACED, "uncertain") in deliveries_of(store)
