"""Three daemons on one database are upgraded one after another, under traffic."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.store import database_at
from scenes import stored
from scenes.later_steps import CONTRACT, PROGRAM, later_on_servers
from scenes.postgres import postgres
from scenes.reference_process import reference
from scenes.replicas import replicas
from scenes.waiting import await_true, until
from scenes.webhook_load import Load

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.replicas import Replica

pytestmark = pytest.mark.programs

WEBHOOKS = 20
"""The number of webhooks before, between and after the steps of the upgrade."""


async def more(load: Load) -> None:
    wanted = load.answered() + WEBHOOKS
    await until(lambda: load.has_more_than(wanted), "more webhooks are answered")


def upgrade(replica: Replica) -> None:
    """Stop the daemon as systemd does, and start the later version."""
    assert replica.process is not None
    assert replica.process.terminate() == 0
    replica.wrapped = PROGRAM
    replica.start()


def waiting_steps(url: str) -> list[str]:
    with later_on_servers():
        return database_at(url).pending_migrations()


async def test_a_rolling_upgrade_refuses_no_webhook_and_loses_none(
    tmp_path: Path,
) -> None:
    with (
        postgres() as server,
        reference(tmp_path / "platform") as platform,
        replicas(platform, server.new_database(), 3) as three,
    ):
        url, secret = three[0].url, three[0].office.webhook_secret
        for each in three:
            await asyncio.to_thread(each.start)
        owner, *standbys = sorted(three, key=lambda each: not each.is_owner())
        ports = [each.public_port for each in three]
        load = Load(ports, secret, platform.store().id, per_second=10)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            await more(load)
            for each in standbys:
                await asyncio.to_thread(upgrade, each)
                assert owner.is_owner()
                assert waiting_steps(url) == [CONTRACT]
                await more(load)
            assert "waits for the daemon on" in standbys[0].log()
            await asyncio.to_thread(upgrade, owner)
            assert waiting_steps(url) == []
            await more(load)
            load.going = False
        answers = [task.result() for task in load.sent]
        assert {status for status, _ in answers} == {200}
        assert {body for _, body in answers} <= set(stored.bodies(url))
        await_true(lambda: stored.events_to_fold(url) == 0, "all are folded")
