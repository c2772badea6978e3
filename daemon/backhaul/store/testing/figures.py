"""Tests of the figures of status and dashboard, of gauges, and of samples."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.clock import from_text
from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Deletion
from backhaul.runtime.loop import OpenStores
from backhaul.store.commands import Decision
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.operations import MetricSample
from backhaul.store.read_records import (
    ConfirmationTimes,
    ConnectionFigures,
    StoreFigures,
)
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import (
    ADJUSTMENT,
    adjusted,
    at,
    counts,
    plan,
    sent,
)
from backhaul.store.testing.event_scenes import arrive, fold_with
from backhaul.store.testing.mirror_scenes import (
    show,
    show_customer,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.testing.target_scenes import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.operations import AlertConditions, Gauge
    from backhaul.store.read_records import Overview
    from backhaul.store.testing.scenes import TestClock


HOUR = 3_600.0
PAID = Subscriber(
    instance="books",
    store="main",
    topics=frozenset({"order.placed"}),
    begin="all",
    release_when="paid",
)
CUSTOMERS = replace(PAID, topics=frozenset({"customer.updated"}))


async def conditions(store: Store) -> AlertConditions:
    """Return the alert conditions, which operators are shown the same."""
    found = await store.alert_conditions.current([])
    assert await store.read(lambda reader: reader.conditions([])) == found
    return found


async def overview(store: Store, *instances: str) -> Overview:
    """Return the figures of two stores and of connections."""
    return await store.read(lambda r: r.overview(["main", "other"], instances))


async def echoed(store: Store, clock: TestClock, seconds: float, number: int) -> None:
    """Let a command's effect be reported so many seconds after it was sent."""
    effect, product = f"adj_{number}", f"prod_{number}"
    await adjusted(store, effect, target=product)
    clock.set_by(seconds)
    await show_level(store, 7, adjustment=effect, delta=-2, product=product)
    clock.set_by(-seconds)


async def confirmations(store: Store) -> ConfirmationTimes:
    """Return the times from request to echo in the last hour."""
    return await store.read(lambda reader: reader.confirmations())


class FiguresConformance(StoreConformance):
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

    async def test_the_backlog_is_counted(self, store: Store, clock: TestClock) -> None:
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
            await arrive(store, name=name, at=at(clock))
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
        self, store: Store, clock: TestClock
    ) -> None:
        await arrive(store, at=at(clock))
        await fold_with(store, lambda *_: Folded("folded", ""))
        clock.advance(60)
        await arrive(store, at=at(clock))
        oldest = at(clock)
        clock.advance(60)
        await arrive(store, at=at(clock))
        webhook = at(clock)
        clock.advance(60)
        await arrive(store, kind="read", at=at(clock))
        assert (await overview(store)).stores == {
            "main": StoreFigures(webhook, 3, oldest),
            "other": StoreFigures(None, 0, None),
        }

    async def test_the_last_use_of_a_secret_shows_the_last_webhook(
        self, store: Store, clock: TestClock
    ) -> None:
        await arrive(store, at=at(clock))
        await store.webhook_secrets.set_known("main", ["f1"], "settings")
        await store.webhook_secrets.record_uses({("main", "f1"): at(clock, 60)})
        found = (await overview(store)).stores
        assert found["main"].last_webhook_at == at(clock, 60)
        assert found["other"].last_webhook_at is None

    async def test_each_connection_has_its_last_record_and_what_needs_an_operator(
        self, store: Store, clock: TestClock
    ) -> None:
        await plan(store)
        clock.advance(60)
        bad = [NewRecord(f"bad-{n}", None, "a;b", "no order", "") for n in range(2)]
        await store.records.accept(
            "books", "main", bad, None, lambda *_: Unmatched("", final=False)
        )
        (row, _) = await store.read(lambda reader: reader.quarantine(9))
        await store.quarantine.discard(row.id, "ann", "seen")
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
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
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
        self, store: Store, clock: TestClock
    ) -> None:
        await sent(store, kind="adjust", target="prod_1", payload=ADJUSTMENT)
        clock.advance(5)
        await show_level(store, 7, adjustment="adj_1", delta=-2)
        assert await confirmations(store) == ConfirmationTimes(0)

    async def test_stock_targets_are_counted_among_the_commands(
        self, store: Store, clock: TestClock
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


OVER_ALL_PASSES = {"drift_rows", "unrepaired_rows", "first_read_timestamp_seconds"}


def values(gauges: Sequence[Gauge], name: str) -> dict[tuple[str, ...], float]:
    """Return the values of one gauge by its labels, in hundredths of a second."""
    return {labels: round(value, 2) for found, value, labels in gauges if found == name}


async def current(store: Store, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of one gauge now."""
    return values(await store.gauges.current(["courier"]), name)


class GaugesConformance(StoreConformance):
    """Tests of `Store.gauges`."""

    async def test_commands_are_counted_by_store_kind_and_state(
        self, store: Store
    ) -> None:
        await sent(store, Cause.UNKNOWN, target="ord_1")
        await sent(store, Cause.UNDECIDABLE, target="ord_2")
        await sent(store, Cause.CONFIRMED, target="ord_3")
        await sent(store, Cause.UNKNOWN, target="ord_4", name="other")
        for target in ("ord_5", "ord_6"):
            await plan(store, "cancel", target)
        assert await current(store, "commands_open") == {
            ("main", "fulfill", "uncertain"): 1,
            ("main", "fulfill", "parked"): 1,
            ("other", "fulfill", "uncertain"): 1,
            ("main", "cancel", "planned"): 2,
        }

    async def test_the_age_of_the_oldest_planned_command_leaves_out_those_on_hold(
        self, store: Store, clock: TestClock
    ) -> None:
        await sent(store, Cause.NOT_SENT, change={"held": True})
        clock.advance(10)
        await plan(store, target="ord_2")
        clock.advance(5)
        await plan(store, target="ord_3")
        found = await current(store, "oldest_command_planned_seconds")
        assert found == {("main",): 5}

    async def test_events_that_wait_are_counted(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1")
        clock.advance(10)
        assert await current(store, "events_waiting") == {(): 0}
        assert await current(store, "oldest_event_waiting_seconds") == {(): 0}
        for _ in range(2):
            event = Arrival("main", "delivery", "", at(clock), b"{}", b"{}")
            await store.inbox.append(event)
            clock.advance(3)
        assert await current(store, "events_waiting") == {(): 2}
        assert await current(store, "oldest_event_waiting_seconds") == {(): 6}
        last = from_text(at(clock, -3)).timestamp()
        assert await current(store, "last_webhook_timestamp_seconds") == {(): last}

    async def test_records_are_counted_by_connection(
        self, store: Store, clock: TestClock
    ) -> None:
        records = [NewRecord(f"key-{n}", b"null", "", "", "") for n in range(2)]
        records.append(NewRecord("bad", None, "a;b", "no order", ""))
        for instance in ("courier", "books"):
            await store.records.accept(
                instance, "main", records, None, lambda *_: Unmatched("", final=False)
            )
            records.pop()
        waiting = {("courier",): 2, ("books",): 2}
        assert await current(store, "records_waiting") == waiting
        assert await current(store, "quarantine_rows") == {("courier",): 1}
        (row,) = await store.read(lambda reader: reader.quarantine(9))
        await store.quarantine.discard(row.id, "ann", "seen")
        assert await current(store, "quarantine_rows") == {}
        last = from_text(at(clock)).timestamp()
        found = await current(store, "last_record_timestamp_seconds")
        assert found == {("courier",): last}

    async def test_objects_to_refetch_are_counted(self, store: Store) -> None:
        for name, object_id in (("main", "1"), ("main", "2"), ("other", "1")):
            await store.refetch_queue.enqueue(name, "order", object_id, "a conflict")
        found = await current(store, "objects_in_doubt")
        assert found == {("main",): 2, ("other",): 1}

    async def test_stores_with_work_that_waits_are_named(self, store: Store) -> None:
        await sent(store, Cause.CONFIRMED, target="ord_1", name="done")
        await sent(store, Cause.UNDECIDABLE, target="ord_2", name="parked")
        await show_order(store, "ord_1")
        await store.refetch_queue.enqueue("fetched", "order", "ord_1", "a tie")
        (fetched,) = await store.refetch_queue.next("fetched", 9)
        await store.refetch_queue.done(fetched)
        before = await store.gauges.open_stores()
        await show_order(store, "ord_2")
        found = await store.gauges.open_stores()
        assert found == OpenStores(frozenset(), before.newest_change + 1)
        await plan(store, "cancel", name="planned")
        await sent(store, Cause.NOT_SENT, change={"held": True}, name="held")
        await sent(store, name="sending")
        await sent(store, Cause.UNKNOWN, name="uncertain")
        await count(store, 5, 0, name="counted")
        await store.refetch_queue.enqueue("doubtful", "order", "ord_1", "a tie")
        found = await store.gauges.open_stores()
        work = {"planned", "held", "sending", "uncertain", "counted", "doubtful"}
        assert found.names == work

    async def test_the_size_of_the_database_is_known(self, store: Store) -> None:
        found = await current(store, "database_bytes")
        assert sum(found.values()) > 0

    async def test_what_waits_is_the_same_without_the_passes(
        self, store: Store
    ) -> None:
        await plan(store)
        pass_ = await store.passes.begin("main", "full", "orders")
        assert pass_.pass_id
        waiting = await store.gauges.waiting()
        assert values(waiting, "commands_open") == {("main", "fulfill", "planned"): 1}
        assert not OVER_ALL_PASSES & {name for name, _, _ in waiting}
        assert ("main", "missed") in await current(store, "drift_rows")


def sample(minute: int, member: str = "a") -> MetricSample:
    """Return the sample of a minute; only the member `a` says what waits."""
    waits = (5, 6, 7, 8, minute) if member == "a" else ()
    at = f"2026-03-01T12:{minute:02}:00.000Z"
    times = ('{"0":1,"12":2}', "{}", "{}")
    return MetricSample(at, member, 1, 2, 3, 4, 5, 6, 0, 0, 1, 1, *times, *waits)


class MetricSamplesConformance(StoreConformance):
    """Tests of `Store.metric_samples`."""

    async def test_samples_are_kept_until_they_are_too_old(self, store: Store) -> None:
        for minute in (1, 3, 2):
            await store.metric_samples.add(sample(minute), sample(1).at)
        first = [sample(minute) for minute in (1, 2, 3)]
        assert await samples(store, "") == first
        assert await samples(store, sample(2).at) == first[1:]
        await store.metric_samples.add(sample(4), sample(3).at)
        assert await samples(store, "") == [sample(3), sample(4)]

    async def test_each_daemon_has_samples_of_its_own(self, store: Store) -> None:
        for member in ("b", "a", "a"):
            await store.metric_samples.add(sample(1, member), "")
        assert await samples(store, "") == [sample(1, "a"), sample(1, "b")]

    async def test_deliveries_wait_until_they_have_ended(self, store: Store) -> None:
        await store.deliveries.subscribe(CUSTOMERS)
        await show_customer(store, "cus_1", "a@b.example")
        await store.deliveries.fan_out(CUSTOMERS, 1.0)
        assert await current(store, "deliveries_open") == {("books",): 1}
        claimed = await store.deliveries.claim(CUSTOMERS)
        assert claimed is not None
        done = DeliveryOutcome(cause=Cause.CONFIRMED, reason="")
        await store.deliveries.record_outcome("books", claimed, done)
        assert await current(store, "deliveries_open") == {}

    async def test_the_rows_of_the_mirror_are_counted(self, store: Store) -> None:
        before = await store.metric_samples.count_mirrored()
        for id_ in ("ord_1", "ord_2", "ord_2"):
            await show_order(store, id_)
        after = await store.metric_samples.count_mirrored()
        assert after["orders"] - before["orders"] == 2
        assert after["customers"] == before["customers"]


async def samples(store: Store, since: str) -> list[MetricSample]:
    """Return the samples since a time."""
    return await store.read(lambda reader: reader.samples(since))
