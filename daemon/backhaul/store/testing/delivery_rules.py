"""Tests of which orders a connection receives, and of attempts that resolve nothing."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.core.lifecycle import Cause
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.testing.command_scenes import at
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import (
    NOON,
    order,
    show,
    show_customer,
    show_order,
    show_product,
    version,
)

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.deliveries import Outgoing
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.read_records import ListedDelivery
    from backhaul.store.testing.contract import MovableClock

LATER = 1_800
ORDER_TOPICS = frozenset({"order.placed", "order.updated", "order.cancelled"})
OBJECT_TOPICS = frozenset({"product.updated", "product.deleted", "customer.updated"})
NOW = Subscriber(instance="books", store="main", topics=ORDER_TOPICS | OBJECT_TOPICS)
ALL = replace(NOW, begin="all")
DONE = DeliveryOutcome(cause=Cause.CONFIRMED, reason="taken")


async def listed(store: Store, subscriber: Subscriber) -> list[ListedDelivery]:
    """Turn all changes into deliveries; return those, the oldest first."""
    while await store.deliveries.fan_out(subscriber, 1.0):
        pass
    rows = await store.read(lambda r: r.deliveries(subscriber.instance, None, 99))
    return rows[::-1]


async def planned(store: Store, subscriber: Subscriber = NOW) -> list[tuple[str, str]]:
    """Return the topic and object of each delivery that is to be sent."""
    found = await listed(store, subscriber)
    return [(row.topic, row.object_id) for row in found if row.state == "planned"]


async def claim(store: Store, subscriber: Subscriber = NOW) -> Outgoing:
    """Claim the next delivery, which must be there."""
    while await store.deliveries.fan_out(subscriber, 1.0):
        pass
    found = await store.deliveries.claim(subscriber)
    assert found is not None
    return found


async def end(store: Store, delivery: Outgoing, cause: Cause = Cause.CONFIRMED) -> None:
    """Record the outcome of a delivery of the connection."""
    outcome = replace(DONE, cause=cause)
    assert await store.deliveries.record_outcome("books", delivery, outcome)


async def take(store: Store, subscriber: Subscriber = NOW) -> list[tuple[str, str]]:
    """Deliver everything that is due; return the topics and objects."""
    while await store.deliveries.fan_out(subscriber, 1.0):
        pass
    taken = []
    while (found := await store.deliveries.claim(subscriber)) is not None:
        await end(store, found)
        taken.append((found.topic, found.object_id))
    return taken


async def remove(store: Store, id_: str) -> None:
    """Let an event report that an order is gone."""
    gone = version(30, b"gone")

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.remove("order", "main", id_, gone)
        mirror.add_change("main", "order", id_, "deleted", event)

    await show(store, "order", id_, write)


class DeliveredOrdersConformance(FamilyTests):
    """Tests of which orders a connection receives."""

    async def test_an_order_from_before_the_connection_is_never_delivered(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_order(store, "ord_1")
        clock.advance(LATER)
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_2", LATER)
        await show_order(store, "ord_1", LATER)
        await show_order(store, "ord_1", LATER, cancelled_at=at(clock))
        assert await planned(store) == []

    async def test_nothing_from_before_the_connection_is_delivered_however_recent(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        await show_customer(store, "cus_1", "a@b.example")
        await show_product(store, "prod_1")
        await store.deliveries.subscribe(NOW)
        assert await planned(store) == []
        await show_order(store, "ord_1", 1)
        await show_order(store, "ord_1", 2, cancelled_at=NOON)
        assert await planned(store) == []
        await show_product(store, "prod_1", 1)
        assert await planned(store) == [("product.updated", "prod_1")]

    async def test_an_order_of_a_platform_whose_clock_is_behind_is_new(
        self, store: Store, clock: MovableClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        for id_, age in (("ord_1", 59), ("ord_2", 61)):
            await show_order(store, id_, placed_at=at(clock, -age))
        assert await planned(store) == [("order.placed", "ord_1")]

    async def test_only_the_first_contact_decides_what_is_old(
        self, store: Store, clock: MovableClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        placed_at = at(clock, 60)
        clock.advance(LATER)
        await show_order(store, "ord_1", placed_at=placed_at)
        await store.deliveries.subscribe(NOW)
        assert await planned(store) == [("order.placed", "ord_1")]

    async def test_changes_from_before_a_connection_that_wants_all_are_one(
        self, store: Store
    ) -> None:
        for second in range(3):
            await show_order(store, "ord_1", second)
            await show_customer(store, "cus_1", "a@b.example")
        await store.deliveries.subscribe(ALL)
        once = [("order.placed", "ord_1"), ("customer.updated", "cus_1")]
        assert await planned(store, ALL) == once
        await show_order(store, "ord_1", 5)
        await show_customer(store, "cus_1", "a@b.example")
        assert (await planned(store, ALL))[2:] == [
            ("order.updated", "ord_1"),
            ("customer.updated", "cus_1"),
        ]

    @pytest.mark.parametrize("status", ["PAID", "paid ", "PARTIALLY_REFUNDED"])
    async def test_an_order_is_released_once_it_is_paid(
        self, status: str, store: Store
    ) -> None:
        waits = replace(NOW, release_when="paid")
        await store.deliveries.subscribe(waits)
        for second, unpaid in enumerate(("PENDING", "ON_HOLD", "VOIDED")):
            await show_order(store, "ord_1", second, financial_status=unpaid)
        assert await planned(store, waits) == []
        for second in (5, 6):
            await show_order(store, "ord_1", second, financial_status=status)
        assert await planned(store, waits) == [
            ("order.placed", "ord_1"),
            ("order.updated", "ord_1"),
        ]

    async def test_an_order_that_ends_before_it_is_released_is_not_delivered(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1", cancelled_at=NOON)
        await show_order(store, "ord_2", financial_status="REFUNDED")
        await show_order(store, "ord_1", 1, cancelled_at=NOON)
        assert await planned(store) == []

    async def test_a_refund_of_an_open_order_is_its_cancellation(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(NOW)
        for id_ in ("ord_1", "ord_2"):
            await show_order(store, id_)
        assert len(await take(store)) == 2
        await show_order(store, "ord_1", 1, financial_status="REFUNDED")
        shipped = {"financial_status": "REFUNDED", "fulfillment_status": "FULFILLED"}
        await show_order(store, "ord_2", 1, **shipped)
        assert await planned(store) == [
            ("order.cancelled", "ord_1"),
            ("order.updated", "ord_2"),
        ]

    async def test_a_connection_without_new_orders_gets_changes_of_all(
        self, store: Store, clock: MovableClock
    ) -> None:
        updates = replace(NOW, topics=frozenset({"order.updated"}))
        await show_order(store, "ord_1")
        clock.advance(LATER)
        await store.deliveries.subscribe(updates)
        await show_order(store, "ord_2", placed_at=NOON)
        assert await planned(store, updates) == []
        await show_order(store, "ord_1", LATER)
        assert await planned(store, updates) == [("order.updated", "ord_1")]

    async def test_an_order_that_is_gone_is_not_delivered(self, store: Store) -> None:
        await store.deliveries.subscribe(NOW)
        for id_ in ("ord_1", "ord_2"):
            await show_order(store, id_)
        await listed(store, NOW)
        await remove(store, "ord_1")
        assert await take(store) == [("order.placed", "ord_2")]
        gone, _ = await listed(store, NOW)
        assert gone.state == "superseded"
        assert gone.reason == "the object is gone, or was delivered already"

    async def test_many_outdated_deliveries_hide_none(self, store: Store) -> None:
        await store.deliveries.subscribe(NOW)
        number = 120
        shown = [order(f"ord_{each}") for each in range(number)]

        def write(mirror: MirrorWriter, event: int) -> None:
            for each in shown:
                mirror.put_order("main", each, version(0, each.document))
                mirror.add_change("main", "order", each.id, "created", event)

        def erase(mirror: MirrorWriter, event: int) -> None:
            for each in shown[:-1]:
                mirror.remove("order", "main", each.id, version(9, b"gone"))

        await show(store, "order", "ord_1", write)
        await listed(store, NOW)
        await show(store, "order", "ord_1", erase)
        assert (await claim(store)).object_id == shown[-1].id

    async def test_connections_follow_the_changes_each_for_itself(
        self, store: Store
    ) -> None:
        other = replace(NOW, instance="shop")
        for subscriber in (NOW, other):
            await store.deliveries.subscribe(subscriber)
        await show_order(store, "ord_1")
        assert await take(store) == [("order.placed", "ord_1")]
        await show_order(store, "ord_1", 1, name="other")
        assert await planned(store, other) == [("order.placed", "ord_1")]
        assert await store.deliveries.has_open("shop")
        assert await take(store) == []
        assert not await store.deliveries.has_open("books")


class DeliveryOutcomesConformance(FamilyTests):
    """Tests of attempts and checks of a delivery that do not resolve it."""

    async def test_a_delivery_that_is_not_resolved_has_no_time_of_its_end(
        self, store: Store, clock: MovableClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        for cause in (Cause.NOT_SENT, Cause.UNKNOWN):
            clock.advance(60)
            found = await claim(store)
            await end(store, found, cause)
            (shown,) = await listed(store, NOW)
            assert (shown.settled_at, shown.sent_at) == (None, at(clock))
        assert (shown.state, shown.attempts) == ("uncertain", 2)

    async def test_a_reference_is_kept_until_there_is_another(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        found = await claim(store)
        for cause, reference, expected in (
            (Cause.UNKNOWN, "R1", "R1"),
            (Cause.UNKNOWN, None, "R1"),
            (Cause.PROVED_APPLIED, "R2", "R2"),
        ):
            outcome = DeliveryOutcome(cause=cause, reason="x", reference=reference)
            assert await store.deliveries.record_outcome("books", found, outcome)
            (shown,) = await listed(store, NOW)
            assert shown.reference == expected

    async def test_the_check_that_is_longest_due_comes_first(
        self, store: Store, clock: MovableClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        for id_, seconds in (("ord_1", 5), ("ord_2", 3), ("ord_3", 4)):
            await show_order(store, id_)
            due_at = at(clock, seconds)
            doubt = replace(DONE, cause=Cause.UNKNOWN, due_at=due_at)
            found = await claim(store)
            assert found.object_id == id_
            await store.deliveries.record_outcome("books", found, doubt)
        clock.advance(60)
        for id_ in ("ord_2", "ord_3", "ord_1"):
            due = await store.deliveries.next_uncertain("books")
            assert due is not None
            assert due.object_id == id_
            await end(store, due, Cause.PROVED_APPLIED)
        assert await store.deliveries.next_uncertain("books") is None

    async def test_a_start_after_the_clock_went_back_delays_no_check(
        self, store: Store, clock: MovableClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        doubt = replace(DONE, cause=Cause.UNKNOWN, due_at=at(clock))
        found = await claim(store)
        await store.deliveries.record_outcome("books", found, doubt)
        clock.set_by(-LATER)
        assert await store.deliveries.next_uncertain("books") is None
        await store.deliveries.subscribe(NOW)
        assert await store.deliveries.next_uncertain("books") is not None

    async def test_an_uncertain_delivery_of_an_object_that_is_gone_can_be_checked(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        await end(store, await claim(store), Cause.UNKNOWN)
        await remove(store, "ord_1")
        found = await store.deliveries.next_uncertain("books")
        assert found is not None
        assert found.document == {"id": "ord_1"}
