"""Refunded orders are no longer work, and every financial status is handled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.delivery_worker import subscribe_all
from backhaul.store import database_at
from backhaul.store.deliveries import Subscriber
from backhaul.store.read_records import FoundObject, TimelineEntry
from scenes import payloads
from scenes.databases import append_and_fold
from scenes.notifications import WithLookup, deliver_all, delivery_worker
from scenes.payloads import envelope, instant
from scenes.stored import value_of, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.connect.delivery_worker import DeliveryWorker
    from backhaul.store import Store
    from backhaul.store.mirror import UnknownStatus
    from scenes.clock import VirtualClock

CASES = Path(__file__).parent / "cases"
ORDERS = {"ord_9", "ord_CASE7006"}
PLACED, UPDATED, CANCELLED = "order.placed", "order.updated", "order.cancelled"


def news(at: int, **members: Any) -> bytes:
    order = payloads.order("ord_9", at, number=9, placedAt=instant(300), **members)
    return envelope("orders/updated", order)


def case(name: str, **members: Any) -> bytes:
    document = json.loads((CASES / name).read_text("utf-8"))
    document["data"] |= {"placedAt": instant(300), **members}
    return envelope(document["topic"], document["data"])


async def delivered(books: WithLookup, sink: DeliveryWorker, *names: str) -> list[str]:
    await deliver_all(sink)
    return [topic for topic, _ in books.received()]


@pytest.fixture
async def books(store: Store, clock: VirtualClock) -> tuple[WithLookup, DeliveryWorker]:
    books = WithLookup()
    sink = delivery_worker(books, store, clock)
    await sink.subscribe()
    return books, sink


@pytest.mark.parametrize("status", ["REFUNDED", "Refunded", " refunded "])
async def test_a_refunded_order_is_withdrawn_once(
    store: Store, books: tuple[WithLookup, DeliveryWorker], status: str
) -> None:
    await append_and_fold(store, news(300, financialStatus="PAID"))
    assert await delivered(*books) == [PLACED]
    assert value_of(store.place, "open_orders", "id", id=ORDERS) == "ord_9"
    await append_and_fold(store, news(301, financialStatus=status))
    assert await delivered(*books) == [PLACED, CANCELLED]
    assert values_of(store.place, "open_orders", "id", id=ORDERS) == []
    cancellation = {"cancelledAt": instant(302), "reason": "OTHER"}
    await append_and_fold(
        store, news(302, financialStatus=status, cancellation=cancellation)
    )
    assert await delivered(*books) == [PLACED, CANCELLED, UPDATED]


async def test_the_order_of_the_refund_case_is_withdrawn(
    store: Store, books: tuple[WithLookup, DeliveryWorker]
) -> None:
    paid = {"financialStatus": "PAID", "updatedAt": instant(301)}
    await append_and_fold(store, case("06-refunded-not-cancelled.json", **paid))
    assert await delivered(*books) == [PLACED]
    await append_and_fold(
        store, case("06-refunded-not-cancelled.json", updatedAt=instant(302))
    )
    assert await delivered(*books) == [PLACED, CANCELLED]
    assert values_of(store.place, "open_orders", "id", id=ORDERS) == []


@pytest.mark.parametrize("status", ["PARTIALLY_REFUNDED", "VOIDED", "AUTHORIZED", "X"])
async def test_any_other_order_stays_open(
    store: Store, books: tuple[WithLookup, DeliveryWorker], status: str
) -> None:
    await append_and_fold(store, news(300))
    assert await delivered(*books) == [PLACED]
    await append_and_fold(store, news(301, financialStatus=status))
    assert await delivered(*books) == [PLACED, UPDATED]
    assert value_of(store.place, "open_orders", "id", id=ORDERS) == "ord_9"


async def test_a_refund_of_a_wholly_shipped_order_is_a_change(
    store: Store, books: tuple[WithLookup, DeliveryWorker]
) -> None:
    whole = {"fulfillmentStatus": "FULFILLED", "shipments": [payloads.shipment()]}
    await append_and_fold(store, news(300, financialStatus="PAID"))
    await append_and_fold(store, news(301, financialStatus="PAID", **whole))
    await append_and_fold(store, news(302, financialStatus="REFUNDED", **whole))
    assert await delivered(*books) == [PLACED, UPDATED, UPDATED]


async def test_an_order_that_is_refunded_first_is_not_delivered(
    store: Store, books: tuple[WithLookup, DeliveryWorker]
) -> None:
    await append_and_fold(store, news(300, financialStatus="REFUNDED"))
    assert await delivered(*books) == []


RELEASED = {"PAID", "PARTIALLY_REFUNDED"}
STATUSES = [
    *("PENDING", "PAID", "REFUNDED", "VOIDED", "PARTIALLY_REFUNDED", "paid"),
    *("Partially_Refunded", " PAID ", "AUTHORIZED", "voided", "NEW WORD"),
]


@pytest.mark.parametrize("status", STATUSES)
async def test_every_status_releases_an_order_or_is_explained(
    store: Store, clock: VirtualClock, status: str
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, release_when="paid")
    await sink.subscribe()
    await append_and_fold(store, news(300, financialStatus=status))
    is_released = status.strip().upper() in RELEASED
    assert await delivered(books, sink) == [PLACED] * is_released
    said = [row.detail or "" for row in timeline(store) if row.what == "payment"]
    assert bool(said) is not is_released
    assert all(f"financial status {status}".upper() in each.upper() for each in said)
    unknown = unknown_statuses(store)
    is_unknown = status in {"AUTHORIZED", "NEW WORD"}
    assert [each.status for each in unknown] == [status] * is_unknown


async def test_the_order_of_the_partial_refund_case_is_delivered(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, release_when="paid")
    await sink.subscribe()
    await append_and_fold(
        store, case("07-first-seen-partially-refunded.json", updatedAt=instant(301))
    )
    assert await delivered(books, sink) == [PLACED]


async def test_an_unknown_status_is_over_with_its_orders(
    store: Store, clock: VirtualClock
) -> None:
    await delivery_worker(WithLookup(), store, clock, release_when="paid").subscribe()
    await append_and_fold(store, news(300, financialStatus="ODD"))
    (found,) = unknown_statuses(store)
    assert (found.status, found.orders, found.example) == ("ODD", 1, "#9")
    await append_and_fold(
        store, news(301, financialStatus="ODD", fulfillmentStatus="FULFILLED")
    )
    assert unknown_statuses(store) == []


def timeline(store: Store) -> list[TimelineEntry]:
    with database_at(store.place).reader() as known:
        return known.timeline("order", FoundObject("#9", "main", "ord_9", {}))


def unknown_statuses(store: Store) -> Sequence[UnknownStatus]:
    with database_at(store.place).reader() as known:
        return known.counts().unknown_statuses


def unreported(store: Store) -> list[tuple[str, str]]:
    """Return why `books` is not notified of the order: the code and the text."""
    life = timeline(store)
    words = ("connection", "payment", "confirmation")
    return [(row.what, row.detail or "") for row in life if row.what in words]


@pytest.mark.parametrize("rule", ["placed", "confirmed"])
async def test_an_unknown_status_holds_no_order_that_awaits_no_payment(
    store: Store, clock: VirtualClock, rule: Any
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, release_when=rule)
    await sink.subscribe()
    await append_and_fold(store, news(300, financialStatus="ODD"))
    assert unknown_statuses(store) == []
    assert unreported(store) == []
    assert await delivered(books, sink) == [PLACED]


@pytest.mark.parametrize(
    ("topics", "place"),
    [({"stock.changed"}, "main"), ({"order.updated"}, "main"), ({PLACED}, "other")],
)
async def test_a_connection_without_orders_of_the_store_waits_for_none(
    store: Store, topics: set[str], place: str
) -> None:
    subscriber = Subscriber(
        instance="books", store=place, topics=frozenset(topics), release_when="paid"
    )
    await store.deliveries.subscribe(subscriber)
    await append_and_fold(store, news(300, financialStatus="ODD"))
    assert unknown_statuses(store) == []
    assert unreported(store) == []


async def test_a_connection_that_is_gone_waits_for_nothing(
    store: Store, clock: VirtualClock
) -> None:
    sink = delivery_worker(WithLookup(), store, clock, release_when="paid")
    other = delivery_worker(WithLookup("other"), store, clock)
    await subscribe_all([other, sink], store.deliveries)
    await append_and_fold(store, news(300, financialStatus="ODD"))
    assert len(unknown_statuses(store)) == 1
    await subscribe_all([other], store.deliveries)
    assert unknown_statuses(store) == []
    assert unreported(store) == []


async def test_an_order_that_was_reported_before_waits_for_nothing(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, release_when="paid")
    await sink.subscribe()
    await append_and_fold(store, news(300, financialStatus="PAID"))
    assert await delivered(books, sink) == [PLACED]
    await append_and_fold(store, news(301, financialStatus="ODD"))
    assert unknown_statuses(store) == []
    assert unreported(store) == []


async def test_only_the_connection_that_waits_is_named(
    store: Store, clock: VirtualClock
) -> None:
    eager, late = WithLookup("eager"), WithLookup("late")
    sinks = [
        delivery_worker(eager, store, clock),
        delivery_worker(late, store, clock, release_when="paid"),
    ]
    for sink in sinks:
        await sink.subscribe()
    await append_and_fold(store, news(300, financialStatus="PENDING"))
    assert await delivered(eager, sinks[0]) == [PLACED]
    ((what, says),) = unreported(store)
    assert what == "payment"
    assert "connection late waits for payment" in says


AWAITING = {"confirmation": {"required": True, "confirmedAt": None}}


async def test_an_order_that_awaits_its_confirmation_is_explained(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, release_when="confirmed")
    await sink.subscribe()
    await append_and_fold(store, news(300, **AWAITING))
    ((what, says),) = unreported(store)
    assert what == "confirmation"
    assert "connection books waits for that" in says
    confirmed = {"confirmation": {"required": True, "confirmedAt": instant(301)}}
    await append_and_fold(store, news(301, **confirmed))
    assert (await delivered(books, sink))[0] == PLACED
    assert unreported(store) == []


@pytest.mark.parametrize("rule", ["placed", "confirmed", "paid"])
@pytest.mark.parametrize(
    "members", [{}, {"financialStatus": "REFUNDED"}, {"financialStatus": "ODD"}]
)
async def test_an_order_from_before_the_connection_is_explained(
    store: Store, clock: VirtualClock, rule: Any, members: dict[str, str]
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, release_when=rule)
    await sink.subscribe()
    old = payloads.order("ord_9", 300, number=9, placedAt="2026-02-01T00:00:00.000Z")
    await append_and_fold(store, envelope("orders/updated", old | members))
    assert await delivered(books, sink) == []
    says = "placed before connection books began; not reported to it"
    assert unreported(store) == [("connection", says)]
    assert unknown_statuses(store) == []


async def test_a_connection_from_the_first_order_on_explains_nothing(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, begin="all")
    await sink.subscribe()
    old = payloads.order("ord_9", 300, number=9, placedAt="2026-02-01T00:00:00.000Z")
    await append_and_fold(store, envelope("orders/updated", old))
    assert PLACED in await delivered(books, sink)
    assert unreported(store) == []


async def test_an_order_cancelled_before_it_was_reported_is_explained(
    store: Store, books: tuple[WithLookup, DeliveryWorker]
) -> None:
    cancellation = {"cancelledAt": instant(301), "reason": "OTHER"}
    await append_and_fold(store, news(301, cancellation=cancellation))
    assert await delivered(*books) == []
    says = "cancelled before it was reported to connection books; not reported to it"
    assert unreported(store) == [("connection", says)]


async def test_a_changed_rule_counts_from_the_next_start(
    store: Store, clock: VirtualClock
) -> None:
    await delivery_worker(WithLookup(), store, clock, release_when="paid").subscribe()
    await append_and_fold(store, news(300, financialStatus="ODD"))
    assert len(unknown_statuses(store)) == 1
    await delivery_worker(WithLookup(), store, clock).subscribe()
    assert unknown_statuses(store) == []
