"""Tests of the traces that rows keep: from an event, and from a record to a command."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.lifecycle import Cause
from backhaul.store.inbox import Folded
from backhaul.store.matching import NewCommand, NewTarget
from backhaul.store.records import Matched, NewRecord, Unmatched
from backhaul.store.testing import delivery_scenes
from backhaul.store.testing.command_scenes import (
    ALL_KINDS,
    claimed,
    plan,
    prepare,
    resolve,
)
from backhaul.store.testing.event_scenes import append, fold_with, webhook
from backhaul.store.testing.mirror_scenes import (
    order,
    show_level,
    show_order,
    show_product,
    version,
)
from backhaul.store.testing.quarantine import SHIPPED, refuse, shipment
from backhaul.store.testing.scenes import StoreConformance, running
from backhaul.store.testing.target_scenes import decide, due

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.commands import Sendable
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.matching import Command, MatchReader, WaitingRecord
    from backhaul.store.testing.scenes import MakeStore, TestClock

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LATER = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
FULFILL = NewCommand("a" * 32, "fulfill", "ord_1", "order:ord_1", {"n": 1})
RESTOCK = {"restock": False, "restock_unshipped": True}


def fold(event: StoredEvent, _: MirrorWriter) -> Folded:
    """Fold any event to an order."""
    return Folded("folded", event.topic, None, "order", "ord_1")


def record(traceparent: str | None = TRACE) -> NewRecord:
    """Return a record of a trace."""
    return NewRecord("key", b"{}", "a;b", "", "file:1", traceparent=traceparent)


def matched(_: WaitingRecord, __: MatchReader) -> Matched:
    """Match any record to the same command."""
    return Matched(FULFILL)


def unknown(_: WaitingRecord, __: MatchReader) -> Unmatched:
    """Let any record wait."""
    return Unmatched("order 1001 is not known", final=False)


async def traced(store: Store) -> list[str | None]:
    """Claim all commands; return where their traces continue."""
    return [command.traceparent for command in await claimed(store)]


class TracesConformance(StoreConformance):
    """Tests of the column `traceparent`."""

    async def test_a_fold_names_the_events_of_traces(self, store: Store) -> None:
        await append(store, "without")
        id_ = await store.inbox.append(webhook("with")._replace(traceparent=TRACE))
        report = await fold_with(store, fold)
        assert report.folded == 2
        (event,) = report.traced
        assert (event.traceparent, event.id, event.store) == (TRACE, id_, "main")
        assert (event.folded.state, event.folded.object_id) == ("folded", "ord_1")

    async def test_an_event_keeps_its_trace_over_a_restart(
        self, make_store: MakeStore, clock: TestClock
    ) -> None:
        async with running(make_store, clock) as store:
            await store.inbox.append(webhook("with")._replace(traceparent=TRACE))
        async with running(make_store, clock) as store:
            report = await fold_with(store, fold)
        assert [event.traceparent for event in report.traced] == [TRACE]

    async def test_a_command_has_the_trace_of_its_record(self, store: Store) -> None:
        await store.records.accept("courier", "main", [record()], None, matched)
        assert await traced(store) == [TRACE]

    async def test_a_command_without_a_trace_has_none(self, store: Store) -> None:
        await store.records.accept("courier", "main", [record(None)], None, matched)
        assert await traced(store) == [None]

    async def test_a_record_that_waits_keeps_its_trace_over_a_restart(
        self, make_store: MakeStore, clock: TestClock
    ) -> None:
        async with running(make_store, clock) as store:
            await store.records.accept("courier", "main", [record()], None, unknown)
        clock.advance(60)
        async with running(make_store, clock) as store:
            (outcome,) = await store.records.match(matched, 9)
            assert outcome.state == "accepted"
            assert await traced(store) == [TRACE]

    async def test_a_command_keeps_its_trace_until_its_outcome_is_known(
        self, make_store: MakeStore, clock: TestClock
    ) -> None:
        async with running(make_store, clock) as store:
            await store.records.accept("courier", "main", [record()], None, matched)
            (command,) = await claimed(store)
            await resolve(store, command, Cause.UNKNOWN)
        async with running(make_store, clock) as store:
            (uncertain,) = await store.uncertain.due("main", 9)
        assert uncertain.command.traceparent == TRACE

    async def test_the_first_attempt_can_begin_the_trace(self, store: Store) -> None:
        await plan(store)

        def begin(command: Command, mirror: MatchReader) -> Sendable:
            return replace(prepare(command, mirror), traceparent=LATER)

        ((command, _),) = await store.commands.claim("main", ALL_KINDS, 9, begin)
        assert command.traceparent == LATER
        await resolve(store, command, Cause.NOT_SENT)
        assert await traced(store) == [LATER]

    async def test_an_adjustment_has_the_trace_of_its_stock_count(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_product(store)
        await show_level(store, 10, 0)
        target = NewTarget("b" * 32, "prod_1", "var_1", 7, "2026-03-01T12:00:10.000Z")
        await store.records.accept(
            "erp", "main", [record()], None, lambda *_: Matched(target)
        )
        clock.advance(3_600)
        (found,) = await due(store)
        assert await decide(store, found, 10) == "adjusting"
        assert await traced(store) == [TRACE]

    async def test_a_restock_has_the_trace_of_its_cancellation(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        cancel = NewCommand("c" * 32, "cancel", "ord_1", "order:ord_1", RESTOCK)
        await store.records.accept(
            "courier", "main", [record()], None, lambda *_: Matched(cancel)
        )
        (command,) = await claimed(store)
        await resolve(store, command, Cause.CONFIRMED, effect_id="cancelled")
        assert await traced(store) == [TRACE]

    async def test_a_number_that_is_sent_alone_has_the_trace_of_its_record(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=(SHIPPED,))
        new = replace(record(), payload=shipment())
        await store.records.accept("courier", "main", [new], None, refuse)
        (row,) = await store.read(lambda reader: reader.quarantine(9))
        await store.quarantine.correct(row.id, "ann", "the label was changed")
        assert await traced(store) == [TRACE]

    async def test_a_delivery_knows_the_trace_of_its_event(self, store: Store) -> None:
        await store.deliveries.subscribe(delivery_scenes.NOW)
        for number, traceparent in ((1, TRACE), (2, None)):
            await _show_traced(store, f"ord_{number}", traceparent)
        found = []
        for _ in range(2):
            delivery = await delivery_scenes.claim(store)
            traceparent = await store.deliveries.traceparent_of(delivery)
            found.append((delivery.object_id, traceparent))
            await delivery_scenes.end(store, delivery)
        assert found == [("ord_1", TRACE), ("ord_2", None)]


async def _show_traced(store: Store, id_: str, traceparent: str | None) -> None:
    """Let an event of a trace show an order."""
    shown = order(id_)
    await store.inbox.append(webhook("{}")._replace(traceparent=traceparent))

    def write(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        mirror.put_order("main", shown, version(0, shown.document))
        mirror.add_change("main", "order", id_, "created", event.id)
        return Folded("folded", event.topic, None, "order", id_)

    await fold_with(store, write)
