"""Tests of alerts, and of the conditions that raise them."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.core.clock import from_text
from backhaul.core.lifecycle import Cause
from backhaul.store.commands import Check, TaggedAdjustment, Transition
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.inbox import Folded
from backhaul.store.operations import (
    Alert,
    AuditEntry,
    BackupState,
    JobRun,
    Trigger,
)
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import (
    ADJUSTMENT,
    at,
    claimed,
    counts,
    plan,
    resolve,
    sent,
)
from backhaul.store.testing.delivery_scenes import end
from backhaul.store.testing.event_scenes import (
    UNREADABLE,
    arrive,
    hold_order,
    release_order,
)
from backhaul.store.testing.mirror_scenes import show_customer, show_order
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store import Store
    from backhaul.store.operations import AlertChanges, AlertConditions
    from backhaul.store.testing.scenes import TestClock

DISK = Alert("disk", "the disk is full", "free space")
API = Alert("api", "the platform refuses", "check the key")
MAIL = frozenset({"mail"})
HOUR = 3_600.0
BACKUP = ("backup", "")
BOOKS = Subscriber(
    instance="books",
    store="main",
    topics=frozenset({"customer.updated"}),
    begin="all",
)


async def compare(store: Store, *alerts: Alert) -> AlertChanges:
    """Compare the present problems; return what the mail did not report yet."""
    return (await store.alerts.compare({a.key: a for a in alerts}, MAIL))["mail"]


async def reported(store: Store, *alerts: Alert) -> AlertChanges:
    """Compare the present problems, and report all changes by mail."""
    changes = await compare(store, *alerts)
    await store.alerts.record_sent("mail", changes)
    return changes


class AlertsConformance(StoreConformance):
    """Tests of `Store.alerts`."""

    async def test_a_problem_is_reported_until_the_channel_has_reported_it(
        self, store: Store
    ) -> None:
        first = await compare(store, DISK)
        assert (list(first.begun), list(first.over)) == ([DISK], [])
        assert (await compare(store, DISK)).id == first.id
        await store.alerts.record_sent("mail", first)
        assert not await compare(store, DISK)

    async def test_the_end_of_a_reported_problem_is_reported(
        self, store: Store
    ) -> None:
        first = await reported(store, DISK)
        ended = await compare(store)
        assert (list(ended.begun), list(ended.over)) == ([], [DISK])
        assert ended.id != first.id
        assert (await compare(store)).id == ended.id
        await store.alerts.record_sent("mail", ended)
        assert not await compare(store)

    async def test_a_problem_that_ended_unreported_is_not_reported(
        self, store: Store
    ) -> None:
        assert await compare(store, DISK)
        assert not await compare(store)

    async def test_a_problem_that_returns_begins_again(
        self, store: Store, clock: TestClock
    ) -> None:
        first = await reported(store, DISK)
        await reported(store)
        clock.advance(1)
        again = await compare(store, DISK)
        assert list(again.begun) == [DISK]
        assert again.id != first.id

    async def test_a_problem_that_returns_before_its_end_was_reported_goes_on(
        self, store: Store
    ) -> None:
        await reported(store, DISK)
        assert (await compare(store)).over
        assert not await compare(store, DISK)

    async def test_the_text_of_a_problem_is_the_newest(self, store: Store) -> None:
        await compare(store, DISK)
        changed = Alert("disk", "the disk is nearly full", "free more")
        assert list((await compare(store, changed)).begun) == [changed]

    async def test_the_oldest_problem_comes_first(
        self, store: Store, clock: TestClock
    ) -> None:
        await compare(store, DISK)
        clock.advance(1)
        assert list((await compare(store, API, DISK)).begun) == [DISK, API]

    async def test_each_channel_reports_for_itself(self, store: Store) -> None:
        await reported(store, DISK)
        both = await store.alerts.compare({"disk": DISK}, {"mail", "hook"})
        assert not both["mail"]
        assert list(both["hook"].begun) == [DISK]
        assert (await compare(store, DISK)).begun == []

    async def test_what_a_removed_channel_reported_is_deleted(
        self, store: Store
    ) -> None:
        await reported(store, DISK)
        await store.alerts.compare({"disk": DISK}, {"hook"})
        assert list((await compare(store, DISK)).begun) == [DISK]


async def conditions(store: Store, *instances: str) -> AlertConditions:
    """Return the alert conditions, which operators are shown the same."""
    found = await store.alert_conditions.current(instances)
    assert await store.read(lambda reader: reader.conditions(instances)) == found
    return found


async def fold_unhandled(
    store: Store, clock: TestClock, topic: str, detail: str = "no such topic"
) -> None:
    """Append an event, and fold it as one of an unknown topic."""
    folded = Folded("unhandled", topic, detail=detail)
    await arrive(store, folded=folded, at=at(clock))


class AlertConditionsConformance(StoreConformance):
    """Tests of `Store.alert_conditions`."""

    async def test_parked_commands_are_listed_the_oldest_first(
        self, store: Store
    ) -> None:
        first = await sent(store, Cause.UNDECIDABLE, target="ord_1")
        second = await sent(store, Cause.UNDECIDABLE, target="ord_2", name="other")
        await sent(store, Cause.REFUSED, target="ord_3")
        found = (await conditions(store)).parked
        assert [each.id for each in found] == [first.id, second.id]
        assert (found[0].store, found[0].kind, found[0].target) == (
            "main",
            "fulfill",
            "ord_1",
        )
        assert found[0].detail == "why"

    async def test_stores_with_open_commands_are_named(self, store: Store) -> None:
        await sent(store, Cause.CONFIRMED, name="done")
        await sent(store, Cause.UNDECIDABLE, name="parked")
        for name in ("second", "first", "first"):
            await plan(store, name=name)
        await sent(store, Cause.UNKNOWN, name="third")
        found = (await conditions(store)).open_stores
        assert sorted(found) == ["first", "second", "third"]

    async def test_a_command_is_repeated_after_five_uncertain_attempts(
        self, store: Store
    ) -> None:
        repeated = await plan(store)
        await plan(store, target="ord_2")
        for _ in range(5):
            assert list((await conditions(store)).repeated) == []
            for command in await claimed(store):
                outcome = "uncertain" if command.id == repeated else "never_sent"
                await resolve(store, command, Cause.NOT_SENT, outcome=outcome)
        found = (await conditions(store)).repeated
        assert [each.id for each in found] == [repeated]
        (command,) = (each for each in await claimed(store) if each.id == repeated)
        await resolve(store, command, Cause.CONFIRMED)
        assert list((await conditions(store)).repeated) == []

    async def test_an_attempt_that_a_stop_cut_off_is_inconclusive_too(
        self, store: Store, clock: TestClock
    ) -> None:
        repeated = await plan(store)
        cut_off = Transition((Cause.UNKNOWN,), "the daemon stopped")
        for _ in range(5):
            assert list((await conditions(store)).repeated) == []
            await claimed(store)
            await store.commands.mark_interrupted_uncertain(cut_off)
            (doubt,) = await store.uncertain.due("main", 9)
            absent = Transition((Cause.PROVED_ABSENT,), "not there")
            check = Check(at(clock), "absent", "why")
            await store.uncertain.record_check(doubt, check, absent)
        assert [each.id for each in (await conditions(store)).repeated] == [repeated]

    async def test_surplus_effects_are_listed_once_for_their_command(
        self, store: Store
    ) -> None:
        doubled = {"doubled": ["adj_2", "adj_3", "adj_4"]}
        change = {"effect_id": "adj_1", "evidence": doubled}
        place = {"kind": "adjust", "target": "prod_1", "payload": ADJUSTMENT}
        first = await sent(store, Cause.CONFIRMED, change=change, **place)
        own = {"effect_id": "adj_4"}
        await sent(store, Cause.CONFIRMED, change=own, **place)
        (found,) = (await conditions(store)).doubled
        assert (found.id, found.detail) == (first.id, "adj_2, adj_3")

    async def test_the_last_record_of_each_connection_is_known(
        self, store: Store, clock: TestClock
    ) -> None:
        await plan(store, instance="courier")
        clock.advance(60)
        await plan(store, instance="courier")
        await plan(store, instance="books")
        found = (await conditions(store, "courier", "silent")).last_records
        expected = from_text(at(clock)).timestamp()
        assert found == {"courier": pytest.approx(expected, abs=0.01)}

    async def test_open_rows_of_the_quarantine_are_counted(self, store: Store) -> None:
        bad = [NewRecord(f"row-{n}", None, "a;b", "no order", "") for n in range(3)]
        await store.records.accept(
            "courier", "main", bad, None, lambda *_: Unmatched("", final=True)
        )
        rows = await store.read(lambda reader: reader.quarantine(9))
        await store.quarantine.discard(rows[0].id, "ann", "seen")
        assert (await conditions(store)).quarantined == 2

    async def test_the_backup_state_is_that_of_the_last_runs(
        self, store: Store, clock: TestClock
    ) -> None:
        assert (await conditions(store)).backup is None
        await store.job_runs.register({BACKUP: "every 1d"})
        since = at(clock)
        assert await backup(store) == BackupState(None, since, None)
        made = await backed_up(store, clock, failed=False)
        assert await backup(store) == BackupState(None, made, None)
        await backed_up(store, clock, failed=True)
        assert await backup(store) == BackupState("ended", made, None)

    async def test_a_backup_of_a_clock_that_was_ahead_hides_no_later_one(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.job_runs.register({BACKUP: "every 1d"})
        clock.set_by(86_400)
        await backed_up(store, clock, failed=False)
        clock.set_by(-86_400)
        made = await backed_up(store, clock, failed=False)
        await backed_up(store, clock, failed=True)
        assert await backup(store) == BackupState("ended", made, None)

    async def test_a_failed_backup_has_failed_until_the_next_one_ends(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.job_runs.register({BACKUP: "every 1d"})
        since = at(clock)
        await backed_up(store, clock, failed=True)
        began = at(clock)
        await store.job_runs.begin(JobRun(BACKUP, Trigger.OPERATOR, began, began))
        assert await backup(store) == BackupState("ended", since, began)

    async def test_the_last_webhook_of_another_store_is_known(
        self, store: Store, clock: TestClock
    ) -> None:
        for other in ("sto_2", "sto_3"):
            clock.advance(60)
            await receive_foreign(store, clock, other)
        found = (await conditions(store)).foreign_webhooks
        assert found == {"main": f"{at(clock)} sto_3"}

    async def test_deliveries_that_are_parked_or_wait_are_known(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(BOOKS)
        await store.deliveries.subscribe(replace(BOOKS, instance="idle"))
        for number in (1, 1, 2, 3):
            await show_customer(store, f"cus_{number}", "a@b.example")
            await store.deliveries.fan_out(BOOKS, 1.0)
            clock.advance(60)
        claimed = await store.deliveries.claim(BOOKS)
        assert claimed is not None
        parked = DeliveryOutcome(cause=Cause.UNDECIDABLE, reason="refused")
        await store.deliveries.record_outcome("books", claimed, parked)
        found = await conditions(store)
        (delivery,) = found.parked_deliveries
        assert (delivery.instance, delivery.object_id) == ("books", "cus_1")
        assert (delivery.seq, delivery.reason) == (claimed.seq, "refused")
        assert found.deliveries_since == {"books": at(clock, -120)}

    async def test_paused_jobs_are_listed(self, store: Store) -> None:
        jobs: Mapping[tuple[str, str], str] = {BACKUP: "", ("poll", "main"): ""}
        await store.job_runs.register(jobs)
        entry = AuditEntry("ann", "jobs pause", "poll")
        await store.job_runs.pause([("poll", "main")], entry)
        assert list((await conditions(store)).paused_jobs) == [("poll", "main")]

    async def test_stopped_stock_targets_have_their_reason(self, store: Store) -> None:
        await store.targets.stop("main", "the counts are wrong")
        await store.targets.stop("other", "a test")
        await store.targets.stop("other", None)
        found = (await conditions(store)).counts_stopped
        assert found == {"main": "the counts are wrong"}

    async def test_unknown_topics_of_the_last_hour_are_counted(
        self, store: Store, clock: TestClock
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

    async def test_orders_that_wait_for_a_refetch_are_known(
        self, store: Store, clock: TestClock
    ) -> None:
        clock.advance(60)
        await show_order(store, "ord_1")
        seconds = [f"2026-03-01T12:00:0{second}.000Z" for second in range(10)]
        event = await hold_order(store, at=seconds[9], state="folded")
        await hold_order(store, "ord_2", "other", at=seconds[9])
        for kind in ("fulfill", "cancel"):
            await plan(store, kind, "ord_1")
        first, second = (await conditions(store)).unreadable
        assert (first.store, first.order_id, first.name) == ("main", "ord_1", "#1001")
        assert (first.event, first.reason, first.commands) == (event, UNREADABLE, 2)
        assert first.row is None
        assert (second.order_id, second.name, second.commands) == ("ord_2", "ord_2", 0)
        assert (await counts(store)).unreadable_orders == [first, second]

        await release_order(store, began=seconds[8])
        assert (await conditions(store)).unreadable == [first, second]
        await release_order(store, began=seconds[9])
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

    async def test_a_delivery_that_is_under_way_waits_too(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.deliveries.subscribe(BOOKS)
        began = at(clock)
        for id_ in ("cus_1", "cus_2"):
            await show_customer(store, id_, "a@b.example")
            await store.deliveries.fan_out(BOOKS, 1.0)
            clock.advance(60)
        sent_ = await store.deliveries.claim(BOOKS)
        assert sent_ is not None
        assert (await conditions(store)).deliveries_since == {"books": began}
        await end(store, sent_, Cause.UNKNOWN)
        assert (await conditions(store)).deliveries_since == {"books": began}
        await end(store, sent_, Cause.PROVED_APPLIED)
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


async def backup(store: Store) -> BackupState | None:
    """Return the state of the backup job."""
    return (await conditions(store)).backup


async def backed_up(store: Store, clock: TestClock, *, failed: bool) -> str:
    """Let an hour pass and a backup end; return when it began."""
    clock.advance(3_600)
    began = at(clock)
    await store.job_runs.begin(JobRun(BACKUP, Trigger.SCHEDULE, began, began))
    await store.job_runs.end(BACKUP, began, "ended", failed=failed)
    return began


async def receive_foreign(store: Store, clock: TestClock, other: str) -> None:
    """Receive a webhook of another store."""
    folded = Folded("unhandled", "orders/create", foreign_store=other)
    await arrive(store, folded=folded, at=at(clock))
