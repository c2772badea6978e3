"""Tests of uncertain commands: which are due, checks, and evidence."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.identity import tag
from backhaul.core.lifecycle import Cause, State
from backhaul.store.commands import Check, Decision, Sendable, Transition
from backhaul.store.testing.command_scenes import (
    ADJUSTMENT,
    ALL_KINDS,
    at,
    claimed,
    detail,
    plan,
    resolve,
    sent,
    state_of,
    uncertain,
)
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from typing import Any

    from backhaul.core.clock import Clock
    from backhaul.store import Store
    from backhaul.store.commands import UncertainCommand
    from backhaul.store.matching import Command
    from backhaul.store.testing.scenes import TestClock

WAIT = Transition((Cause.UNKNOWN,), "not there yet")
APPLIED = Transition((Cause.PROVED_APPLIED,), "there", effect_id="adj_1")
ABSENT = Transition((Cause.PROVED_ABSENT,), "it is not there")
DAY = 86_400.0


async def check(
    store: Store,
    doubt: UncertainCommand,
    change: Transition,
    *,
    counts: bool = True,
) -> State:
    """Record a check."""
    found = Check("2026-03-01T12:00:00.000Z", "absent", "why", {"rows": 1}, counts)
    return await store.uncertain.record_check(doubt, found, change)


async def due_ids(store: Store, name: str = "main", limit: int = 9) -> list[str]:
    """Return the ids of the commands whose check is due."""
    return [found.command.id for found in await store.uncertain.due(name, limit)]


class UncertainCommandsConformance(StoreConformance):
    """Tests of `Store.uncertain`."""

    async def test_an_uncertain_command_has_what_was_sent(
        self, store: Store, clock: TestClock
    ) -> None:
        planned_at = at(clock)
        id_ = await plan(store)
        clock.advance(1)
        sent_at = at(clock)
        (command,) = await claimed(store)
        clock.advance(1)
        await resolve(store, command, Cause.UNKNOWN)
        (found,) = await store.uncertain.due("main", 9)
        assert (found.command.id, found.command.state) == (id_, State.UNCERTAIN)
        assert (found.request, found.key_fingerprint) == (id_.encode(), "fingerprint")
        assert (found.planned_at, found.sent_at) == (planned_at, sent_at)
        assert (found.first_sent_at, found.checks) == (sent_at, 0)
        assert (found.answer, found.is_superseded) == ("why", False)

    async def test_first_sent_is_the_first_attempt_that_may_have_arrived(
        self, store: Store, clock: TestClock
    ) -> None:
        await plan(store)
        times = []
        for outcome in ("never_sent", "uncertain", "uncertain"):
            (command,) = await claimed(store)
            times.append(at(clock))
            clock.advance(1)
            cause = Cause.UNKNOWN if len(times) == 3 else Cause.NOT_SENT
            await resolve(store, command, cause, outcome=outcome)
        (found,) = await store.uncertain.due("main", 9)
        assert (found.first_sent_at, found.sent_at) == (times[1], times[2])

    async def test_the_check_that_is_longest_due_comes_first(
        self, store: Store, clock: TestClock
    ) -> None:
        ids = {}
        for target, seconds in (("ord_1", 5), ("ord_2", 3), ("ord_3", 60)):
            change = {"due_at": at(clock, seconds)}
            command = await sent(store, Cause.UNKNOWN, change=change, target=target)
            ids[target] = command.id
        await sent(store, Cause.UNKNOWN, name="other")
        assert await due_ids(store) == []
        assert await store.uncertain.next_due("main") == at(clock, 3)
        clock.advance(10)
        assert await due_ids(store) == [ids["ord_2"], ids["ord_1"]]
        assert await due_ids(store, limit=1) == [ids["ord_2"]]
        assert await store.uncertain.next_due("main") == at(clock, -7)

    async def test_no_check_is_due_without_an_uncertain_command(
        self, store: Store
    ) -> None:
        await plan(store, target="ord_9")
        await uncertain(store, name="other")
        await sent(store, Cause.CONFIRMED)
        assert await store.uncertain.next_due("main") is None
        assert await due_ids(store) == []

    async def test_one_check_of_an_ordering_key_is_due_at_a_time(
        self, store: Store
    ) -> None:
        first, second = [(await sent(store, Cause.UNDECIDABLE)).id for _ in range(2)]
        for id_ in (second, first):
            await store.decisions.decide(Decision(id_, "resolve", "ann", "why"))
        assert await due_ids(store) == [first]
        await store.decisions.decide(Decision(first, "park", "ann", "why"))
        assert await due_ids(store) == [second]

    async def test_no_check_is_due_beside_a_request_that_is_being_sent(
        self, store: Store
    ) -> None:
        first = await sent(store, Cause.UNDECIDABLE)
        await sent(store)
        await store.decisions.decide(Decision(first.id, "resolve", "ann", "why"))
        assert await state_of(store, first.id) == "uncertain"
        assert await due_ids(store) == []
        assert await store.uncertain.next_due("main") is None

    async def test_each_check_is_recorded(self, store: Store, clock: TestClock) -> None:
        doubt = await uncertain(store)
        change = Transition((Cause.UNKNOWN,), "not there yet", at(clock, 5))
        assert await check(store, doubt, change) is State.UNCERTAIN
        clock.advance(5)
        (again,) = await store.uncertain.due("main", 9)
        assert again.checks == 1
        assert await check(store, again, APPLIED) is State.APPLIED
        shown = await detail(store, doubt.command.id)
        assert [(look.number, look.found) for look in shown.looks] == [
            (1, "absent"),
            (2, "absent"),
        ]
        assert (shown.looks[0].reason, shown.looks[0].read) == ("why", '{"rows":1}')
        assert (shown.effect_id, shown.reason) == ("adj_1", "there")
        assert await due_ids(store) == []

    async def test_a_check_that_determined_nothing_does_not_count(
        self, store: Store
    ) -> None:
        doubt = await uncertain(store)
        await check(store, doubt, WAIT, counts=False)
        (again,) = await store.uncertain.due("main", 9)
        assert again.checks == 0
        assert (await detail(store, doubt.command.id)).looks == []

    async def test_an_absent_effect_sends_the_command_again(self, store: Store) -> None:
        doubt = await uncertain(store)
        await check(store, doubt, WAIT)
        (again,) = await store.uncertain.due("main", 9)
        assert await check(store, again, ABSENT) is State.PLANNED
        (command,) = await claimed(store)
        assert (command.id, command.attempts) == (doubt.command.id, 1)
        await resolve(store, command, Cause.UNKNOWN)
        (again,) = await store.uncertain.due("main", 9)
        assert again.checks == 0

    async def test_an_absent_effect_can_park_the_command(self, store: Store) -> None:
        doubt = await uncertain(store)
        change = Transition((Cause.PROVED_ABSENT, Cause.UNDECIDABLE), "decide")
        assert await check(store, doubt, change) is State.PARKED
        assert (await detail(store, doubt.command.id)).reason == "decide"

    async def test_a_check_of_a_command_that_was_moved_changes_nothing(
        self, store: Store
    ) -> None:
        doubt = await uncertain(store)
        assert await store.uncertain.is_still_uncertain(doubt)
        decision = Decision(doubt.command.id, "park", "ann", "seen")
        await store.decisions.decide(decision)
        assert not await store.uncertain.is_still_uncertain(doubt)
        assert await check(store, doubt, APPLIED) is State.PARKED
        shown = await detail(store, doubt.command.id)
        assert (shown.state, shown.effect_id) == ("parked", None)

    async def test_a_check_of_an_earlier_attempt_changes_nothing(
        self, store: Store
    ) -> None:
        doubt = await uncertain(store)
        await check(store, doubt, ABSENT)
        (command,) = await claimed(store)
        await resolve(store, command, Cause.UNKNOWN)
        assert not await store.uncertain.is_still_uncertain(doubt)
        assert await check(store, doubt, APPLIED) is State.UNCERTAIN

    async def test_sibling_fulfillments_are_those_that_may_own_a_parcel(
        self, store: Store
    ) -> None:
        ended = await sent(store, Cause.UNDECIDABLE)
        known = await sent(store, Cause.CONFIRMED, change={"effect_id": "shp_1"})
        refused = await sent(store, Cause.REFUSED, change={"outcome": "rejected"})
        await sent(store, Cause.UNDECIDABLE, kind="cancel")
        await sent(store, Cause.UNDECIDABLE, target="ord_2")
        await sent(store, Cause.UNDECIDABLE, name="other")
        asking = await sent(store, Cause.UNKNOWN)
        for command, expected in ((asking, [ended]), (refused, [ended, asking])):
            found = await store.uncertain.sibling_fulfillments(command)
            assert [each.id for each in found] == [each.id for each in expected]
        assert known.id not in {each.id for each in found}

    async def test_known_before_is_of_the_first_attempt_that_may_have_arrived(
        self, store: Store
    ) -> None:
        await plan(store)
        (command,) = await claimed(store)
        assert await store.uncertain.known_before(command) is None
        await resolve(store, command, Cause.NOT_SENT, outcome="never_sent")
        (command,) = await claimed(store)
        assert await store.uncertain.known_before(command) is None
        await resolve(store, command, Cause.UNKNOWN)
        (found,) = await store.uncertain.due("main", 9)
        assert await store.uncertain.known_before(found.command) == found.baseline

    async def test_owners_are_the_commands_behind_our_adjustments(
        self, store: Store
    ) -> None:
        tagged = await applied_adjustment(store, "adj_1", with_tag=True)
        plain = await applied_adjustment(store, "adj_2", with_tag=False)
        await applied_adjustment(store, "adj_3", with_tag=True, name="other")
        asked = ["adj_1", "adj_2", "adj_3", "adj_9"]
        found = await store.uncertain.owners("main", asked)
        assert {effect: owner.command for effect, owner in found.items()} == {
            "adj_1": tagged,
            "adj_2": plain,
        }
        assert (found["adj_1"].note, found["adj_2"].note) == (tag(tagged), None)
        assert found["adj_1"].key_fingerprint == "fingerprint"

    async def test_last_adjusted_is_the_product_of_the_newest_adjustment(
        self, store: Store
    ) -> None:
        assert await store.uncertain.last_adjusted("main") is None
        await applied_adjustment(store, "adj_1", with_tag=True, target="prod_1")
        await applied_adjustment(store, "adj_2", with_tag=True, target="prod_2")
        await applied_adjustment(
            store, "adj_3", with_tag=True, target="prod_3", name="other"
        )
        await sent(store, Cause.CONFIRMED, change={"effect_id": "shp_1"})
        await uncertain(store, kind="adjust", target="prod_4", payload=ADJUSTMENT)
        assert await store.uncertain.last_adjusted("main") == "prod_2"

    async def test_competing_adjustments_are_those_that_may_have_had_the_effect(
        self, store: Store, clock: TestClock
    ) -> None:
        await sent(store, Cause.UNDECIDABLE, **adjustment(clock))
        await sent(
            store,
            Cause.CONFIRMED,
            change={"effect_id": "adj_1"},
            **adjustment(clock),
        )
        await sent(store, Cause.UNDECIDABLE, **adjustment(clock, delta=-3))
        await sent(store, Cause.UNDECIDABLE, **adjustment(clock, variant_id="var_2"))
        await sent(store, Cause.UNDECIDABLE, **adjustment(clock), name="other")
        refused = await sent(store, Cause.REFUSED, **adjustment(clock))
        own = await sent(store, **adjustment(clock))
        await plan(store, **adjustment(clock))
        assert await competing(store, own, at(clock)) == 2
        assert await competing(store, refused, at(clock)) == 2
        assert await competing(store, own, "") == 2
        assert await competing(store, own, at(clock, 8 * DAY)) == 0

    async def test_postpone_moves_checks_that_were_planned_with_the_old_clock(
        self, store: Store, clock: TestClock
    ) -> None:
        old, new, other = [
            await sent(store, Cause.UNKNOWN, change={"due_at": at(clock, due)}, **place)
            for due, place in (
                (60, {"target": "ord_1"}),
                (4000, {"target": "ord_2"}),
                (60, {"name": "other"}),
            )
        ]
        before = {old.id: at(clock, 60), new.id: at(clock, 4000)}
        clock.set_by(3600)
        await store.uncertain.postpone("main", 3600.0, 600.0)
        assert (await detail(store, old.id)).due_at == at(clock, 60)
        assert (await detail(store, new.id)).due_at == before[new.id]
        assert (await detail(store, other.id)).due_at == before[old.id]


def adjustment(clock: Clock, **members: Any) -> dict[str, Any]:
    """Return the arguments that plan an adjustment."""
    payload = {**ADJUSTMENT, **members}
    return {"kind": "adjust", "target": "prod_1", "payload": payload}


async def competing(store: Store, command: Command, effective_at: str) -> int:
    """Count the adjustments that may have had a command's effect."""
    return await store.uncertain.count_competing_adjustments(command, effective_at)


async def applied_adjustment(
    store: Store, effect: str, *, with_tag: bool, name: str = "main", target: str = ""
) -> str:
    """Apply an adjustment that has a known effect; return its id."""
    id_ = await plan(
        store, "adjust", target or f"prod_{effect}", name=name, payload=ADJUSTMENT
    )
    request = tag(id_).encode() if with_tag else b"plain"
    step = Sendable(request, "fingerprint")
    found = await store.commands.claim(name, ALL_KINDS, 9, lambda *_: step)
    await resolve(store, found[-1][0], Cause.CONFIRMED, effect_id=effect)
    return id_
