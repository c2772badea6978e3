"""A failing check is logged once for each command, an unexpected error at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.push.resolver import REPORTED_AFTER
from scenes.damaged_rows import overwrite
from scenes.pushing import BrokenTransport, Scene, scene, working
from scenes.scripted_platform import document, message, problem
from scenes.stock_history import HISTORY, history, move
from scenes.stored import value_of
from scenes.waiting import until

if TYPE_CHECKING:
    from backhaul.store import Place

UNREADABLE = {
    "refused": problem(403, "INSUFFICIENT_SCOPE"),
    "unusable": document({"data": {"id": "ord_1", "items": 7}}),
}


async def await_reported_failures(stage: Scene, command: str) -> None:
    """Let time pass until enough checks failed to be reported."""
    while stage.column("failures", command) <= REPORTED_AFTER:
        await stage.pass_time(10)
        await stage.run_pending()


@pytest.mark.parametrize("name", UNREADABLE)
async def test_a_failed_check_is_logged_once_for_each_command(
    name: str, stage: Scene
) -> None:
    stage.platform.respond("/orders/ord_1/fulfill", message(500))
    stage.platform.respond("/orders/ord_1", UNREADABLE[name])
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await until(lambda: stage.column("failures", command) == 1, "a check")
        assert stage.logged("check.failed") == []
        await await_reported_failures(stage, command)
    (text,) = stage.logged("check.failed")
    assert command in text
    assert stage.reason(command).removeprefix("uncertain, ") in text


async def test_an_unexpected_error_is_logged_at_once(database: Place) -> None:
    broken = BrokenTransport(ZeroDivisionError("?"))
    async with scene(database, http=broken) as stage, working(stage):
        command = await stage.plan("fulfill", "ord_1")
        await until(lambda: stage.logged("check.failed") != [], "it is logged")
        await await_reported_failures(stage, command)
        (text,) = stage.logged("check.failed")
    assert "ZeroDivisionError" in text


async def test_a_command_sent_at_an_unknown_time_is_looked_up(database: Place) -> None:
    """An older version stored no time, and was killed while it was sending."""
    path = database
    async with scene(path) as stage:
        stage.platform.respond("/inventory/adjust", message(500))
        stage.platform.respond(HISTORY, message(503))
        command = await stage.plan("adjust", "prod_1")
        async with working(stage):
            await stage.await_state(command, "uncertain")
    overwrite(path, "commands", {"sent_at": None, "baseline": None})
    async with scene(path, keyed=True) as stage:
        stage.platform.respond(HISTORY, history(move(1, command)))
        async with working(stage):
            for _ in range(10):
                await stage.pass_time(60)
                await stage.run_pending()
        assert stage.state(command) == "applied"
        assert value_of(path, "commands", "sent_at") is None
