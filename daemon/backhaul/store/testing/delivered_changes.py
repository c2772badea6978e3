"""Tests of which orders, products and stock a connection receives, and of echoes."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.core.identity import cancellation
from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Level
from backhaul.store.deliveries import DeliveryOutcome
from backhaul.store.testing.command_scenes import adjusted, at, sent
from backhaul.store.testing.delivery_scenes import (
    NOW,
    claim,
    end,
    fan_out,
    listed,
    planned,
    take,
)
from backhaul.store.testing.event_scenes import NOON
from backhaul.store.testing.mirror_scenes import (
    order,
    show,
    show_customer,
    show_gone,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.testing.target_scenes import restore

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.testing.scenes import TestClock


LATER = 1_800
ALL = replace(NOW, begin="all")


class DeliveredOrdersConformance(StoreConformance):
    """Tests of which orders a connection receives."""

    async def test_an_order_from_before_the_connection_is_never_delivered(
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        for id_, age in (("ord_1", 59), ("ord_2", 61)):
            await show_order(store, id_, placed_at=at(clock, -age))
        assert await planned(store) == [("order.placed", "ord_1")]

    async def test_only_the_first_contact_decides_what_is_old(
        self, store: Store, clock: TestClock
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

    async def test_an_order_that_ended_in_what_a_restore_lost_is_cancelled(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        clock.advance(LATER)
        await restore(store, 1)
        restored, later = at(clock), at(clock, LATER)
        await show_order(store, "ord_1", 1, placed_at=NOON, cancelled_at=NOON)
        await show_order(store, "ord_2", 1, placed_at=restored, cancelled_at=restored)
        await show_order(store, "ord_3", 1, placed_at=later, cancelled_at=later)
        cancelled = [("order.cancelled", "ord_1"), ("order.cancelled", "ord_2")]
        assert await planned(store) == cancelled
        await show_order(store, "ord_1", 2, placed_at=NOON, cancelled_at=NOON)
        assert await planned(store) == cancelled

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
        self, store: Store, clock: TestClock
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
        await fan_out(store)
        await show_gone(store, "order", "ord_1")
        assert await take(store) == [("order.placed", "ord_2")]
        gone, _ = await listed(store)
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
        await fan_out(store)
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


STOCK = replace(NOW, topics=frozenset({"stock.changed"}))


class DeliveredChangesConformance(StoreConformance):
    """Tests of products, stock, and the echoes of a connection's own commands."""

    async def test_a_deleted_product_is_delivered_as_its_id(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_product(store, "prod_1")
        await take(store)
        await show_gone(store, "product", "prod_1")
        found = await claim(store)
        assert (found.topic, found.object_id) == ("product.deleted", "prod_1")
        assert found.document == {"id": "prod_1"}
        assert found.occurred_at == at(clock)

    async def test_an_old_product_is_delivered_once_it_changes(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_product(store, "prod_1")
        clock.advance(LATER)
        await store.deliveries.subscribe(NOW)
        await show_product(store, "prod_2")
        assert await planned(store) == []
        await show_product(store, "prod_1", LATER)
        assert await planned(store) == [("product.updated", "prod_1")]

    async def test_a_level_is_delivered_with_its_variant(self, store: Store) -> None:
        await store.deliveries.subscribe(STOCK)
        await show_product(store)
        await show_level(store, 7)
        found = await claim(store, STOCK)
        assert (found.topic, found.object_id) == ("stock.changed", "var_1")
        assert found.document == {
            "id": "var_1",
            "productId": "prod_1",
            "variantId": "var_1",
            "sku": "SKU-1",
            "stock": 7,
        }

    async def test_a_new_connection_gets_no_level_that_was_there_before(
        self, store: Store
    ) -> None:
        await show_level(store, 7)
        await store.deliveries.subscribe(STOCK)
        await show_level(store, 7, 1)
        assert await planned(store, STOCK) == []
        await show_level(store, 8, 2)
        assert await planned(store, STOCK) == [("stock.changed", "var_1")]

    async def test_a_level_that_comes_with_its_product_is_delivered(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(STOCK)
        seen = version(1, b"")

        def write(mirror: MirrorWriter, event: int) -> None:
            mirror.put_level("main", Level("prod_1", "var_1", 7), seen)
            mirror.add_change("main", "product", "prod_1", "updated", event)

        await show(store, "product", "prod_1", write)
        assert await planned(store, STOCK) == [("stock.changed", "var_1")]

    async def test_a_level_that_was_read_late_is_not_delivered_as_new(
        self, store: Store, clock: TestClock
    ) -> None:
        clock.advance(LATER)
        await store.deliveries.subscribe(STOCK)
        await show_level(store, 7)
        assert await planned(store, STOCK) == []
        await show_level(store, 8, LATER)
        assert await planned(store, STOCK) == [("stock.changed", "var_1")]

    async def test_a_level_that_returned_before_its_delivery_is_not_delivered(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(STOCK)
        await show_level(store, 7)
        assert len(await take(store, STOCK)) == 1
        await show_level(store, 8, 1)
        assert len(await planned(store, STOCK)) == 1
        await show_level(store, 7, 2)
        assert await take(store, STOCK) == []

    @pytest.mark.parametrize("cause", [Cause.UNKNOWN, Cause.REFUSED])
    async def test_a_level_of_unknown_arrival_is_delivered_again(
        self, cause: Cause, store: Store
    ) -> None:
        await store.deliveries.subscribe(STOCK)
        await show_level(store, 7)
        assert len(await take(store, STOCK)) == 1
        await show_level(store, 8, 1)
        first = await claim(store, STOCK)
        await end(store, first, cause)
        if cause is Cause.UNKNOWN:
            await store.deliveries.decide(first.seq, "park", "ann", "seen")
            await store.deliveries.decide(first.seq, "discard", "ann", "seen")
        await show_level(store, 7, 2)
        assert await take(store, STOCK) == [("stock.changed", "var_1")]

    async def test_the_level_of_an_echo_counts_as_delivered(self, store: Store) -> None:
        await store.deliveries.subscribe(STOCK)
        await adjusted(store, "adj_1")
        await show_level(store, 5, 1, adjustment="adj_1", delta=-2)
        assert await take(store, STOCK) == []
        await show_level(store, 5, 2)
        assert await take(store, STOCK) == []
        await show_level(store, 6, 3)
        assert await take(store, STOCK) == [("stock.changed", "var_1")]

    async def test_a_change_behind_an_echo_is_delivered(self, store: Store) -> None:
        await store.deliveries.subscribe(STOCK)
        await adjusted(store, "adj_1")
        await show_level(store, 5, 1, adjustment="adj_1", delta=-2)
        await show_level(store, 4, 2)
        assert await take(store, STOCK) == [("stock.changed", "var_1")]

    async def test_a_change_that_is_not_a_delivery_yet_is_not_lost_behind_an_echo(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(STOCK)
        await adjusted(store, "adj_1")
        await show_level(store, 5, 1, adjustment="adj_1", delta=-2)
        await store.deliveries.fan_out(STOCK, 1.0)
        await show_level(store, 4, 2)
        assert await store.deliveries.claim(STOCK) is None
        assert await take(store, STOCK) == [("stock.changed", "var_1")]

    async def test_an_own_cancellation_is_withheld_and_a_foreign_one_delivered(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(NOW)
        for id_ in ("ord_1", "ord_2"):
            await show_order(store, id_)
        assert len(await take(store)) == 2
        effect = cancellation("ord_1", NOON)
        change = {"effect_id": effect}
        await sent(
            store, Cause.CONFIRMED, change=change, kind="cancel", instance="books"
        )
        await show_order(store, "ord_1", 1, effects=[effect], cancelled_at=NOON)
        await show_order(store, "ord_2", 1, cancelled_at=NOON)
        assert await take(store) == [("order.cancelled", "ord_2")]

    async def test_an_own_parcel_does_not_hide_a_foreign_cancellation(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        assert len(await take(store)) == 1
        change = {"effect_id": "shp_1"}
        await sent(store, Cause.CONFIRMED, change=change, instance="books")
        await show_order(store, "ord_1", 1, effects=["shp_1"], cancelled_at=NOON)
        assert await take(store) == [("order.cancelled", "ord_1")]

    async def test_an_own_parcel_is_withheld_and_a_new_order_never(
        self, store: Store
    ) -> None:
        await store.deliveries.subscribe(NOW)
        change = {"effect_id": "shp_1"}
        await sent(store, Cause.CONFIRMED, change=change, instance="books")
        await show_order(store, "ord_1", effects=["shp_1"])
        assert await take(store) == [("order.placed", "ord_1")]
        change = {"effect_id": "shp_2"}
        await sent(store, Cause.CONFIRMED, change=change, instance="books")
        await show_order(store, "ord_1", 1, effects=["shp_2"])
        assert await take(store) == []

    async def test_a_resent_delivery_begins_without_failures(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        first = await claim(store)
        later = DeliveryOutcome(
            cause=Cause.NOT_SENT, reason="busy", due_at=at(clock, 60), failures=5
        )
        await store.deliveries.record_outcome("books", first, later)
        clock.advance(60)
        again = await claim(store)
        assert again.failures == 5
        doubt = replace(later, cause=Cause.UNDECIDABLE)
        await store.deliveries.record_outcome("books", again, doubt)
        await store.deliveries.decide(first.seq, "resend", "ann", "seen")
        resent = await claim(store)
        assert (resent.seq, resent.failures, resent.checks) == (first.seq, 0, 0)
