"""Operator decisions about a command: allowed states, kept facts, and races."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.lifecycle import TRANSITIONS, Cause, State
from backhaul.errors import BackhaulError
from backhaul.settings import Push
from backhaul.store.commands import VERBS, Decision
from scenes import payloads
from scenes.damaged_rows import overwrite
from scenes.pushing import DELAYED_SECONDS, scene, working
from scenes.scripted_platform import document, message
from scenes.stored import checks, rows_of

if TYPE_CHECKING:
    from backhaul.store import Place
    from scenes.pushing import Scene
    from scenes.scripted_platform import Connection, Request

HISTORY = "/inventory/history"
NOTHING = document({"data": [], "meta": {"hasMore": False}})
WHO = "ann (uid 7)"


async def decide(
    stage: Scene, verb: str, command: str, reason: str = "because", **more: Any
) -> str:
    decided = Decision(command, verb, WHO, reason)
    return (await stage.store.decisions.decide(decided, **more)).state


def audit(stage: Scene) -> list[tuple[Any, ...]]:
    return rows_of(
        stage.place,
        "audit",
        "who",
        "action",
        "detail",
        "command_id",
        "state_before",
        "state_after",
    )


def set_state(stage: Scene, command: str, state: str) -> None:
    """Set the state of a command, as if it had been sent once."""
    sent = {
        "state": state,
        "attempts": 1,
        "looks": 2,
        "failures": 3,
        "sent_at": "2026-03-01T12:00:00.000Z",
        "request": "{}",
    }
    overwrite(stage.place, "commands", sent, id=command)


PAIRS = [(state, verb) for state in State for verb in VERBS]


@pytest.mark.parametrize(("state", "verb"), PAIRS, ids=lambda word: word)
async def test_a_verb_moves_as_the_lifecycle_says_or_is_refused(
    state: State, verb: str, stage: Scene
) -> None:
    command = await stage.plan("adjust", "prod_1")
    set_state(stage, command, state)
    after = TRANSITIONS.get((state, VERBS[verb]))
    if after is None:
        with pytest.raises(
            BackhaulError,
            match=f"is {state}, so the action {verb} is not",
        ):
            await decide(stage, verb, command)
        assert (stage.state(command), audit(stage)) == (state, [])
        return
    assert await decide(stage, verb, command) == after
    kept = (WHO, f"commands {verb}", "because", command, state, after)
    assert (stage.state(command), audit(stage)) == (after, [kept])
    assert stage.reason(command) == f"{verb} by {WHO}: because"


async def test_a_refused_decision_lists_the_possible_ones(stage: Scene) -> None:
    command = await stage.plan("adjust", "prod_1")
    set_state(stage, command, "parked")
    with pytest.raises(
        BackhaulError, match="resolve, resolve --applied, resend, discard"
    ):
        await decide(stage, "park", command)
    with pytest.raises(BackhaulError, match="there is no command beef"):
        await decide(stage, "park", "beef")


async def test_a_command_that_was_never_sent_is_not_looked_up(stage: Scene) -> None:
    command = await stage.plan("adjust", "prod_1")
    await decide(stage, "park", command)
    with pytest.raises(BackhaulError, match="was not sent"):
        await decide(stage, "resolve", command)
    assert stage.state(command) == "parked"
    assert [row[1] for row in audit(stage)] == ["commands park"]


async def test_a_decision_needs_the_state_that_the_operator_saw(stage: Scene) -> None:
    command = await stage.plan("adjust", "prod_1")
    set_state(stage, command, "parked")
    await decide(stage, "discard", command)
    with pytest.raises(
        BackhaulError, match="was parked when you opened it and is rejected now"
    ):
        await decide(stage, "resend", command, shown=State.PARKED)
    assert stage.state(command) == "rejected"


@pytest.mark.parametrize("verb", ["resolve", "resend"])
async def test_a_repeated_check_request_brings_the_last_check_no_nearer(
    verb: str, stage: Scene
) -> None:
    """Only the last check, minutes later, may decide that there was no effect."""
    command = await stage.plan("adjust", "prod_1")
    set_state(stage, command, "parked")
    await decide(stage, verb, command)
    assert (stage.column("looks", command), stage.column("failures", command)) == (0, 0)


async def parked(stage: Scene) -> str:
    """Return a parked adjustment: a 500, and no evidence in any check."""
    stage.platform.respond("/inventory/adjust", message(500))
    stage.platform.respond(HISTORY, document({"code": "NOT_FOUND"}, 404))
    command = await stage.plan("adjust", "prod_1")
    await stage.await_state(command, "parked")
    return command


async def test_a_new_check_finds_an_earlier_effect(stage: Scene) -> None:
    async with working(stage):
        command = await parked(stage)
        there = document({"data": [_row(command)], "meta": {"hasMore": False}})
        stage.platform.respond(HISTORY, there)
        assert await decide(stage, "resolve", command, "") == "uncertain"
        stage.resolver.wake()
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 1
    assert stage.column("effect_id", command) == "adj_1"


def _row(command: str) -> dict[str, Any]:
    return {
        "id": "inv_1",
        "adjustmentId": "adj_1",
        "productId": "prod_1",
        "variantId": "var_1",
        "adjustment": -2,
        "stockAfter": 1,
        "reason": "DAMAGED",
        "note": f"bh:{command}",
        "source": {"type": "API_KEY", "id": "key_1"},
        "createdAt": payloads.instant(1),
    }


async def test_a_resend_sends_the_original_request(stage: Scene) -> None:
    async with working(stage):
        command = await parked(stage)
        stage.platform.responses.pop("/inventory/adjust")
        assert await decide(stage, "resend", command) == "planned"
        stage.dispatcher.wake()
        await stage.await_state(command, "applied")
    first, second = stage.sent_bodies()
    assert first == second
    assert [row[0] for row in stage.attempts(command)] == [1, 2]


@pytest.mark.parametrize("verb", ["resolve --applied", "discard", "park"])
async def test_a_discarded_command_is_not_sent(verb: str, stage: Scene) -> None:
    command = await stage.plan("adjust", "prod_1")
    await decide(stage, "park", command)
    if verb != "park":
        await decide(stage, verb, command)
    async with working(stage):
        await stage.run_pending()
    assert stage.server.commands == []


class Slow:
    """A history that answers only when a test lets it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def __call__(self, request: Request, connection: Connection) -> None:
        self.asked.set()
        await self.answer.wait()
        await connection.send(NOTHING)


async def test_an_operator_overrides_a_check_that_is_under_way(stage: Scene) -> None:
    slow = Slow()
    stage.platform.respond("/inventory/adjust", message(500))
    stage.platform.respond(HISTORY, slow)
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await slow.asked.wait()
        await decide(stage, "park", command)
        slow.answer.set()
        await stage.run_pending()
        assert stage.state(command) == "parked"
    assert stage.reason(command) == f"park by {WHO}: because"


async def test_a_check_of_an_earlier_attempt_says_nothing_of_the_next(
    database: Place,
) -> None:
    """An operator parked and resent the command while the resolver was reading."""
    only = Push.model_validate({"check_after": ["0s"], "on_absent": "park"})
    made = scene(database, only, patience_seconds=DELAYED_SECONDS)
    async with made as stage, working(stage):
        slow = Slow()
        stage.platform.respond("/inventory/adjust", message(500))
        stage.platform.respond(HISTORY, slow)
        command = await stage.plan("adjust", "prod_1")
        await slow.asked.wait()
        await decide(stage, "park", command)
        await decide(stage, "resend", command)
        stage.dispatcher.wake()
        await stage.await_state(command, "uncertain")
        slow.answer.set()
        await stage.await_state(command, "parked")
        found = [check.found for check in checks(stage.place, command)]
        assert found == ["absent", "absent"]


async def test_concurrent_decisions_move_a_command_once(stage: Scene) -> None:
    command = await stage.plan("adjust", "prod_1")
    set_state(stage, command, "parked")
    verbs = ["discard", "resolve --applied", "resolve"] * 4
    said = await asyncio.gather(
        *(decide(stage, verb, command) for verb in verbs), return_exceptions=True
    )
    done = [word for word in said if isinstance(word, str)]
    assert len(audit(stage)) == len(done)
    assert done[0] == "rejected"
    assert stage.state(command) == "rejected"
    assert len(done) == 1


def test_every_decision_of_an_operator_has_its_verb() -> None:
    moves = {cause for cause in Cause if cause.value.startswith("person_")}
    assert set(VERBS.values()) == moves
