"""The program is killed while it sends, or the database accepts no writes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from backhaul.push.response_classifier import interrupted
from backhaul.runtime.loop import BUSY_SECONDS
from scenes.databases import locked
from scenes.pushing import (
    Scene,
    applied_response,
    cancel_task,
    rerun_while_busy,
    scene,
    working,
)
from scenes.scripted_platform import message
from scenes.stored import count
from scenes.waiting import until

if TYPE_CHECKING:
    from backhaul.store import Place
    from scenes.scripted_platform import Connection, Request


async def silent(_: Request, connection: Connection) -> None:
    await connection.reader.read()


async def kill_while_sending(place: Place) -> tuple[str, bytes]:
    """Kill the sender after a request arrived; return the command and its bytes."""
    async with scene(place) as stage:
        stage.platform.respond("/inventory/adjust", silent)
        command = await stage.plan("adjust", "prod_1")
        dispatching = asyncio.ensure_future(stage.dispatcher.run())
        await stage.server.arrived.wait()
        await cancel_task(dispatching)
        assert stage.state(command) == "sending"
        return command, stage.server.commands[0].body


async def test_a_command_under_way_at_a_kill_is_uncertain_with_its_evidence(
    database: Place,
) -> None:
    command, sent = await kill_while_sending(database)
    async with scene(database) as stage:
        assert await stage.store.commands.mark_interrupted_uncertain(interrupted()) == [
            command
        ]
        assert stage.state(command) == "uncertain"
        assert "stopped while it was sending this" in stage.reason(command)
        assert stage.column("request", command) == sent
        assert stage.column("settled_at", command) is None
        assert stage.attempts(command) == [(1, None, None, 0)]


async def test_a_command_under_way_at_a_kill_is_not_sent_again(database: Place) -> None:
    command, _ = await kill_while_sending(database)
    async with scene(database) as stage:
        await stage.store.commands.mark_interrupted_uncertain(interrupted())
        behind = await stage.plan("adjust", "prod_1")
        async with working(stage):
            await stage.await_parked(command)
            await stage.await_state(behind, "applied")
            await stage.pass_time(86_400)
            await stage.run_pending()
        assert [body["note"] for body in stage.sent_bodies()] == [f"bh:{behind}"]
        assert stage.state(command) == "parked"


async def test_a_command_only_planned_at_a_kill_is_sent_after_the_next_start(
    database: Place,
) -> None:
    async with scene(database) as stage:
        command = await stage.plan("fulfill", "ord_1")
    async with scene(database) as stage:
        assert (
            await stage.store.commands.mark_interrupted_uncertain(interrupted()) == []
        )
        async with working(stage):
            await stage.await_state(command, "applied")
        assert len(stage.server.commands) == 1


async def test_the_outcome_is_written_when_the_database_accepts_writes_again(
    stage: Scene,
) -> None:
    taken, answered = asyncio.Event(), asyncio.Event()

    async def behave(request: Request, connection: Connection) -> None:
        taken.set()
        await answered.wait()
        await connection.send(applied_response(request))

    stage.platform.respond("/inventory/adjust", behave)
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await taken.wait()
        with locked(stage.place):
            answered.set()
            await stage.clock.await_sleeper(BUSY_SECONDS)
            await stage.pass_time(BUSY_SECONDS)
            await stage.clock.await_sleeper(BUSY_SECONDS)
            assert stage.state(command) == "sending"
        await stage.pass_time(BUSY_SECONDS)
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 1
    assert json.loads(stage.column("evidence", command))["adjustment_id"] == "adj_1"
    assert len(stage.logged("push.busy")) >= 2


async def test_nothing_is_sent_while_the_attempt_cannot_be_recorded(
    stage: Scene,
) -> None:
    command = await stage.plan("fulfill", "ord_1")
    with locked(stage.place):
        dispatching = working(stage)
        await dispatching.__aenter__()
        await stage.clock.await_sleeper(BUSY_SECONDS)
        assert stage.server.connections == 0
    await stage.pass_time(BUSY_SECONDS)
    await stage.await_state(command, "applied")
    await dispatching.__aexit__(None, None, None)
    assert len(stage.server.commands) == 1
    assert count(stage.place, "attempts") == 1


async def test_a_locked_database_does_not_hold_up_the_end(stage: Scene) -> None:
    await stage.plan("fulfill", "ord_1")
    with locked(stage.place):
        async with working(stage):
            await until(lambda: stage.logged("push.busy"), "the claim is refused")
            await stage.clock.await_sleeper(BUSY_SECONDS)
    assert stage.server.connections == 0


async def test_an_unrecorded_resend_of_a_check_is_not_repeated(
    database: Place,
) -> None:
    released = asyncio.Event()

    async def lock(request: Request, connection: Connection) -> None:
        with locked(database):
            await connection.send(applied_response(request))
            await released.wait()

    async with scene(database, keyed=True) as stage:
        stage.platform.respond("/inventory/adjust", message(500), lock)
        command = await stage.plan("adjust", "prod_1")
        dispatching = asyncio.ensure_future(stage.dispatcher.run())
        await stage.await_state(command, "uncertain")
        await cancel_task(dispatching)
        looking = asyncio.ensure_future(rerun_while_busy(stage.resolver.run))
        await until(lambda: stage.logged("push.busy"), "the check is not stored")
        stage.platform.responses.clear()
        released.set()
        while stage.state(command) != "applied":
            await stage.pass_time(BUSY_SECONDS)
        await cancel_task(looking)
        assert len(stage.server.commands) == 2
