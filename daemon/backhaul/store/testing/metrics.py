"""Tests of gauges, and of the samples for charts."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import from_text
from backhaul.core.lifecycle import Cause
from backhaul.store.inbox import Arrival
from backhaul.store.operations import MetricSample
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import at, plan, sent
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import show_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.operations import Gauge
    from backhaul.store.testing.contract import MovableClock

OVER_ALL_PASSES = {"drift_rows", "unrepaired_rows", "first_read_timestamp_seconds"}


def values(gauges: Sequence[Gauge], name: str) -> dict[tuple[str, ...], float]:
    """Return the values of one gauge by its labels, in hundredths of a second."""
    return {labels: round(value, 2) for found, value, labels in gauges if found == name}


async def current(store: Store, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of one gauge now."""
    return values(await store.gauges.current(["courier"]), name)


class GaugesConformance(FamilyTests):
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
        self, store: Store, clock: MovableClock
    ) -> None:
        await sent(store, Cause.NOT_SENT, change={"held": True})
        clock.advance(10)
        await plan(store, target="ord_2")
        clock.advance(5)
        await plan(store, target="ord_3")
        found = await current(store, "oldest_command_planned_seconds")
        assert found == {("main",): 5}

    async def test_events_that_wait_are_counted(
        self, store: Store, clock: MovableClock
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
        self, store: Store, clock: MovableClock
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
        await store.quarantine.drop(row.id, "ann", "seen")
        assert await current(store, "quarantine_rows") == {}
        last = from_text(at(clock)).timestamp()
        found = await current(store, "last_record_timestamp_seconds")
        assert found == {("courier",): last}

    async def test_objects_to_refetch_are_counted(self, store: Store) -> None:
        for name, object_id in (("main", "1"), ("main", "2"), ("other", "1")):
            await store.refetch_queue.enqueue(name, "order", object_id, "a conflict")
        found = await current(store, "objects_in_doubt")
        assert found == {("main",): 2, ("other",): 1}

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


def sample(minute: int) -> MetricSample:
    """Return the sample of a minute."""
    return MetricSample(
        f"2026-03-01T12:{minute:02}:00.000Z", 1, 2, 3, 0.5, None, 4, 5, minute
    )


class MetricSamplesConformance(FamilyTests):
    """Tests of `Store.metric_samples`."""

    async def test_samples_are_kept_until_they_are_too_old(self, store: Store) -> None:
        for minute in (1, 3, 2):
            await store.metric_samples.add(sample(minute), sample(1).at)
        first = [sample(minute) for minute in (1, 2, 3)]
        assert await samples(store, "") == first
        assert await samples(store, sample(2).at) == first[1:]
        await store.metric_samples.add(sample(4), sample(3).at)
        assert await samples(store, "") == [sample(3), sample(4)]

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
