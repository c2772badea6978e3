"""Tests of commands: ordering keys, send windows, transitions, and decisions."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.lifecycle import Cause, State
from backhaul.errors import AlreadyRunning, BackhaulError
from backhaul.store.commands import (
    RESTOCK_UNSHIPPED,
    Check,
    Decision,
    Sendable,
    Transition,
)
from backhaul.store.testing.command_scenes import (
    ALL_KINDS,
    ALWAYS,
    at,
    audit_entries,
    claimed,
    claimed_ids,
    count_commands,
    detail,
    plan,
    resolve,
    sent,
    state_of,
    uncertain,
)
from backhaul.store.testing.mirror_scenes import show_order
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.matching import Command, MatchReader
    from backhaul.store.testing.scenes import OpenStore, TestClock


BLOCKING = [
    (None, State.SENDING, True),
    (Cause.UNKNOWN, State.UNCERTAIN, True),
    (Cause.UNDECIDABLE, State.PARKED, False),
    (Cause.CONFIRMED, State.APPLIED, False),
    (Cause.REFUSED, State.REJECTED, False),
]
DRY_RUNS = [("*",), ("courier",)]


class CommandsConformance(StoreConformance):
    """Tests of `Store.commands`."""

    async def test_claim_commits_the_request_and_the_attempt(
        self, store: Store, clock: TestClock
    ) -> None:
        id_ = await plan(store, "fulfill", "ord_1")
        (command,) = await claimed(store)
        assert (command.id, command.kind, command.target) == (id_, "fulfill", "ord_1")
        assert (command.lane, command.instance) == ("order:ord_1", "courier")
        assert (command.payload, command.state) == ({"n": 1}, State.SENDING)
        shown = await detail(store, id_)
        assert (shown.state, shown.request) == ("sending", id_.encode())
        assert (shown.key_fingerprint, shown.sent_at) == ("fingerprint", at(clock))
        (attempt,) = shown.attempts
        assert (attempt.number, attempt.finished_at) == (1, None)
        assert await claimed(store) == []

    async def test_the_first_of_each_ordering_key_is_claimed(
        self, store: Store
    ) -> None:
        planned = [
            await plan(store, kind, target)
            for target in ("ord_1", "ord_2")
            for kind in ("fulfill", "cancel", "fulfill")
        ]
        assert sorted(await claimed_ids(store)) == sorted([planned[0], planned[3]])

    async def test_an_ordering_key_continues_in_the_order_of_planning(
        self, store: Store
    ) -> None:
        planned = [await plan(store, kind) for kind in ("fulfill", "cancel", "cancel")]
        for expected in planned:
            (command,) = await claimed(store)
            assert command.id == expected
            await resolve(store, command, Cause.CONFIRMED)

    async def test_a_retry_is_not_overtaken(
        self, store: Store, clock: TestClock
    ) -> None:
        command = await sent(store, Cause.NOT_SENT, change={"due_at": at(clock, 60)})
        await plan(store)
        assert await claimed(store) == []
        clock.advance(59)
        assert await claimed(store) == []
        clock.advance(1)
        assert await claimed_ids(store) == [command.id]

    @pytest.mark.parametrize(("cause", "state", "blocks"), BLOCKING)
    async def test_which_states_block_an_ordering_key(
        self, cause: Cause | None, state: State, blocks: bool, store: Store
    ) -> None:
        first = await sent(store, *([cause] if cause else []))
        assert await state_of(store, first.id) == state
        behind = await plan(store)
        other = await plan(store, target="ord_2")
        assert await claimed_ids(store) == ([other] if blocks else [behind, other])

    async def test_the_same_ordering_key_of_another_store_blocks_nothing(
        self, store: Store
    ) -> None:
        await sent(store, name="other")
        mine = await plan(store)
        assert await claimed_ids(store) == [mine]

    async def test_a_claim_takes_only_commands_of_its_store(self, store: Store) -> None:
        mine = await plan(store)
        other = await plan(store, target="ord_2", name="other")
        assert await claimed_ids(store) == [mine]
        assert await claimed_ids(store, name="other") == [other]

    async def test_a_command_on_hold_waits_for_its_order_and_blocks_nothing(
        self, store: Store, clock: TestClock
    ) -> None:
        held = await sent(store, Cause.NOT_SENT, change={"held": True})
        assert (await detail(store, held.id)).hold_reason
        assert await store.commands.next_due("main", "") is None
        assert await claimed(store) == []
        await show_order(store, "ord_2")
        assert await claimed(store) == []
        cancel = await plan(store, "cancel")
        assert await claimed_ids(store) == [cancel]
        await show_order(store, "ord_1")
        assert not (await detail(store, held.id)).hold_reason
        assert await claimed(store) == []

    async def test_a_change_before_the_refusal_is_recorded_prevents_the_hold(
        self, store: Store
    ) -> None:
        command = await sent(store)
        await show_order(store, "ord_1")
        await resolve(store, command, Cause.NOT_SENT, held=True)
        assert await claimed_ids(store) == [command.id]

    async def test_a_send_window_releases_what_was_planned_by_then(
        self, store: Store, clock: TestClock
    ) -> None:
        before = await plan(store)
        opened = at(clock)
        clock.advance(1)
        await plan(store, target="ord_2")
        assert await claimed(store, {}) == []
        assert await claimed(store, {"cancel": ALWAYS}) == []
        assert await claimed_ids(store, windows={"fulfill": opened}) == [before]

    async def test_kinds_are_claimed_in_the_order_of_the_windows(
        self, store: Store
    ) -> None:
        kinds = ("adjust", "fulfill", "cancel")
        planned = {kind: await plan(store, kind, kind) for kind in kinds}
        assert await claimed_ids(store, limit=2) == [
            planned["cancel"],
            planned["fulfill"],
        ]
        assert await claimed_ids(store) == [planned["adjust"]]

    @pytest.mark.parametrize("limit", [0, 1, 3])
    async def test_a_claim_takes_no_more_than_its_limit(
        self, limit: int, store: Store
    ) -> None:
        for number in range(3):
            await plan(store, "fulfill", f"ord_{number}")
            await plan(store, "adjust", f"prod_{number}")
        assert len(await claimed(store, limit=limit)) == limit

    async def test_a_command_can_be_rejected_before_it_is_sent(
        self, store: Store
    ) -> None:
        id_ = await plan(store)
        change = Transition((Cause.REFUSED,), "no need")
        assert await store.commands.claim("main", ALL_KINDS, 9, lambda *_: change) == []
        shown = await detail(store, id_)
        assert (shown.state, shown.reason) == ("rejected", "no need")
        assert (shown.attempts, shown.request) == ([], None)

    async def test_a_failed_preparation_claims_nothing(self, store: Store) -> None:
        planned = [await plan(store, target=f"ord_{number}") for number in range(2)]

        def fail(command: Command, _: MatchReader) -> Sendable:
            if command.id == planned[1]:
                raise ZeroDivisionError
            return Sendable(b"", "")

        with pytest.raises(ZeroDivisionError):
            await store.commands.claim("main", ALL_KINDS, 9, fail)
        for id_ in planned:
            shown = await detail(store, id_)
            assert (shown.state, shown.attempts) == ("planned", [])

    async def test_the_payload_that_is_sent_is_returned_and_stored(
        self, store: Store
    ) -> None:
        id_ = await plan(store)
        step = Sendable(b"request", "fingerprint", {"n": 2})
        ((command, _),) = await store.commands.claim(
            "main", ALL_KINDS, 9, lambda *_: step
        )
        assert command.payload == {"n": 2}
        assert (await detail(store, id_)).wanted == {"n": 2}
        assert (await store.decisions.find(id_)).payload == {"n": 2}

    async def test_each_attempt_is_kept(self, store: Store, clock: TestClock) -> None:
        id_ = await plan(store)
        for number in (1, 2):
            (command,) = await claimed(store)
            state = await resolve(
                store,
                command,
                Cause.NOT_SENT,
                outcome="never_sent",
                counts_as_failure=True,
            )
            assert state is State.PLANNED
            assert (await detail(store, id_)).failures == number
        (command,) = await claimed(store)
        assert (command.attempts, command.failures) == (2, 2)
        clock.advance(1)
        await resolve(store, command, Cause.CONFIRMED, evidence={"a": 1})
        shown = await detail(store, id_)
        found = [(a.number, a.outcome, a.response) for a in shown.attempts]
        assert found == [
            (1, "never_sent", b"response"),
            (2, "never_sent", b"response"),
            (3, "uncertain", b"response"),
        ]
        assert (shown.state, shown.reason) == ("applied", "why")
        assert (shown.settled_at, shown.evidence) == (at(clock), '{"a":1}')

    async def test_a_transition_that_is_not_listed_changes_nothing(
        self, store: Store
    ) -> None:
        command = await sent(store)
        with pytest.raises(ValueError, match="cannot move by"):
            await resolve(store, command, Cause.PROVED_APPLIED)
        shown = await detail(store, command.id)
        assert (shown.state, shown.attempts[0].finished_at) == ("sending", None)

    async def test_an_interrupted_command_becomes_uncertain(
        self, store: Store, clock: TestClock
    ) -> None:
        sending = [await plan(store, target=f"ord_{n}") for n in range(2)]
        assert len(await claimed(store)) == len(sending)
        other = (await sent(store, target="ord_7", name="other")).id
        planned = await plan(store, target="ord_9")
        change = Transition((Cause.UNKNOWN,), "interrupted", at(clock, 5))
        found = await store.commands.mark_interrupted_uncertain(change)
        assert sorted(found) == sorted([*sending, other])
        shown = await detail(store, sending[0])
        assert (shown.state, shown.reason) == ("uncertain", "interrupted")
        assert shown.due_at == at(clock, 5)
        assert await state_of(store, planned) == "planned"
        assert await store.commands.mark_interrupted_uncertain(change) == []

    async def test_next_due_is_the_first_time_after_another(
        self, store: Store, clock: TestClock
    ) -> None:
        assert await store.commands.next_due("main", at(clock)) is None
        for target, seconds in (("ord_1", 5), ("ord_2", 3), ("ord_3", 9)):
            change = {"due_at": at(clock, seconds)}
            await sent(store, Cause.NOT_SENT, change=change, target=target)
        assert await store.commands.next_due("main", at(clock)) == at(clock, 3)
        assert await store.commands.next_due("main", at(clock, 3)) == at(clock, 5)
        assert await store.commands.next_due("main", at(clock, 9)) is None
        assert await store.commands.next_due("other", at(clock)) is None

    async def test_next_due_leaves_out_what_is_not_planned(
        self, store: Store, clock: TestClock
    ) -> None:
        await sent(store, Cause.UNKNOWN, change={"due_at": at(clock, 5)})
        assert await store.commands.next_due("main", at(clock)) is None

    async def test_a_command_with_a_known_id_is_not_planned_again(
        self, store: Store
    ) -> None:
        await sent(store, Cause.CONFIRMED, id_="a" * 32)
        await plan(store, id_="a" * 32)
        assert await state_of(store, "a" * 32) == "applied"
        assert await count_commands(store) == 1
        assert await claimed(store) == []

    async def test_only_the_last_epoch_may_claim(
        self, store: Store, open_store: OpenStore
    ) -> None:
        await plan(store)
        await store.commands.begin_epoch()
        later = await open_store()
        await later.commands.begin_epoch()
        with pytest.raises(AlreadyRunning, match="another daemon has started"):
            await claimed(store)
        assert len(await claimed(later)) == 1

    @pytest.mark.parametrize("dry_run", DRY_RUNS)
    async def test_a_dry_run_sends_nothing(
        self, dry_run: tuple[str, ...], store: Store
    ) -> None:
        id_ = await plan(store)
        assert await claimed(store, dry_run=dry_run) == []
        found = await store.commands.hold_for_dry_run("main", ALL_KINDS, 9, dry_run)
        assert [command.id for command in found] == [id_]
        assert "dry run" in (await detail(store, id_)).reason
        again = await store.commands.hold_for_dry_run("main", ALL_KINDS, 9, dry_run)
        assert again == []
        assert await claimed(store) == []

    async def test_other_connections_send_during_a_dry_run(self, store: Store) -> None:
        await plan(store, instance="books")
        mine = await plan(store, target="ord_2")
        assert await claimed_ids(store, dry_run=("books",)) == [mine]
        held = await store.commands.hold_for_dry_run("main", ALL_KINDS, 9, ("courier",))
        assert held == []

    async def test_after_a_dry_run_the_order_of_planning_is_kept(
        self, store: Store
    ) -> None:
        first, second = [await plan(store) for _ in range(2)]
        for _ in range(2):
            held = await store.commands.hold_for_dry_run("main", ALL_KINDS, 9, ("*",))
            assert len(held) == 1
        third = await plan(store)
        assert await store.commands.release_dry_run("main", ("courier",)) == 0
        assert await store.commands.release_dry_run("other", ()) == 0
        assert await store.commands.release_dry_run("main", ("books",)) == 2
        assert await store.commands.release_dry_run("main", ("books",)) == 0
        for expected in (first, second, third):
            (command,) = await claimed(store)
            assert command.id == expected
            await resolve(store, command, Cause.CONFIRMED)

    async def test_each_store_releases_its_own_dry_run(self, store: Store) -> None:
        await plan(store, instance="apples", name="other")
        await plan(store)
        for name in ("main", "other"):
            held = await store.commands.hold_for_dry_run(name, ALL_KINDS, 9, ("*",))
            assert len(held) == 1
        assert await store.commands.release_dry_run("main", ()) == 1
        assert len(await claimed(store)) == 1
        assert await claimed(store, name="other") == []


BEFORE: dict[State, tuple[Cause, ...]] = {
    State.SENDING: (),
    State.UNCERTAIN: (Cause.UNKNOWN,),
    State.PARKED: (Cause.UNDECIDABLE,),
    State.APPLIED: (Cause.CONFIRMED,),
    State.REJECTED: (Cause.REFUSED,),
    State.SUPERSEDED: (Cause.REPLACED,),
}
DECIDED = [
    (State.UNCERTAIN, "park", State.PARKED),
    (State.UNCERTAIN, "resolve", State.UNCERTAIN),
    (State.PARKED, "resolve", State.UNCERTAIN),
    (State.PARKED, "resolve --applied", State.APPLIED),
    (State.PARKED, "resend", State.PLANNED),
    (State.PARKED, "discard", State.REJECTED),
    (State.REJECTED, "resend", State.PLANNED),
]
VERBS = ("resolve", "resolve --applied", "park", "resend", "discard")
IMPOSSIBLE = [
    (state, verb)
    for state in BEFORE
    for verb in VERBS
    if (state, verb) not in {(before, verb) for before, verb, _ in DECIDED}
]


async def decide(
    store: Store, command: str, verb: str, shown: State | None = None
) -> Command:
    """Let an operator decide."""
    decision = Decision(command, verb, "ann", "seen")
    return await store.decisions.decide(decision, shown)


class DecisionsConformance(StoreConformance):
    """Tests of `Store.decisions`."""

    @pytest.mark.parametrize(("before", "verb", "after"), DECIDED)
    async def test_a_decision_moves_a_command(
        self, before: State, verb: str, after: State, store: Store, clock: TestClock
    ) -> None:
        command = await sent(store, *BEFORE[before])
        clock.advance(1)
        moved = await decide(store, command.id, verb, before)
        assert (moved.id, moved.state) == (command.id, after)
        shown = await detail(store, command.id)
        assert (shown.state, shown.reason) == (after, f"{verb} by ann: seen")
        (entry,) = shown.by_hand
        assert (entry.at, entry.who) == (at(clock), "ann")
        assert (entry.action, entry.reason) == (f"commands {verb}", "seen")
        assert (entry.state_before, entry.state_after) == (before, after)
        assert len(await audit_entries(store)) == 1

    async def test_a_planned_command_can_be_parked(self, store: Store) -> None:
        id_ = await plan(store)
        assert (await decide(store, id_, "park")).state is State.PARKED
        assert await claimed(store) == []

    @pytest.mark.parametrize(("before", "verb"), IMPOSSIBLE)
    async def test_an_impossible_decision_changes_nothing(
        self, before: State, verb: str, store: Store
    ) -> None:
        command = await sent(store, *BEFORE[before])
        with pytest.raises(BackhaulError, match="is not possible"):
            await decide(store, command.id, verb)
        assert await state_of(store, command.id) == before
        assert await audit_entries(store) == []

    async def test_a_decision_about_an_outdated_state_changes_nothing(
        self, store: Store
    ) -> None:
        command = await sent(store, Cause.UNDECIDABLE)
        with pytest.raises(BackhaulError, match="was rejected when you opened it"):
            await decide(store, command.id, "resend", State.REJECTED)
        assert await state_of(store, command.id) == "parked"
        assert await audit_entries(store) == []

    async def test_an_unknown_command_cannot_be_decided(self, store: Store) -> None:
        await plan(store)
        for work in (store.decisions.find("f" * 31), decide(store, "f" * 31, "park")):
            with pytest.raises(BackhaulError, match="there is no command"):
                await work

    async def test_a_command_that_was_not_sent_cannot_be_checked(
        self, store: Store
    ) -> None:
        id_ = await plan(store)
        await decide(store, id_, "park")
        with pytest.raises(BackhaulError, match="was not sent"):
            await decide(store, id_, "resolve")
        assert await state_of(store, id_) == "parked"

    async def test_a_resent_command_is_sent_at_once_and_its_failures_restart(
        self, store: Store, clock: TestClock
    ) -> None:
        change = {"counts_as_failure": True, "due_at": at(clock, 60)}
        command = await sent(store, Cause.UNDECIDABLE, change=change)
        await decide(store, command.id, "resend")
        (again,) = await claimed(store)
        assert (again.id, again.failures, again.attempts) == (command.id, 0, 1)

    async def test_an_operator_who_asks_starts_all_checks_again(
        self, store: Store
    ) -> None:
        doubt = await uncertain(store)
        found = Check("2026-03-01T12:00:00.000Z", "absent", "why")
        change = Transition((Cause.UNKNOWN,), "not there yet")
        await store.uncertain.record_check(doubt, found, change)
        await decide(store, doubt.command.id, "resolve")
        (again,) = await store.uncertain.due("main", 9)
        assert again.checks == 0

    async def test_a_cancellation_can_be_resent_to_restock_only_what_has_not_shipped(
        self, store: Store
    ) -> None:
        payload = {"restock": True}
        command = await sent(store, Cause.UNDECIDABLE, kind="cancel", payload=payload)
        moved = await decide(store, command.id, RESTOCK_UNSHIPPED)
        assert moved.payload == {"restock": False, "restock_unshipped": True}
        (again,) = await claimed(store)
        assert again.payload == moved.payload
