"""A dry run plans and logs commands, and they are sent after the dry run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.store.matching import NewCommand
from backhaul.store.records import Matched, NewRecord
from scenes.pushing import PAYLOADS, scene, working

if TYPE_CHECKING:
    from backhaul.store import Place
    from scenes.pushing import Scene

REASON = "dry run: not sent"


async def plan_by(stage: Scene, connector: str, id_: str) -> str:
    """Plan a cancellation of order 1 for a connector."""
    command = NewCommand(id_, "cancel", "ord_1", "order:ord_1", PAYLOADS["cancel"])
    record = NewRecord(f"key-{id_}", b"null", "raw", "", f"file:{id_}")
    await stage.store.records.accept(
        connector, "main", [record], None, lambda *_: Matched(command)
    )
    return id_


@pytest.mark.parametrize("held_back", ["*", "courier"])
async def test_nothing_is_sent_and_each_command_is_logged_once(
    held_back: str, database: Place
) -> None:
    async with scene(database, dry_run=(held_back,)) as stage:
        commands = [await stage.plan(kind, kind) for kind in PAYLOADS]
        async with working(stage):
            await stage.run_pending()
            await stage.pass_time(60)
            await stage.run_pending()
        assert stage.server.requests == []
        for command in commands:
            assert (stage.state(command), stage.reason(command)) == ("planned", REASON)
            assert stage.attempts(command) == []
        lines = stage.logged("push.dry_run")
        assert len(lines) == len(commands)
        (cancel,) = (line for line in lines if "cancel" in line)
        assert 'POST /orders/cancel/cancel {"restock":true,"reason":"STAFF"' in cancel


async def test_commands_of_a_dry_run_are_sent_once_it_is_over(
    database: Place,
) -> None:
    async with scene(database, dry_run=("*",)) as stage:
        command = await stage.plan("cancel", "ord_1")
        async with working(stage):
            await stage.run_pending()
        body = stage.logged("push.dry_run")[0].split("/orders/ord_1/cancel ")[1]
    async with scene(database) as stage:
        async with working(stage):
            await stage.await_state(command, "applied")
        (sent,) = stage.server.commands
        assert sent.body.decode() == body


async def test_a_dry_run_holds_back_one_connector_only(database: Place) -> None:
    async with scene(database, dry_run=("bench",)) as stage:
        first = await plan_by(stage, "bench", "a" * 32)
        second = await plan_by(stage, "erp", "b" * 32)
        third = await plan_by(stage, "bench_2", "c" * 32)
        async with working(stage):
            await stage.await_state(second, "applied")
            await stage.await_state(third, "applied")
            await stage.run_pending()
        assert stage.state(first) == "planned"
        assert len(stage.server.commands) == 2
