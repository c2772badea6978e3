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
from scenes.databases import take
from scenes.notifications import Books, Mute, Receiver, deliver, owed, sink_of
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


async def begun(
    store: Store, clock: VirtualClock, books: Mute, tracer: Tracer | None = None
) -> DeliveryWorker:
    """Return a sink that has an order to send."""
    sink = sink_of(books, store, clock, topics=ORDERS, tracer=tracer)
    await sink.subscribe()
    await take(store, order(300))
    return sink


def reason(store: Store) -> str:
    return str(value_of(store.place, "deliveries", "reason", object_id="ord_9"))


async def test_a_delivery_that_was_not_sent_is_sent_again_later(
    store: Store, clock: VirtualClock
) -> None:
    books = Books()
    sink = await begun(store, clock, books)
    books.says += [NotSent("it is closed", 30.0)]
    await deliver(sink)
    assert owed(store)[-1] == (*PLACED, "planned")
    await clock.advance(29)
    await deliver(sink)
    assert books.told == []
    await clock.advance(1)
    await deliver(sink)
    assert books.heard() == [PLACED]


async def test_a_delivery_does_not_wait_for_a_clock_that_was_set_back(
    store: Store, clock: VirtualClock
) -> None:
    books = Books()
    books.says += [NotSent("it is closed", 30.0)]
    await deliver(await begun(store, clock, books))
    clock.set_back(3600)
    restarted = sink_of(books, store, clock, topics=ORDERS)
    await restarted.subscribe()
    await deliver(restarted)
    assert books.heard() == [PLACED]


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
    books = Books()
    sink = await begun(store, clock, books)
    books.says += [NotSent("later", wanted)]
    await deliver(sink)
    await clock.advance(3600)
    await deliver(sink)
    assert books.heard() == [PLACED]


@pytest.mark.parametrize(
    "said", [Uncertain("no answer"), ValueError("a bug"), None, "yes", SystemExit(3)]
)
async def test_an_unclassified_failure_is_looked_up_before_the_next_attempt(
    store: Store, clock: VirtualClock, said: Any
) -> None:
    books = Books()
    sink = await begun(store, clock, books)
    books.says += [said]
    books.finds += [Absent()]
    await deliver(sink)
    await clock.advance(1)
    await deliver(sink)
    assert len(books.looked) == 1
    assert books.heard() == [PLACED]
    assert owed(store)[-1] == (*PLACED, "applied")


async def test_a_change_that_is_found_is_not_sent_again(
    store: Store, clock: VirtualClock
) -> None:
    books = Books()
    sink = await begun(store, clock, books)
    books.says += [Uncertain("no answer")]
    books.finds += [Unknown("not yet"), Found("r7")]
    await deliver(sink)
    assert owed(store)[-1] == (*PLACED, "uncertain")
    await clock.advance(120)
    await deliver(sink)
    assert books.heard() == [PLACED]
    assert rows_of(store.place, "deliveries", "reference", state="applied")


async def test_an_uncertain_delivery_waits_for_a_system_that_is_away_for_long(
    store: Store, clock: VirtualClock
) -> None:
    books = Books()
    sink = await begun(store, clock, books)
    books.says += [Uncertain("no answer")]
    books.finds += [CheckFailed("it cannot be reached")] * 20 + [Found("r7")]
    while len(books.looked) < 21:
        await deliver(sink)
        await clock.advance(60)
    assert owed(store)[-1] == (*PLACED, "applied")
    assert books.heard() == [PLACED]


async def test_an_undecidable_delivery_is_parked_with_all_that_follow(
    store: Store, clock: VirtualClock
) -> None:
    books = Books()
    sink = await begun(store, clock, books)
    books.says += [Uncertain("no answer")]
    for _ in range(3):
        await deliver(sink)
        await clock.advance(600)
    await take(store, order(301), order(300, "ord_8", 8))
    await deliver(sink)
    assert books.heard() == [("order.placed", "ord_8")]
    assert owed(store)[2:] == [
        (*PLACED, "parked"),
        ("order.updated", "ord_9", "planned"),
        ("order.placed", "ord_8", "applied"),
    ]


async def test_a_system_without_lookup_is_not_looked_up(
    store: Store, clock: VirtualClock
) -> None:
    books = Mute()
    sink = await begun(store, clock, books)
    books.says += [Uncertain("no answer")]
    await deliver(sink)
    assert owed(store)[-1] == (*PLACED, "parked")
    assert reason(store) == (
        "no answer; this connector cannot check whether it arrived"
    )


async def test_a_receiver_that_takes_an_id_once_is_sent_to_until_it_answers(
    store: Store, clock: VirtualClock
) -> None:
    receiver = Receiver()
    sink = await begun(store, clock, receiver)
    receiver.says += [Uncertain("no answer"), ValueError("a bug"), NotSent("closed")]
    for _ in range(60):
        await deliver(sink)
        await clock.advance(1)
    assert receiver.heard() == [PLACED]
    assert len(receiver.came) == 4
    assert len(set(receiver.came)) == 1
    assert owed(store)[-1] == (*PLACED, "applied")


async def test_a_receiver_that_never_answers_is_sent_to_less_and_less(
    store: Store, clock: VirtualClock
) -> None:
    receiver = Receiver()
    sink = await begun(store, clock, receiver)
    receiver.says += [Uncertain("no answer")] * 100
    for _ in range(600):
        await deliver(sink)
        await clock.advance(1)
    assert 6 <= len(receiver.came) <= 12
    assert sink.state() == {"up": False, "reason": "no answer"}
    assert reason(store) == "no answer"


async def test_a_change_that_fails_each_time_is_sent_less_and_less(
    store: Store, clock: VirtualClock
) -> None:
    books = Books()
    sink = await begun(store, clock, books)
    books.says += [Uncertain("answered 500")] * 100
    books.finds += [Absent()] * 100
    for _ in range(600):
        await deliver(sink)
        await clock.advance(1)
    assert 6 <= len(books.looked) <= 20
    assert owed(store)[-1] == (*PLACED, "planned")


async def test_a_change_that_fails_by_itself_holds_up_no_other(
    store: Store, clock: VirtualClock
) -> None:
    class Choosy(Receiver):
        async def push(self, change: Any) -> Any:
            if change.object_id == "ord_9":
                return Uncertain("answered 500")
            return await super().push(change)

    choosy = Choosy()
    sink = await begun(store, clock, choosy)
    for number in range(20):
        await take(store, order(300, f"ord_{100 + number}", 100 + number))
        await deliver(sink)
        await clock.advance(3)
    assert len(choosy.told) >= 18
    assert (*PLACED, "planned") in owed(store)


class Killed(BaseException):
    """The process is gone."""


async def test_a_kill_amid_a_change_that_is_taken_once_sends_it_again(
    store: Store, clock: VirtualClock
) -> None:
    receiver = Receiver()
    sink = await begun(store, clock, receiver)
    receiver.says += [Killed()]
    with pytest.raises(Killed):
        await deliver(sink)
    again = Receiver()
    sink = sink_of(again, store, clock, topics=ORDERS)
    await sink.subscribe()
    await deliver(sink)
    assert again.came == receiver.came
    assert owed(store)[-1] == (*PLACED, "applied")


async def test_a_kill_amid_a_push_leaves_it_uncertain(
    store: Store, clock: VirtualClock
) -> None:
    books = Books()
    sink = await begun(store, clock, books)
    books.says += [Killed()]
    with pytest.raises(Killed):
        await deliver(sink)
    assert owed(store)[-1] == (*PLACED, "sending")
    again = Books()
    again.finds += [Absent()]
    sink = sink_of(again, store, clock, topics=ORDERS)
    await sink.subscribe()
    await deliver(sink)
    assert len(again.looked) == 1
    assert again.heard() == [PLACED]


async def test_a_refusal_is_kept_with_its_reason(
    store: Store, clock: VirtualClock, lines: list[str]
) -> None:
    books = Books()
    sink = await begun(store, clock, books)
    books.says += [Rejected("no such customer")]
    await deliver(sink)
    assert owed(store)[-1] == (*PLACED, "rejected")
    assert "delivery.rejected books order.placed ord_9: no such customer\n" in lines


async def test_a_dry_run_sends_nothing(store: Store, clock: VirtualClock) -> None:
    books = Books()
    sink = sink_of(books, store, clock, topics=ORDERS, dry_run=True)
    await sink.subscribe()
    await take(store, order(300))
    await deliver(sink)
    assert books.told == []
    assert owed(store)[-1] == (*PLACED, "planned")


async def test_changes_of_an_order_wait_while_a_command_of_it_is_uncertain(
    store: Store, clock: VirtualClock
) -> None:
    books = Books()
    sink = await begun(store, clock, books)
    insert_command(store.place, "c1", "fulfill", "ord_9", "sending", instance="books")
    await deliver(sink)
    assert books.told == []
    overwrite(store.place, "commands", {"state": "applied"}, id="c1")
    await deliver(sink)
    assert books.heard() == [PLACED]


async def test_an_operator_decides_a_parked_delivery(
    store: Store, clock: VirtualClock
) -> None:
    books = Mute()
    sink = await begun(store, clock, books)
    books.says += [Uncertain("no answer")]
    await deliver(sink)
    seq = value_of(store.place, "deliveries", "seq", state="parked")
    await store.deliveries.decide(seq, "resend", "kim", "lost")
    await deliver(sink)
    assert books.heard() == [PLACED]
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
    class Slow(Books):
        async def lookup(self, change: Any) -> Any:
            seq = value_of(store.place, "deliveries", "seq", state="uncertain")
            await store.deliveries.decide(seq, "park", "kim", "i look myself")
            return Unknown("cannot tell")

    books = Slow()
    sink = await begun(store, clock, books)
    books.says += [Uncertain("no answer")]
    await deliver(sink)
    assert owed(store)[-1] == (*PLACED, "parked")


async def test_a_delivery_that_cannot_be_looked_up_lets_others_pass(
    store: Store, clock: VirtualClock
) -> None:
    class Strange(Books):
        async def lookup(self, change: Any) -> Any:
            raise ValueError("a strange answer")

    books = Strange()
    sink = await begun(store, clock, books)
    books.says += [Uncertain("no answer")]
    await deliver(sink)
    await take(store, order(300, "ord_8", 8))
    for _ in range(60):
        await clock.advance(10)
        await deliver(sink)
    assert ("order.placed", "ord_8") in books.heard()
    assert (*PLACED, "uncertain") in owed(store)
