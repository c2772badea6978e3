"""Tests of orders that an unreadable event names: their commands wait for a refetch."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.inbox import Folded, Selection, UnreadableOrder
from backhaul.store.testing.command_scenes import at, claimed_ids, plan
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import NOON, show_order
from backhaul.store.testing.scenes import webhook
from backhaul.store.testing.transactions import fold_with, reprocess_with

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.testing.contract import MovableClock, OpenStore

REASON = "order ord_1: no status"


async def unreadable(
    store: Store,
    at_: str = NOON,
    reason: str = REASON,
    *,
    id_: str = "ord_1",
    name: str = "main",
) -> int:
    """Let an event that cannot be read name an order; return the event's id."""

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        mirror.hold_order(name, id_, event.id, reason, at_)
        return Folded("quarantined", event.topic, None, "order", id_, reason)

    event = await store.inbox.append(webhook("{", name))
    await fold_with(store, fold)
    return event


async def release(
    store: Store, began: str = "", id_: str = "ord_1", name: str = "main"
) -> None:
    """Let another event show an order, of a confirming read if it `began`."""

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        mirror.release_order(name, id_, event.id, began)
        return Folded("folded", event.topic, None, "order", id_)

    await store.inbox.append(webhook("{}", name))
    await fold_with(store, fold)


async def listed(store: Store) -> list[UnreadableOrder]:
    """Return the orders whose commands wait."""
    counts = await store.read(lambda reader: reader.counts())
    assert (await store.alert_conditions.current([])).unreadable == (
        counts.unreadable_orders
    )
    return list(counts.unreadable_orders)


class UnreadableOrdersConformance(FamilyTests):
    """Tests of `hold_order` and `release_order` of `MirrorWriter`."""

    async def test_only_the_commands_of_the_order_wait(self, store: Store) -> None:
        for kind in ("fulfill", "cancel"):
            await plan(store, kind, "ord_1")
        free = await plan(store, target="ord_2")
        other = await plan(store, target="ord_1", name="other")
        await unreadable(store)
        assert await claimed_ids(store) == [free]
        assert await claimed_ids(store, name="other") == [other]

    async def test_a_command_that_is_planned_later_waits_too(
        self, store: Store, open_store: OpenStore
    ) -> None:
        await unreadable(store)
        again = await open_store()
        command = await plan(again)
        assert await claimed_ids(again) == []
        await release(again, began=NOON)
        assert await claimed_ids(again) == [command]

    async def test_a_read_that_began_before_the_event_releases_nothing(
        self, store: Store
    ) -> None:
        command = await plan(store)
        await unreadable(store, "2026-03-01T11:30:00.000Z")
        await release(store, began="2026-03-01T11:29:59.999Z")
        assert await claimed_ids(store) == []
        await release(store, began="2026-03-01T11:30:00.000Z")
        assert await claimed_ids(store) == [command]

    async def test_another_event_releases_nothing(self, store: Store) -> None:
        await plan(store)
        await unreadable(store)
        await release(store)
        await release(store, began=NOON, id_="ord_2")
        await release(store, began=NOON, name="other")
        await show_order(store, "ord_1")
        assert await claimed_ids(store) == []
        assert len(await listed(store)) == 1

    async def test_the_event_itself_releases_once_it_can_be_read(
        self, store: Store
    ) -> None:
        command = await plan(store)
        event = await unreadable(store)

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            mirror.release_order("main", "ord_1", event.id, "")
            return Folded("folded", event.topic)

        selection = Selection(ids=(event,))
        await reprocess_with(store, fold, selection)
        assert await claimed_ids(store) == [command]
        assert await listed(store) == []

    async def test_an_event_and_its_release_in_one_slice(self, store: Store) -> None:
        command = await plan(store)

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            if event.body == b"{":
                mirror.hold_order("main", "ord_1", event.id, REASON, NOON)
            else:
                mirror.release_order("main", "ord_1", event.id, NOON)
            return Folded("folded", event.topic)

        for body in ("{", "{}"):
            await store.inbox.append(webhook(body))
        await fold_with(store, fold)
        assert await claimed_ids(store) == [command]

    async def test_the_newest_of_several_events_counts(self, store: Store) -> None:
        command = await plan(store)
        first, second = "2026-03-01T11:10:00.000Z", "2026-03-01T11:20:00.000Z"
        await unreadable(store, second, "the later")
        event = await unreadable(store, first, "the earlier, which came later")
        (shown,) = await listed(store)
        assert (shown.event, shown.since) == (event, second)
        assert shown.reason == "the earlier, which came later"
        await release(store, began="2026-03-01T11:15:00.000Z")
        assert await claimed_ids(store) == []
        await release(store, began=second)
        assert await claimed_ids(store) == [command]

    async def test_any_read_releases_after_the_clock_went_back(
        self, store: Store, clock: MovableClock
    ) -> None:
        command = await plan(store)
        await unreadable(store, at(clock, 60))
        await release(store, began="")
        assert await claimed_ids(store) == []
        await release(store, began=at(clock, -1))
        assert await claimed_ids(store) == [command]

    async def test_a_released_command_is_due_now(
        self, store: Store, clock: MovableClock
    ) -> None:
        await plan(store)
        await unreadable(store)
        clock.advance(5)
        last_claim = at(clock)
        assert await claimed_ids(store) == []
        clock.advance(5)
        await release(store, began=at(clock))
        assert await store.commands.next_due("main", last_claim) == at(clock)

    async def test_a_discarded_event_releases_the_commands(
        self, store: Store, clock: MovableClock
    ) -> None:
        command = await plan(store)
        await unreadable(store)
        await unreadable(store, id_="ord_2")
        (shown, _) = await listed(store)
        assert shown.row is not None
        clock.advance(5)
        last_claim = at(clock, -1)
        await store.quarantine.drop(shown.row, "ann", "seen")
        assert [each.order_id for each in await listed(store)] == ["ord_2"]
        assert await store.commands.next_due("main", last_claim) == at(clock)
        assert await claimed_ids(store) == [command]

    async def test_waiting_orders_are_listed_the_oldest_first(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        for _ in range(2):
            await plan(store, target="ord_1")
        times = ("2026-03-01T11:30:00.000Z", "2026-03-01T11:20:00.000Z")
        event = await unreadable(store, times[0])
        other = await unreadable(store, times[1], "why", id_="ord_9", name="other")
        rows = {
            each.locator: each.id
            for each in await store.read(lambda reader: reader.quarantine(9))
        }
        ours = (event, REASON, times[0], rows[f"event {event}"], 2)
        theirs = (other, "why", times[1], rows[f"event {other}"], 0)
        assert await listed(store) == [
            UnreadableOrder("other", "ord_9", "ord_9", *theirs),
            UnreadableOrder("main", "ord_1", "#1001", *ours),
        ]

    async def test_the_timeline_says_why_nothing_is_sent(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_order(store, "ord_1")
        clock.advance(60)
        event = await unreadable(store)
        (found,) = await store.read(lambda reader: reader.find_objects("order", "1001"))
        entries = await store.read(lambda reader: reader.timeline("order", found))
        (hold,) = (each for each in entries if each.what == "hold")
        assert (hold.at, hold.state) == (at(clock), "waiting")
        assert f"event {event} could not be read" in str(hold.detail)
        await release(store, began=at(clock))
        entries = await store.read(lambda reader: reader.timeline("order", found))
        assert "hold" not in {each.what for each in entries}
