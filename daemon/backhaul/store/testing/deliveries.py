"""Tests of deliveries: changes for each connection, in order, without echoes."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.core.lifecycle import Cause, State
from backhaul.errors import BackhaulError
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.testing.command_scenes import (
    ADJUSTMENT,
    adjusted,
    at,
    audit_entries,
    in_brief,
    resolve,
    sent,
)
from backhaul.store.testing.delivery_scenes import (
    DONE,
    NOW,
    claim,
    end,
    fan_out,
    listed,
    take,
)
from backhaul.store.testing.mirror_scenes import (
    show_customer,
    show_gone,
    show_level,
    show_order,
    show_product,
)
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.testing.scenes import OpenStore, TestClock

ALL = Subscriber(
    instance="books",
    store="main",
    topics=frozenset(
        {
            "order.placed",
            "order.updated",
            "order.cancelled",
            "product.updated",
            "customer.updated",
            "stock.changed",
        }
    ),
    begin="all",
)
ORDERS = Subscriber(instance="orders", store="main", topics=frozenset({"order.placed"}))
STOCK = Subscriber(
    instance="stock", store="main", topics=frozenset({"stock.changed"}), begin="all"
)
TAKEN = replace(DONE, reference="R1")
DECIDED = [
    (Cause.UNDECIDABLE, "resend", State.PLANNED),
    (Cause.UNDECIDABLE, "applied", State.APPLIED),
    (Cause.UNDECIDABLE, "discard", State.REJECTED),
    (Cause.UNKNOWN, "park", State.PARKED),
]


async def topics(store: Store, instance: str = "books") -> list[tuple[str, str]]:
    """Return the topic and object of each delivery of a connection."""
    return [(each.topic, each.object_id) for each in await listed(store, instance)]


class DeliveriesConformance(StoreConformance):
    """Tests of `Store.deliveries`."""

    async def test_each_change_is_one_delivery(self, store: Store) -> None:
        await store.deliveries.subscribe(ALL)
        await show_order(store, "ord_1")
        await show_order(store, "ord_2", name="other")
        await show_product(store)
        await show_customer(store, "cus_1", "a@b.example")
        for _ in range(2):
            await fan_out(store, ALL)
        await show_order(store, "ord_1", 1)
        await fan_out(store, ALL)
        assert await topics(store) == [
            ("order.placed", "ord_1"),
            ("product.updated", "prod_1"),
            ("customer.updated", "cus_1"),
            ("order.updated", "ord_1"),
        ]

    async def test_the_feed_is_continued_after_a_start(
        self, store: Store, open_store: OpenStore
    ) -> None:
        await store.deliveries.subscribe(ALL)
        await show_customer(store, "cus_1", "a@b.example")
        await fan_out(store, ALL)
        again = await open_store()
        await again.deliveries.subscribe(ALL)
        await show_customer(again, "cus_2", "b@b.example")
        await fan_out(again)
        assert [object_id for _, object_id in await topics(again)] == ["cus_1", "cus_2"]

    async def test_a_connection_gets_only_its_topics(self, store: Store) -> None:
        await store.deliveries.subscribe(ORDERS)
        await show_order(store, "ord_1")
        await show_order(store, "ord_1", 1)
        await show_product(store)
        await fan_out(store, ORDERS)
        assert await topics(store, "orders") == [("order.placed", "ord_1")]

    async def test_a_slice_turns_at_least_one_change(self, store: Store) -> None:
        await store.deliveries.subscribe(ALL)
        for number in range(3):
            await show_customer(store, f"cus_{number}", "a@b.example")
        assert await store.deliveries.fan_out(ALL, 0.0)
        assert len(await listed(store)) == 1
        await fan_out(store, ALL)
        assert len(await listed(store)) == 3

    async def test_a_new_connection_gets_nothing_about_old_orders(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        await store.deliveries.subscribe(ORDERS)
        await show_order(store, "ord_1", 1)
        await show_order(store, "ord_2")
        await fan_out(store, ORDERS)
        claimed = await claim(store, ORDERS)
        assert claimed.object_id == "ord_2"
        assert await store.deliveries.claim(ORDERS) is None

    async def test_a_connection_that_wants_all_gets_old_orders(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        await store.deliveries.subscribe(ALL)
        await fan_out(store, ALL)
        assert await topics(store) == [("order.placed", "ord_1")]

    async def test_an_order_is_released_when_the_connection_wants_it(
        self, store: Store
    ) -> None:
        waits = Subscriber(
            instance="waits",
            store="main",
            topics=ORDERS.topics,
            release_when="confirmed",
        )
        await store.deliveries.subscribe(waits)
        await show_order(store, "ord_1", awaiting_confirmation=True)
        await fan_out(store, waits)
        assert await topics(store, "waits") == []
        await show_order(store, "ord_1", 1)
        await fan_out(store, waits)
        assert await topics(store, "waits") == [("order.placed", "ord_1")]

    async def test_a_cancelled_order_is_reported_once(self, store: Store) -> None:
        await store.deliveries.subscribe(ALL)
        await show_order(store, "ord_1")
        await fan_out(store, ALL)
        for second in (5, 6):
            gone = "2026-03-01T12:00:05.000Z"
            await show_order(store, "ord_1", second, cancelled_at=gone)
            await fan_out(store, ALL)
        assert [topic for topic, _ in await topics(store)] == [
            "order.placed",
            "order.cancelled",
            "order.updated",
        ]

    async def test_a_claim_commits_and_has_the_document_of_now(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(ALL)
        await show_order(store, "ord_1")
        await fan_out(store, ALL)
        await show_order(store, "ord_1", 9)
        claimed = await store.deliveries.claim(ALL)
        assert claimed is not None
        assert (claimed.topic, claimed.object_id) == ("order.placed", "ord_1")
        assert claimed.document["updatedAt"] == "2026-03-01T12:00:09.000Z"
        assert (claimed.store, claimed.attempts) == ("main", 0)
        (shown,) = await listed(store)
        assert (shown.state, shown.attempts) == ("sending", 1)
        assert shown.sent_at == at(clock)
        assert await store.deliveries.claim(ALL) is None

    async def test_deliveries_of_an_object_keep_their_order(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(ALL)
        await show_customer(store, "cus_1", "a@b.example")
        await show_customer(store, "cus_2", "b@b.example")
        await show_customer(store, "cus_1", "c@b.example")
        await fan_out(store, ALL)
        later = DeliveryOutcome(
            cause=Cause.NOT_SENT, reason="busy", due_at=at(clock, 60), failures=1
        )
        first = await claim(store, ALL)
        assert await store.deliveries.record_outcome("books", first, later)
        assert (await claim(store, ALL)).object_id == "cus_2"
        assert await store.deliveries.claim(ALL) is None
        clock.advance(60)
        again = await claim(store, ALL)
        assert (again.seq, again.failures, again.attempts) == (first.seq, 1, 1)

    async def test_a_parked_delivery_blocks_its_object(self, store: Store) -> None:
        await store.deliveries.subscribe(ALL)
        for _ in range(2):
            await show_customer(store, "cus_1", "a@b.example")
        await fan_out(store, ALL)
        outcome = DeliveryOutcome(cause=Cause.UNDECIDABLE, reason="refused")
        first = await claim(store, ALL)
        await store.deliveries.record_outcome("books", first, outcome)
        assert await store.deliveries.claim(ALL) is None
        await store.deliveries.decide(first.seq, "discard", "ann", "seen")
        assert (await claim(store, ALL)).seq > first.seq

    async def test_an_outcome_is_recorded(self, store: Store, clock: TestClock) -> None:
        await store.deliveries.subscribe(ALL)
        await show_customer(store, "cus_1", "a@b.example")
        await fan_out(store, ALL)
        assert await store.deliveries.has_open("books")
        await store.deliveries.record_outcome("books", await claim(store, ALL), TAKEN)
        (shown,) = await listed(store)
        assert (shown.state, shown.reason) == ("applied", "taken")
        assert (shown.reference, shown.settled_at) == ("R1", at(clock))
        assert not await store.deliveries.has_open("books")

    async def test_an_uncertain_delivery_waits_for_its_check(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(ALL)
        await show_customer(store, "cus_1", "a@b.example")
        await fan_out(store, ALL)
        claimed = await claim(store, ALL)
        doubt = DeliveryOutcome(
            cause=Cause.UNKNOWN, reason="no answer", due_at=at(clock, 9), checks=1
        )
        await store.deliveries.record_outcome("books", claimed, doubt)
        assert await store.deliveries.has_open("books")
        assert await store.deliveries.next_uncertain("books") is None
        clock.advance(9)
        assert await store.deliveries.next_uncertain("other") is None
        found = await store.deliveries.next_uncertain("books")
        assert found is not None
        assert (found.seq, found.checks) == (claimed.seq, 1)
        assert await store.deliveries.claim(ALL) is None
        absent = DeliveryOutcome(cause=Cause.PROVED_ABSENT, reason="not there")
        assert await store.deliveries.record_outcome("books", found, absent)
        assert (await claim(store, ALL)).seq == claimed.seq

    async def test_an_interrupted_delivery_is_uncertain_after_the_next_start(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(ALL)
        await store.deliveries.subscribe(STOCK)
        await show_customer(store, "cus_1", "a@b.example")
        await fan_out(store, ALL)
        claimed = await claim(store, ALL)
        await store.deliveries.subscribe(STOCK)
        assert await store.deliveries.next_uncertain("books") is None
        await store.deliveries.subscribe(ALL)
        found = await store.deliveries.next_uncertain("books")
        assert found is not None
        assert found.seq == claimed.seq

    async def test_a_start_after_the_clock_went_back_delays_nothing(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(ALL)
        await show_customer(store, "cus_1", "a@b.example")
        await fan_out(store, ALL)
        clock.set_by(-3600)
        assert await store.deliveries.claim(ALL) is None
        await store.deliveries.subscribe(ALL)
        assert (await claim(store, ALL)).object_id == "cus_1"

    @pytest.mark.parametrize(("cause", "verb", "state"), DECIDED)
    async def test_an_operator_decides(
        self, cause: Cause, verb: str, state: State, store: Store
    ) -> None:
        seq = await ended(store, cause)
        assert await store.deliveries.decide(seq, verb, "ann", "seen") is state
        (shown,) = await listed(store)
        assert (shown.state, shown.reason) == (state, f"{verb} by ann: seen")
        (entry,) = await audit_entries(store)
        detail = f"delivery {seq}: seen"
        assert in_brief(entry) == ("ann", f"deliveries {verb}", detail)

    async def test_an_impossible_decision_changes_nothing(self, store: Store) -> None:
        seq = await ended(store, Cause.CONFIRMED)
        with pytest.raises(BackhaulError, match="is not possible"):
            await store.deliveries.decide(seq, "discard", "ann", "seen")
        with pytest.raises(BackhaulError, match="there is no delivery"):
            await store.deliveries.decide(seq + 1, "discard", "ann", "seen")
        assert (await listed(store))[0].state == "applied"
        assert await audit_entries(store) == []

    async def test_the_outcome_of_a_decided_delivery_is_not_recorded(
        self, store: Store
    ) -> None:
        await ended(store, Cause.UNKNOWN)
        found = await store.deliveries.next_uncertain("books")
        assert found is not None
        await store.deliveries.decide(found.seq, "park", "ann", "seen")
        assert not await store.deliveries.record_outcome("books", found, TAKEN)
        assert (await listed(store))[0].state == "parked"

    async def test_the_echo_of_a_command_is_withheld_from_its_connection(
        self, store: Store
    ) -> None:
        for subscriber in (ALL, STOCK):
            await store.deliveries.subscribe(subscriber)
        await show_product(store)
        await fan_out(store, ALL)
        await adjusted(store, "adj_1", instance="books")
        await show_level(store, 3, 1, adjustment="adj_1", delta=-2)
        for subscriber in (ALL, STOCK):
            await fan_out(store, subscriber)
        assert await take(store, ALL) == [("product.updated", "prod_1")]
        assert await take(store, STOCK) == [("stock.changed", "var_1")]
        assert (await listed(store))[-1].state == "superseded"

    async def test_a_change_waits_until_it_is_known_whether_it_is_an_echo(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(STOCK)
        await show_product(store)
        command = await sent(
            store,
            kind="adjust",
            target="prod_1",
            payload=ADJUSTMENT,
            instance="books",
        )
        await show_level(store, 3, 1, adjustment="adj_1", delta=-2)
        await fan_out(store, STOCK)
        assert await store.deliveries.claim(STOCK) is None
        await resolve(store, command, Cause.CONFIRMED, effect_id="adj_2")
        assert await take(store, STOCK) == [("stock.changed", "var_1")]

    async def test_a_level_that_was_delivered_is_not_delivered_again(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(STOCK)
        for second, stock in enumerate((5, 5, 7)):
            await show_level(store, stock, second)
            await fan_out(store, STOCK)
            found = await take(store, STOCK)
            assert found == ([] if second == 1 else [("stock.changed", "var_1")])


class DeliveryOutcomesConformance(StoreConformance):
    """Tests of attempts and checks of a delivery that do not resolve it."""

    async def test_a_delivery_that_is_not_resolved_has_no_time_of_its_end(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        for cause in (Cause.NOT_SENT, Cause.UNKNOWN):
            clock.advance(60)
            found = await claim(store)
            await end(store, found, cause)
            (shown,) = await listed(store)
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
            (shown,) = await listed(store)
            assert shown.reference == expected

    async def test_the_check_that_is_longest_due_comes_first(
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        doubt = replace(DONE, cause=Cause.UNKNOWN, due_at=at(clock))
        found = await claim(store)
        await store.deliveries.record_outcome("books", found, doubt)
        clock.set_by(-1_800)
        assert await store.deliveries.next_uncertain("books") is None
        await store.deliveries.subscribe(NOW)
        assert await store.deliveries.next_uncertain("books") is not None

    async def test_an_uncertain_delivery_of_an_object_that_is_gone_can_be_checked(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        await end(store, await claim(store), Cause.UNKNOWN)
        await show_gone(store, "order", "ord_1")
        found = await store.deliveries.next_uncertain("books")
        assert found is not None
        assert found.document == {"id": "ord_1"}


async def ended(store: Store, cause: Cause) -> int:
    """Let one delivery end by a cause; return its number."""
    await store.deliveries.subscribe(ALL)
    await show_customer(store, "cus_1", "a@b.example")
    await fan_out(store, ALL)
    claimed = await claim(store, ALL)
    outcome = DeliveryOutcome(cause=cause, reason="why")
    assert await store.deliveries.record_outcome("books", claimed, outcome)
    return claimed.seq
