"""Tests of which changes of products and stock a connection receives, and echoes."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.core.identity import cancellation
from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Deletion, Level
from backhaul.store.deliveries import DeliveryOutcome
from backhaul.store.testing.command_scenes import ADJUSTMENT, at, sent
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.delivery_rules import (
    LATER,
    NOW,
    claim,
    end,
    planned,
    take,
)
from backhaul.store.testing.mirror_scenes import (
    NOON,
    show,
    show_level,
    show_order,
    show_product,
    version,
)

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.testing.contract import MovableClock

STOCK = replace(NOW, topics=frozenset({"stock.changed"}))


class DeliveredChangesConformance(FamilyTests):
    """Tests of products, stock, and the echoes of a connection's own commands."""

    async def test_a_deleted_product_is_delivered_as_its_id(
        self, store: Store, clock: MovableClock
    ) -> None:
        await store.deliveries.subscribe(NOW)
        await show_product(store, "prod_1")
        await take(store)
        gone = version(9, b"gone")
        deletion = Deletion("prod_1", gone.updated_at)

        def write(mirror: MirrorWriter, event: int) -> None:
            mirror.delete_product("main", deletion, gone)
            mirror.add_change("main", "product", "prod_1", "deleted", event)

        await show(store, "product", "prod_1", write)
        found = await claim(store)
        assert (found.topic, found.object_id) == ("product.deleted", "prod_1")
        assert found.document == {"id": "prod_1"}
        assert found.occurred_at == at(clock)

    async def test_an_old_product_is_delivered_once_it_changes(
        self, store: Store, clock: MovableClock
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
        self, store: Store, clock: MovableClock
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
            await store.deliveries.decide(first.seq, "drop", "ann", "seen")
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
        self, store: Store, clock: MovableClock
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


async def adjusted(store: Store, effect: str) -> None:
    """Apply an adjustment that the connection submitted."""
    await sent(
        store,
        Cause.CONFIRMED,
        change={"effect_id": effect},
        kind="adjust",
        target="prod_1",
        payload=ADJUSTMENT,
        instance="books",
    )
