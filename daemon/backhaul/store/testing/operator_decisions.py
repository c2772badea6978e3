"""Tests of operators' decisions about commands, and of incidents."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.lifecycle import Cause, State
from backhaul.errors import BackhaulError
from backhaul.store.commands import RESTOCK_UNSHIPPED, Check, Decision, Transition
from backhaul.store.testing.command_scenes import (
    at,
    audit_entries,
    claimed,
    detail,
    in_brief,
    plan,
    sent,
    state_of,
    uncertain,
)
from backhaul.store.testing.contract import FamilyTests

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.matching import Command
    from backhaul.store.testing.contract import MovableClock

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
    (State.UNCERTAIN, "settle", State.UNCERTAIN),
    (State.PARKED, "settle", State.UNCERTAIN),
    (State.PARKED, "settle --applied", State.APPLIED),
    (State.PARKED, "resend", State.PLANNED),
    (State.PARKED, "drop", State.REJECTED),
    (State.REJECTED, "resend", State.PLANNED),
]
VERBS = ("settle", "settle --applied", "park", "resend", "drop")
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


class DecisionsConformance(FamilyTests):
    """Tests of `Store.decisions`."""

    @pytest.mark.parametrize(("before", "verb", "after"), DECIDED)
    async def test_a_decision_moves_a_command(
        self, before: State, verb: str, after: State, store: Store, clock: MovableClock
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
            await decide(store, id_, "settle")
        assert await state_of(store, id_) == "parked"

    async def test_a_resent_command_is_sent_at_once_and_its_failures_restart(
        self, store: Store, clock: MovableClock
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
        await decide(store, doubt.command.id, "settle")
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


class IncidentsConformance(FamilyTests):
    """Tests of `Store.incidents`."""

    async def test_an_incident_is_open_until_an_operator_resolves_it(
        self, store: Store, clock: MovableClock
    ) -> None:
        command = await crossing(store)
        (incident,) = await store.read(lambda reader: reader.incidents())
        assert (incident.store, incident.order_id) == ("main", "ord_1")
        assert (incident.command_id, incident.at) == (command, at(clock))
        assert incident.says == "order #1001 was cancelled"
        clock.advance(1)
        closed = await store.incidents.resolve(incident.id, "ann", "parcel stopped")
        assert (closed.id, closed.says) == (incident.id, incident.says)
        assert (closed.resolved_at, closed.resolved_by) == (at(clock), "ann")
        assert closed.resolution == "parcel stopped"
        assert await store.read(lambda reader: reader.incidents()) == []
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == (
            "ann",
            "incidents resolve",
            f"{incident.id}: parcel stopped",
        )

    async def test_an_incident_is_resolved_once(self, store: Store) -> None:
        await crossing(store)
        (incident,) = await store.read(lambda reader: reader.incidents())
        await store.incidents.resolve(incident.id, "ann", "parcel stopped")
        for id_ in (incident.id, incident.id + 1):
            with pytest.raises(BackhaulError, match="no open incident"):
                await store.incidents.resolve(id_, "bob", "again")
        assert len(await audit_entries(store)) == 1


async def crossing(store: Store) -> str:
    """Apply a command whose effect crossed a cancellation; return its id."""
    crossed = {"kind": "cancelled", "says": "order #1001 was cancelled"}
    change = {"evidence": {"crossed": crossed}}
    return (await sent(store, Cause.CONFIRMED, change=change)).id
