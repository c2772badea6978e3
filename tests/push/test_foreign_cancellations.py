"""An order that is already cancelled: by our own attempt, or by somebody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scenes import payloads
from scenes.databases import append_and_fold
from scenes.pushing import working
from scenes.scripted_platform import document, message, problem
from scenes.stored import rows_of, value_of

if TYPE_CHECKING:
    from scenes.pushing import Answer, Scene

ORDER, CANCEL = "/orders/ord_1", "/orders/ord_1/cancel"
ALREADY = problem(409, "ORDER_ALREADY_CANCELLED")
LOST = message(500)
OPEN = document({"data": payloads.order("ord_1")})
EFFECT = f"ord_1@{payloads.instant(3)}"
NOTED = "our own"


def cancelled_order(note: str | None = None) -> payloads.Document:
    when = {"restocked": True, "cancelledAt": payloads.instant(3), "note": note}
    return payloads.order("ord_1", at=3, cancellation=when)


async def cancel_and_fold(
    stage: Scene, *answers: Answer, note: str | None = None
) -> str:
    """Return an applied cancellation, after its webhook was folded."""
    command = await stage.plan("cancel", "ord_1")
    shown = cancelled_order(f"bh:{command}" if note == NOTED else note)
    reads = [OPEN] * (3 if ALREADY in answers[1:] else 0)
    stage.platform.respond(CANCEL, *answers)
    stage.platform.respond(ORDER, *reads, document({"data": shown}))
    async with working(stage):
        while stage.state(command) in {"planned", "sending", "uncertain"}:
            await stage.pass_time(60)
            await stage.run_pending()
    assert stage.state(command) == "applied"
    await append_and_fold(stage.store, payloads.envelope("orders/updated", shown))
    return command


def links(stage: Scene) -> tuple[Any, list[tuple[Any, ...]]]:
    """Return the effect that the command records as its own, and its echoes."""
    effect = value_of(stage.place, "commands", "effect_id")
    return effect, rows_of(stage.place, "echoes", "command_id")


async def test_an_order_cancelled_before_the_first_attempt_is_not_ours(
    stage: Scene,
) -> None:
    """The source is notified that its request did not cancel the order."""
    await cancel_and_fold(stage, ALREADY)
    assert links(stage) == (None, [])


async def test_an_attempt_that_was_only_throttled_cancelled_nothing(
    stage: Scene,
) -> None:
    throttled = problem(429, "RATE_LIMITED")
    command = await stage.plan("cancel", "ord_1")
    stage.platform.respond(CANCEL, throttled, ALREADY)
    stage.platform.respond(ORDER, document({"data": cancelled_order()}))
    async with working(stage):
        await stage.await_commands(1)
        await stage.pass_time(60)
        await stage.await_state(command, "applied")
    assert links(stage) == (None, [])


async def test_an_earlier_uncertain_attempt_may_have_cancelled(stage: Scene) -> None:
    """It took effect after the last check; the second attempt gets "already done"."""
    command = await cancel_and_fold(stage, LOST, ALREADY)
    assert len(stage.server.commands) == 2
    assert links(stage) == (EFFECT, [(command,)])


@pytest.mark.parametrize("answers", [(LOST,), (LOST, ALREADY)])
async def test_an_order_cancelled_before_the_send_is_not_ours(
    answers: tuple[bytes, ...], stage: Scene
) -> None:
    await stage.fold(cancelled_order())
    await cancel_and_fold(stage, *answers)
    assert links(stage) == (None, [])


async def test_our_own_note_proves_the_cancellation_despite_any_answer(
    stage: Scene,
) -> None:
    """The same applies if the command was sent before a restore."""
    command = await cancel_and_fold(stage, ALREADY, note=NOTED)
    assert links(stage) == (EFFECT, [(command,)])


@pytest.mark.parametrize("answers", [(LOST,), (LOST, ALREADY)])
async def test_a_foreign_note_proves_a_foreign_cancellation(
    answers: tuple[bytes, ...], stage: Scene
) -> None:
    await cancel_and_fold(stage, *answers, note="changed my mind")
    assert links(stage) == (None, [])
