"""Which change notifications a connection receives, in which order, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store.deliveries import Subscriber
from backhaul.store.sql.deliveries.repository import MOST_SKIPPED
from backhaul_sdk import Found, Uncertain
from backhaul_sdk.contract import TOPICS
from scenes import payloads
from scenes.damaged_rows import insert_command, overwrite
from scenes.databases import append_and_fold
from scenes.notifications import WithLookup, deliver_all, deliveries_of, delivery_worker
from scenes.payloads import envelope, instant

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.clock import VirtualClock

LATE = instant(300)
CANCELLED = instant(302)


def placed(id_: str, number: int, at: int = 300, **members: Any) -> bytes:
    order = payloads.order(id_, at, number=number, placedAt=LATE, **members)
    return envelope("orders/create", order)


def updated(id_: str, number: int, at: int, **members: Any) -> bytes:
    order = payloads.order(id_, at, number=number, placedAt=LATE, **members)
    return envelope("orders/updated", order)


async def test_an_order_is_placed_once_and_before_all_others(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock)
    await sink.subscribe()
    await append_and_fold(store, placed("ord_9", 9), updated("ord_9", 9, 301))
    await append_and_fold(store, updated("ord_9", 9, 302))
    await deliver_all(sink)
    cancellation = {"cancelledAt": instant(303), "reason": "OTHER"}
    await append_and_fold(store, updated("ord_9", 9, 303, cancellation=cancellation))
    await deliver_all(sink)
    assert books.received() == [
        ("order.placed", "ord_9"),
        ("order.updated", "ord_9"),
        ("order.updated", "ord_9"),
        ("order.cancelled", "ord_9"),
    ]
    assert len({change.id for change in books.changes}) == 4
    assert books.changes[0].document["number"] == 9


async def test_from_now_on_delivers_no_existing_orders(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock)
    await sink.subscribe()
    await append_and_fold(store, envelope("orders/updated", payloads.order("ord_1", 5)))
    await append_and_fold(
        store, envelope("products/update", payloads.product(at=400, stock=12))
    )
    await deliver_all(sink)
    assert books.received() == [("product.updated", "prod_1")]


async def test_orders_that_the_first_reading_finds_are_old_or_new_by_their_date(
    store: Store, clock: VirtualClock
) -> None:
    await clock.advance(600)
    books = WithLookup()
    sink = delivery_worker(books, store, clock)
    await sink.subscribe()
    old = payloads.order("ord_7", 100, number=7, placedAt=instant(100))
    new = payloads.order("ord_8", 601, number=8, placedAt=instant(601))
    await append_and_fold(
        store, envelope("orders/updated", old), envelope("orders/updated", new)
    )
    await deliver_all(sink)
    assert books.received() == [("order.placed", "ord_8")]


async def test_all_existing_orders_are_delivered_once_when_requested(
    store: Store, clock: VirtualClock
) -> None:
    await append_and_fold(store, envelope("orders/updated", payloads.order("ord_1", 5)))
    books = WithLookup()
    sink = delivery_worker(books, store, clock, begin="all")
    await sink.subscribe()
    await deliver_all(sink)
    assert sorted(books.received()) == [
        ("order.placed", "ord_1"),
        ("order.placed", "ord_2"),
        ("product.updated", "prod_1"),
        ("stock.changed", "var_1"),
    ]


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (
            "confirmed",
            {"confirmation": {"required": True, "confirmedAt": None}},
            {"confirmation": {"required": True, "confirmedAt": LATE}},
        ),
        ("paid", {"financialStatus": "PENDING"}, {"financialStatus": "PAID"}),
    ],
)
async def test_an_order_is_delivered_once_it_is_released(
    store: Store,
    clock: VirtualClock,
    rule: str,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, release_when=rule)
    await sink.subscribe()
    await append_and_fold(store, placed("ord_9", 9, **before))
    await append_and_fold(store, updated("ord_9", 9, 301, **before))
    await deliver_all(sink)
    assert books.received() == []
    await append_and_fold(store, updated("ord_9", 9, 302, **after))
    await deliver_all(sink)
    assert books.received() == [("order.placed", "ord_9")]


async def test_an_order_cancelled_before_its_release_is_not_delivered(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, release_when="paid")
    await sink.subscribe()
    await append_and_fold(store, placed("ord_9", 9))
    cancellation = {"cancelledAt": instant(303), "reason": "OTHER"}
    paid = {"financialStatus": "PAID", "cancellation": cancellation}
    await append_and_fold(store, updated("ord_9", 9, 303, **paid))
    await deliver_all(sink)
    assert books.received() == []


async def test_the_echo_of_a_command_is_withheld_from_its_own_instance_only(
    store: Store, clock: VirtualClock
) -> None:
    own, other = WithLookup("own"), WithLookup("other")
    sinks = [delivery_worker(books, store, clock) for books in (own, other)]
    for sink in sinks:
        await sink.subscribe()
    await append_and_fold(store, placed("ord_9", 9), updated("ord_9", 9, 301))
    own_change = {"instance": "own"}
    overwrite(store.place, "changes", own_change, change="orders/updated")
    for sink in sinks:
        await deliver_all(sink)
    assert own.received() == [("order.placed", "ord_9")]
    assert other.received() == [("order.placed", "ord_9"), ("order.updated", "ord_9")]
    assert ("order.updated", "ord_9", "superseded") in deliveries_of(store)


async def test_a_cancellation_by_a_customer_is_delivered_whatever_its_event_shows(
    store: Store, clock: VirtualClock
) -> None:
    """The webhook of our own parcel is late: the cancellation shows it first."""
    own, other = WithLookup("own"), WithLookup("other")
    sinks = [delivery_worker(books, store, clock) for books in (own, other)]
    for sink in sinks:
        await sink.subscribe()
    await append_and_fold(store, placed("ord_9", 9), placed("ord_8", 8))
    for sink in sinks:
        await deliver_all(sink)
    for number, kind, order, effect in (
        (1, "fulfill", "ord_9", "shp_1"),
        (2, "cancel", "ord_8", f"ord_8@{CANCELLED}"),
    ):
        done = {"instance": "own", "effect_id": effect}
        insert_command(store.place, f"c{number}", kind, order, "applied", **done)
    cancelled = {"cancellation": {"cancelledAt": CANCELLED, "reason": "OTHER"}}
    parcel = payloads.shipment("shp_1")
    await append_and_fold(
        store,
        updated("ord_9", 9, 302, shipments=[parcel], **cancelled),
        updated("ord_8", 8, 302, **cancelled),
    )
    for sink in sinks:
        await deliver_all(sink)
    assert ("order.cancelled", "ord_9") in own.received()
    assert ("order.cancelled", "ord_8") not in own.received(), (
        "it cancelled that itself"
    )
    assert ("order.cancelled", "ord_8") in other.received()


async def test_a_sale_after_our_own_adjustment_is_delivered(
    store: Store, clock: VirtualClock
) -> None:
    """The same holds if it is folded between the change feed and the delivery."""
    books = WithLookup("own")
    sink = delivery_worker(books, store, clock)
    await sink.subscribe()

    async def moves(at: int, stock: int, by: int) -> None:
        change = payloads.stock_change(at=at, stock=stock, adjustment=by)
        await append_and_fold(store, envelope("inventory/level_update", change))

    await moves(300, 10, -2)
    overwrite(store.place, "changes", {"instance": "own"}, kind="level")
    own = Subscriber(instance="own", store="main", topics=frozenset(TOPICS))
    assert not await store.deliveries.fan_out(own, 1.0)
    await moves(301, 7, -3)
    assert await store.deliveries.claim(own) is None
    await deliver_all(sink)
    assert [change.document["stock"] for change in books.changes] == [7]


async def test_the_earlier_level_is_delivered_after_an_uncertain_one(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock)
    await sink.subscribe()
    for at, stock, by, said in (
        (300, 10, -2, []),
        (301, 7, -3, [Uncertain("no answer")]),
        (302, 10, 3, []),
    ):
        books.outcomes += said
        books.lookup_outcomes += [Found("r7") for _ in said]
        change = payloads.stock_change(at=at, stock=stock, adjustment=by)
        await append_and_fold(store, envelope("inventory/level_update", change))
        await deliver_all(sink)
    assert books.changes[-1].document["stock"] == 10
    assert len(deliveries_of(store, "stock.")) == 3


async def test_outdated_changes_are_skipped(store: Store, clock: VirtualClock) -> None:
    """There are more of them than fit into one transaction."""
    books = WithLookup()
    sink = delivery_worker(books, store, clock)
    await sink.subscribe()
    for at in range(2 * MOST_SKIPPED + 1):
        change = payloads.stock_change(at=300 + at, stock=10 + at, adjustment=1)
        await append_and_fold(store, envelope("inventory/level_update", change))
    await deliver_all(sink)
    assert [change.document["stock"] for change in books.changes] == [10 + at]


async def test_stock_is_delivered_for_each_variant_that_differs(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock)
    await sink.subscribe()
    change = payloads.stock_change(at=300, stock=10, adjustment=-2)
    await append_and_fold(store, envelope("inventory/level_update", change))
    await deliver_all(sink)
    same = payloads.product(at=301, variants=[payloads.variant(stock=10)])
    await append_and_fold(store, envelope("products/update", same))
    await deliver_all(sink)
    assert books.received() == [
        ("stock.changed", "var_1"),
        ("product.updated", "prod_1"),
    ]
    assert books.changes[0].document == {
        "id": "var_1",
        "productId": "prod_1",
        "variantId": "var_1",
        "sku": "LS-S",
        "stock": 10,
    }


async def test_only_the_configured_topics_are_delivered(
    store: Store, clock: VirtualClock
) -> None:
    books = WithLookup()
    sink = delivery_worker(books, store, clock, topics=frozenset({"order.updated"}))
    await sink.subscribe()
    await append_and_fold(store, placed("ord_9", 9), updated("ord_9", 9, 301))
    await deliver_all(sink)
    assert set(books.received()) == {("order.updated", "ord_9")}


async def test_a_restarted_worker_repeats_no_change_of_the_feed(
    store: Store, clock: VirtualClock
) -> None:
    first, second = (
        delivery_worker(WithLookup(), store, clock, dry_run=True) for _ in "ab"
    )
    await first.subscribe()
    await append_and_fold(store, placed("ord_9", 9), updated("ord_9", 9, 301))
    await deliver_all(first)
    await second.subscribe()
    await deliver_all(second)
    assert deliveries_of(store) == [
        ("order.placed", "ord_1", "superseded"),
        ("order.placed", "ord_2", "superseded"),
        ("order.placed", "ord_9", "planned"),
        ("order.updated", "ord_9", "planned"),
    ]
