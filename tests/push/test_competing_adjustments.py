"""A change without a tag that two commands may have made is left to an operator.

The platform of these tests keeps no notes and answers every command with 500; its
history shows one change with our key.
"""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.core.lifecycle import State
from backhaul.store.commands import Decision
from scenes.damaged_rows import overwrite
from scenes.pushing import Scene, working
from scenes.scripted_platform import message
from scenes.stock_history import HISTORY, history, move

FIRST = {"note": None, "adjustment": -5}


async def learn_key_name(stage: Scene) -> None:
    """Apply a command, so that the name of our key in the history is known."""
    first = await stage.plan("adjust", "prod_1", delta=-5)
    await stage.await_state(first, "applied")
    assert stage.column("effect_id", first) == "adj_1"


async def plan_parked(stage: Scene, **members: Any) -> str:
    """Return a command that was sent once and parked by an operator."""
    command = await stage.plan("adjust", "prod_1", **members)
    stage.dispatcher.wake()
    await stage.await_state(command, "uncertain")
    await stage.store.decisions.decide(Decision(command, "park", "op", "looking"))
    return command


async def plan_lost(stage: Scene, **members: Any) -> str:
    """Return the next command of the ordering key, whose response is lost too."""
    command = await stage.plan("adjust", "prod_1", **members)
    stage.dispatcher.wake()
    await stage.await_state(command, "uncertain")
    return command


async def pass_checks(stage: Scene, command: str) -> None:
    """Let the history have one matching change, until all checks are done."""
    stage.platform.respond(
        HISTORY, history(move(2, "", note=None), move(1, "", **FIRST))
    )
    while stage.state(command) == "uncertain":
        await stage.pass_time(60)
        await stage.run_pending()


def set_state(stage: Scene, command: str, state: State) -> None:
    overwrite(stage.place, "commands", {"state": state}, id=command)


def set_resolved_at(stage: Scene, command: str, at: str | None) -> None:
    overwrite(stage.place, "commands", {"settled_at": at}, id=command)


async def resolve_beside(stage: Scene, state: State, **members: Any) -> str:
    """Resolve a command beside another one in `state`, sent with `members`."""
    async with working(stage):
        await learn_key_name(stage)
        stage.platform.respond("/inventory/adjust", message(500))
        stage.platform.respond(HISTORY, message(503))
        other = await plan_parked(stage, **members)
        command = await plan_lost(stage)
        set_state(stage, other, state)
        await pass_checks(stage, command)
    return command


async def test_a_command_that_an_operator_marked_applied_may_be_the_change(
    stage: Scene,
) -> None:
    """Otherwise the other command would count as applied, and be lost silently."""
    async with working(stage):
        await learn_key_name(stage)
        stage.platform.respond("/inventory/adjust", message(500))
        stage.platform.respond(HISTORY, message(503))
        seen = await plan_parked(stage)
        decided = Decision(seen, "resolve --applied", "op", "I see it there")
        await stage.store.decisions.decide(decided)
        lost = await plan_lost(stage)
        await pass_checks(stage, lost)
    assert stage.state(lost) == "parked"
    assert "another command may have made it" in stage.reason(lost)


# no check runs while another command of the key is sent
@pytest.mark.parametrize("state", [s for s in State if s is not State.SENDING])
async def test_a_command_in_any_state_may_have_taken_effect(
    state: State, stage: Scene
) -> None:
    command = await resolve_beside(stage, state)
    assert stage.state(command) == "parked"


RIVALS: dict[str, dict[str, Any]] = {
    "of another reason": {"reason": "CORRECTION"},
    "for a count": {"expected_stock": 7},
    "of the only variant": {"variant_id": None},
}


@pytest.mark.parametrize("name", RIVALS)
async def test_a_competing_adjustment_is_recognized_in_the_history(
    name: str, stage: Scene
) -> None:
    command = await resolve_beside(stage, State.PARKED, **RIVALS[name])
    assert stage.state(command) == "parked"


@pytest.mark.parametrize("variant", ["var_1", "var_2", None])
async def test_without_a_variant_any_adjustment_of_the_product_may_compete(
    variant: str | None, stage: Scene
) -> None:
    """Otherwise the effect is credited twice, and one adjustment is lost."""
    async with working(stage):
        await learn_key_name(stage)
        stage.platform.respond("/inventory/adjust", message(500))
        stage.platform.respond(HISTORY, message(503))
        await plan_parked(stage, variant_id=variant)
        command = await plan_lost(stage, variant_id=None)
        await pass_checks(stage, command)
    assert stage.state(command) == "parked"
    assert "another command may have made it" in stage.reason(command)


@pytest.mark.parametrize("member", [{"delta": -3}, {"variant_id": "var_2"}], ids=str)
async def test_an_adjustment_that_shows_differently_does_not_compete(
    member: dict[str, Any], stage: Scene
) -> None:
    command = await resolve_beside(stage, State.PARKED, **member)
    assert stage.state(command) == "applied"
    assert stage.column("effect_id", command) == "adj_2"


@pytest.mark.parametrize(
    ("given_up", "state"),
    [
        ("2026-02-22T11:00:00.000Z", "applied"),
        ("2026-02-22T13:00:00.000Z", "parked"),
        ("2026-03-02T12:00:00.000Z", "parked"),
        (None, "parked"),
    ],
)
async def test_an_adjustment_abandoned_a_week_before_does_not_compete(
    given_up: str | None, state: str, stage: Scene
) -> None:
    """The change is from 12:00 on March 1st; open commands were never abandoned."""
    async with working(stage):
        await learn_key_name(stage)
        stage.platform.respond("/inventory/adjust", message(500))
        stage.platform.respond(HISTORY, message(503))
        other = await plan_parked(stage)
        command = await plan_lost(stage)
        set_resolved_at(stage, other, given_up)
        await pass_checks(stage, command)
    assert stage.state(command) == state


async def test_a_change_from_the_time_of_an_old_rival_may_be_its_own(
    stage: Scene,
) -> None:
    """A history that is read from its start contains the change again."""
    async with working(stage):
        await learn_key_name(stage)
        stage.platform.respond("/inventory/adjust", message(500))
        stage.platform.respond(HISTORY, message(503))
        other = await plan_parked(stage)
        command = await plan_lost(stage)
        set_resolved_at(stage, other, "2025-03-01T12:00:00.000Z")
        old = move(2, "", note=None, createdAt="2025-03-01T12:00:01.000Z")
        stage.platform.respond(HISTORY, history(move(1, "", **FIRST), old))
        while stage.state(command) == "uncertain":
            await stage.pass_time(60)
            await stage.run_pending()
    assert stage.state(command) == "parked"
    assert "another command may have made it" in stage.reason(command)


async def test_a_sale_is_no_rival(stage: Scene) -> None:
    """It looks like our change while the name of our key is unknown."""
    sale = move(2, "", note=None, source=None, orderId="ord_1")
    async with working(stage):
        stage.platform.respond("/inventory/adjust", message(500))
        stage.platform.respond(HISTORY, message(503))
        command = await plan_lost(stage)
        stage.platform.respond(HISTORY, history(sale))
        del stage.platform.responses["/inventory/adjust"]
        while stage.state(command) not in {"applied", "parked"}:
            await stage.pass_time(60)
            await stage.run_pending()
    assert stage.state(command) == "applied"
    assert len(stage.sent_bodies()) == 2
