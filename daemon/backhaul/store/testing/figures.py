"""Tests of the figures of status and dashboard, and of the rest of the conditions."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Deletion
from backhaul.store.commands import Decision, TaggedAdjustment
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.mirror import UnknownStatus
from backhaul.store.read_records import (
    ConfirmationTimes,
    ConnectionFigures,
    StoreFigures,
)
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import ADJUSTMENT, at, plan, sent
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import (
    show,
    show_customer,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.stock_targets import count
from backhaul.store.testing.transactions import fold_with

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.operations import AlertConditions
    from backhaul.store.read_records import Counts, Overview
    from backhaul.store.testing.contract import MovableClock

HOUR = 3_600.0
PAID = Subscriber(
    instance="books",
    store="main",
    topics=frozenset({"order.placed"}),
    begin="all",
    release_when="paid",
)
CUSTOMERS = replace(PAID, topics=frozenset({"customer.updated"}))


async def counts(store: Store) -> Counts:
    """Return the backlog, and what needs an operator."""
    return await store.read(lambda reader: reader.counts())


async def conditions(store: Store) -> AlertConditions:
    """Return the alert conditions, which operators are shown the same."""
    found = await store.alert_conditions.current([])
    assert await store.read(lambda reader: reader.conditions([])) == found
    return found


async def overview(store: Store, *instances: str) -> Overview:
    """Return the figures of two stores and of connections."""
    return await store.read(lambda r: r.overview(["main", "other"], instances))


async def receive(
    store: Store, clock: MovableClock, name: str = "main", kind: str = "delivery"
) -> None:
    """Append an event that is not folded."""
    await store.inbox.append(Arrival(name, kind, "", at(clock), b"{}", b"{}"))


async def fold_unhandled(
    store: Store, clock: MovableClock, topic: str, detail: str = "no such topic"
) -> None:
    """Append an event, and fold it as one of an unknown topic."""
    await receive(store, clock)
    folded = Folded("unhandled", topic, detail=detail)
    await fold_with(store, lambda *_: folded)


async def hold(store: Store, order_id: str, name: str = "main") -> int:
    """Let an unreadable event hold the commands of an order; return its id."""

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.hold_order(name, order_id, event, "no JSON", version(9, b"").updated_at)

    return await show(store, "order", order_id, write, name=name)


async def release(store: Store, order_id: str, *, began: int) -> None:
    """Let a read of an order that began so many seconds after noon show it."""

    def write(mirror: MirrorWriter, event: int) -> None:
        at_ = version(began, b"").updated_at
        mirror.release_order("main", order_id, event, at_)

    await show(store, "order", order_id, write)


async def echoed(
    store: Store, clock: MovableClock, seconds: float, number: int
) -> None:
    """Let a command's effect be reported so many seconds after it was sent."""
    effect = {"effect_id": f"adj_{number}"}
    place = {"kind": "adjust", "target": f"prod_{number}", "payload": ADJUSTMENT}
    await sent(store, Cause.CONFIRMED, change=effect, **place)
    clock.set_by(seconds)
    await show_level(
        store, 7, adjustment=f"adj_{number}", delta=-2, product=f"prod_{number}"
    )
    clock.set_by(-seconds)


async def confirmations(store: Store) -> ConfirmationTimes:
    """Return the times from request to echo in the last hour."""
    return await store.read(lambda reader: reader.confirmations())


class FiguresConformance(FamilyTests):
    """Tests of the figures of `Reader`, and of conditions that the mirror shows."""

    async def test_an_empty_store_has_no_backlog(self, store: Store) -> None:
        found = await counts(store)
        assert (found.events, found.to_fold, found.in_doubt) == (0, 0, 0)
        assert (found.orders, found.products, found.last_event_at) == (0, 0, None)
        assert (found.waiting_records, found.quarantined) == (0, 0)
        assert (found.commands, found.unknown_topics) == ({}, {})
        assert await overview(store) == await store.read(
            lambda r: r.overview(["other", "main"], [])
        )

    async def test_the_backlog_is_counted(
        self, store: Store, clock: MovableClock
    ) -> None:
        for id_ in ("ord_1", "ord_2", "ord_2"):
            await show_order(store, id_)
        for id_ in ("prod_1", "prod_2"):
            await show_product(store, id_)
        gone = version(9, b"gone")
        deletion = Deletion("prod_2", gone.updated_at)
        await show(
            store,
            "product",
            "prod_2",
            lambda mirror, _: mirror.delete_product("main", deletion, gone),
        )
        clock.advance(60)
        for name in ("main", "other"):
            await receive(store, clock, name)
            await store.refetch_queue.enqueue(name, "order", "ord_1", "a conflict")
        rows = [NewRecord(f"row-{n}", b"null", "", "", "") for n in range(3)]
        bad = NewRecord("bad", None, "a;b", "no order", "")
        await store.records.accept(
            "books", "main", [*rows, bad], None, lambda *_: Unmatched("", final=False)
        )
        found = await counts(store)
        assert (found.events, found.to_fold, found.in_doubt) == (8, 2, 2)
        assert (found.orders, found.products) == (2, 1)
        assert found.last_event_at == at(clock)
        assert (found.waiting_records, found.quarantined) == (3, 1)

    async def test_commands_are_counted_by_state(self, store: Store) -> None:
        for number, cause in enumerate(
            (Cause.UNDECIDABLE, Cause.UNKNOWN, Cause.CONFIRMED, Cause.CONFIRMED)
        ):
            await sent(store, cause, target=f"ord_{number}")
        await plan(store, target="ord_9", name="other")
        assert (await counts(store)).commands == {
            "parked": 1,
            "uncertain": 1,
            "applied": 2,
            "planned": 1,
        }

    async def test_each_store_has_its_last_webhook_and_its_backlog(
        self, store: Store, clock: MovableClock
    ) -> None:
        await receive(store, clock)
        await fold_with(store, lambda *_: Folded("folded", ""))
        clock.advance(60)
        await receive(store, clock)
        oldest = at(clock)
        clock.advance(60)
        await receive(store, clock)
        webhook = at(clock)
        clock.advance(60)
        await receive(store, clock, kind="read")
        assert (await overview(store)).stores == {
            "main": StoreFigures(webhook, 3, oldest),
            "other": StoreFigures(None, 0, None),
        }

    async def test_the_last_use_of_a_secret_shows_the_last_webhook(
        self, store: Store, clock: MovableClock
    ) -> None:
        await receive(store, clock)
        await store.webhook_secrets.set_known("main", ["f1"], "settings")
        await store.webhook_secrets.record_uses({("main", "f1"): at(clock, 60)})
        found = (await overview(store)).stores
        assert found["main"].last_webhook_at == at(clock, 60)
        assert found["other"].last_webhook_at is None

    async def test_each_connection_has_its_last_record_and_what_needs_an_operator(
        self, store: Store, clock: MovableClock
    ) -> None:
        await plan(store)
        clock.advance(60)
        bad = [NewRecord(f"bad-{n}", None, "a;b", "no order", "") for n in range(2)]
        await store.records.accept(
            "books", "main", bad, None, lambda *_: Unmatched("", final=False)
        )
        (row, _) = await store.read(lambda reader: reader.quarantine(9))
        await store.quarantine.drop(row.id, "ann", "seen")
        await store.deliveries.subscribe(CUSTOMERS)
        for id_ in ("cus_1", "cus_2"):
            await show_customer(store, id_, "a@b.example")
        await store.deliveries.fan_out(CUSTOMERS, 1.0)
        claimed = await store.deliveries.claim(CUSTOMERS)
        assert claimed is not None
        parked = DeliveryOutcome(cause=Cause.UNDECIDABLE, reason="refused")
        await store.deliveries.record_outcome("books", claimed, parked)
        assert (await overview(store, "courier", "books", "idle")).connectors == {
            "courier": ConnectionFigures(at(clock, -60), 0, 0),
            "books": ConnectionFigures(at(clock), 1, 1),
            "idle": ConnectionFigures(None, 0, 0),
        }

    async def test_the_oldest_planned_command_is_not_on_hold(
        self, store: Store, clock: MovableClock
    ) -> None:
        assert (await overview(store)).oldest_planned_at is None
        await sent(store, Cause.NOT_SENT, change={"held": True})
        await sent(store, Cause.UNKNOWN, target="ord_3")
        clock.advance(60)
        await plan(store, target="ord_2")
        expected = at(clock)
        clock.advance(60)
        await plan(store, target="ord_4")
        assert (await overview(store)).oldest_planned_at == expected

    async def test_confirmation_times_are_those_of_the_last_hour(
        self, store: Store, clock: MovableClock
    ) -> None:
        assert await confirmations(store) == ConfirmationTimes(0)
        await echoed(store, clock, 300.0, 99)
        clock.advance(HOUR + 301)
        assert await confirmations(store) == ConfirmationTimes(0)
        for number, seconds in enumerate((5.0, 1.0, 9.0, 3.25)):
            await echoed(store, clock, seconds, number)
            clock.advance(10)
        assert await confirmations(store) == ConfirmationTimes(4, 3.25, 5.0)

    async def test_an_effect_of_nobody_confirms_nothing(
        self, store: Store, clock: MovableClock
    ) -> None:
        await sent(store, kind="adjust", target="prod_1", payload=ADJUSTMENT)
        clock.advance(5)
        await show_level(store, 7, adjustment="adj_1", delta=-2)
        assert await confirmations(store) == ConfirmationTimes(0)

    async def test_unknown_topics_of_the_last_hour_are_counted(
        self, store: Store, clock: MovableClock
    ) -> None:
        await fold_unhandled(store, clock, "orders/old")
        clock.advance(HOUR + 1)
        for topic in ("carts/a", "carts/b", "carts/b", "carts/c"):
            await fold_unhandled(store, clock, topic)
        await fold_unhandled(store, clock, "orders/create", "belongs to store sto_2")
        await show_order(store, "ord_1")
        found = (await conditions(store)).unknown_topics
        assert list(found.items()) == [("carts/b", 2), ("carts/a", 1), ("carts/c", 1)]
        assert (await counts(store)).unknown_topics == found

    async def test_an_unknown_payment_status_that_holds_an_order_back_is_known(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", financial_status="ON_HOLD")
        assert (await conditions(store)).unknown_statuses == []
        await store.deliveries.subscribe(PAID)
        for id_, status in (
            ("ord_2", "ON_HOLD"),
            ("ord_3", "AUTHORIZED"),
            ("ord_4", "paid "),
            ("ord_5", "PENDING"),
        ):
            await show_order(store, id_, financial_status=status)
        await show_order(
            store, "ord_6", financial_status="ODD", fulfillment_status="FULFILLED"
        )
        await show_order(store, "ord_7", financial_status="ODD", cancelled_at="x")
        await show_order(store, "ord_8", financial_status="ODD", name="other")
        found = (await conditions(store)).unknown_statuses
        assert found == [
            UnknownStatus("main", "AUTHORIZED", 1, "#1003"),
            UnknownStatus("main", "ON_HOLD", 2, "#1001"),
        ]
        assert (await counts(store)).unknown_statuses == found
        await store.deliveries.retire([])
        assert (await conditions(store)).unknown_statuses == []

    async def test_orders_that_wait_for_a_refetch_are_known(
        self, store: Store, clock: MovableClock
    ) -> None:
        clock.advance(60)
        await show_order(store, "ord_1")
        event = await hold(store, "ord_1")
        await hold(store, "ord_2", "other")
        for kind in ("fulfill", "cancel"):
            await plan(store, kind, "ord_1")
        first, second = (await conditions(store)).unreadable
        assert (first.store, first.order_id, first.name) == ("main", "ord_1", "#1001")
        assert (first.event, first.reason, first.commands) == (event, "no JSON", 2)
        assert first.row is None
        assert (second.order_id, second.name, second.commands) == ("ord_2", "ord_2", 0)
        assert (await counts(store)).unreadable_orders == [first, second]

        await release(store, "ord_1", began=8)
        assert (await conditions(store)).unreadable == [first, second]
        await release(store, "ord_1", began=9)
        assert (await conditions(store)).unreadable == [second]

    async def test_surplus_effects_from_before_a_restore_are_known(
        self, store: Store
    ) -> None:
        old, once = "a" * 32, "b" * 32
        for command, effect in ((old, "adj_2"), (once, "adj_9"), (old, "adj_1")):
            tagged = [TaggedAdjustment(command, effect, ())]
            await store.tags.record_tags("main", tagged, adopt=True)
        (found,) = (await conditions(store)).doubled
        assert (found.id, found.store, found.detail) == (old, "main", "adj_1, adj_2")
        await plan(store, "adjust", "prod_1", id_=old)
        (found,) = (await conditions(store)).doubled
        assert (found.id, found.target) == (old, "prod_1")

    async def test_evidence_that_only_mentions_surplus_effects_shows_none(
        self, store: Store
    ) -> None:
        for number, evidence in enumerate(({"note": '"doubled"'}, {"doubled": []})):
            change = {"evidence": evidence}
            target = f"ord_{number}"
            await sent(store, Cause.CONFIRMED, change=change, target=target)
        assert (await conditions(store)).doubled == []

    async def test_stock_targets_are_counted_among_the_commands(
        self, store: Store, clock: MovableClock
    ) -> None:
        await count(store, 5, 10)
        began = at(clock)
        clock.advance(60)
        await plan(store, name="other")
        await count(store, 7, 10, variant="var_2", product="prod_2", name="third")
        target, *_ = await store.targets.due("third", 9)
        await store.decisions.decide(Decision(target.id, "park", "ann", "x"), None)
        assert (await counts(store)).commands == {"planned": 2, "parked": 1}
        assert (await overview(store)).oldest_planned_at == began
        found = await conditions(store)
        assert sorted(found.open_stores) == ["main", "other"]
        assert [(each.id, each.kind) for each in found.parked] == [
            (target.id, "target")
        ]
        gauges = await store.gauges.current([])
        assert {
            labels: value for name, value, labels in gauges if name == "commands_open"
        } == {
            ("main", "target", "planned"): 1,
            ("other", "fulfill", "planned"): 1,
            ("third", "target", "parked"): 1,
        }
        name = "oldest_command_planned_seconds"
        ages = {labels: value for each, value, labels in gauges if each == name}
        assert {key: round(value) for key, value in ages.items()} == {
            ("main",): 60,
            ("other",): 0,
        }

    async def test_a_delivery_that_is_under_way_waits_too(
        self, store: Store, clock: MovableClock
    ) -> None:
        await store.deliveries.subscribe(CUSTOMERS)
        began = at(clock)
        for id_ in ("cus_1", "cus_2"):
            await show_customer(store, id_, "a@b.example")
            await store.deliveries.fan_out(CUSTOMERS, 1.0)
            clock.advance(60)
        sent_ = await store.deliveries.claim(CUSTOMERS)
        assert sent_ is not None
        assert (await conditions(store)).deliveries_since == {"books": began}
        unknown = DeliveryOutcome(cause=Cause.UNKNOWN, reason="no answer")
        await store.deliveries.record_outcome("books", sent_, unknown)
        assert (await conditions(store)).deliveries_since == {"books": began}
        found = DeliveryOutcome(cause=Cause.PROVED_APPLIED, reason="there")
        await store.deliveries.record_outcome("books", sent_, found)
        since = {"books": at(clock, -60)}
        assert (await conditions(store)).deliveries_since == since

    async def test_open_incidents_are_a_condition(self, store: Store) -> None:
        crossed = {"kind": "cancelled", "says": "order #1001 was cancelled"}
        for target in ("ord_1", "ord_2"):
            change = {"evidence": {"crossed": crossed}}
            await sent(store, Cause.CONFIRMED, change=change, target=target)
        first, second = (await conditions(store)).incidents
        assert (first.store, first.text) == ("main", "order #1001 was cancelled")
        assert first.id < second.id
        assert [each.id for each in (await counts(store)).incidents] == [
            first.id,
            second.id,
        ]
        await store.incidents.resolve(first.id, "ann", "stopped")
        assert (await conditions(store)).incidents == [second]
