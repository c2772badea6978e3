"""Events that overtake each other: no command waits for what has already come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support import payloads
from support.push_scene import Scene, applied, scene, working
from support.push_server import problem

if TYPE_CHECKING:
    from pathlib import Path

    from support.push_server import Connection, Request

FULFILL = "/orders/ord_1/fulfill"


async def test_confirmation_folded_before_the_refusal_is_written_releases(
    stage: Scene,
) -> None:
    async def overtaken(_: Request, connection: Connection) -> None:
        await stage.fold(payloads.order("ord_1", at=60))
        await connection.send(problem(409, "ORDER_AWAITING_CONFIRMATION"))

    async def taken(request: Request, connection: Connection) -> None:
        await connection.send(applied(request))

    stage.platform.says(FULFILL, overtaken, taken)
    await stage.fold(payloads.order("ord_1", at=50))
    await stage.pass_time(1)
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.reaches(command, "applied")
    assert [row[1] for row in stage.attempts(command)] == ["held", "confirmed"]


async def test_command_refused_unsent_frees_its_lane_at_once(stage: Scene) -> None:
    gone = {"restocked": True, "cancelledAt": payloads.instant(40)}
    await stage.fold(payloads.order("ord_1", at=40, cancellation=gone))
    refused = await stage.plan("fulfill", "ord_1")
    following = await stage.plan("cancel", "ord_1")
    async with working(stage), asyncio.timeout(10):
        await stage.reaches(refused, "rejected")
        await stage.reaches(following, "applied")
    assert stage.told("command.rejected")


async def test_told_to_stop_between_claim_and_send_sends_nothing(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path / "b.db") as stage:
        claim = stage.store.commands.claim

        async def claim_and_stop(*arguments: object) -> object:
            stage.dispatcher.stop()
            return await claim(*arguments)  # type: ignore[arg-type]  # passed on

        stage.store.commands.claim = claim_and_stop  # type: ignore[method-assign, assignment]  # a moment that no test can hit
        command = await stage.plan("fulfill", "ord_1")
        await asyncio.wait_for(stage.dispatcher.run(), 10)
        assert stage.state(command) == "planned"
        assert stage.bodies() == []
