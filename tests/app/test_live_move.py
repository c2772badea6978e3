"""Moving a daemon's data to PostgreSQL under traffic refuses and loses no webhook."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from scenes import leftovers, stored
from scenes.postgres import postgres
from scenes.reference_process import reference
from scenes.replicas import Replica, replicas
from scenes.waiting import HANG_SECONDS, await_true, until
from scenes.webhook_load import Load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.programs

WEBHOOKS = 10
"""The number of webhooks between two steps."""


@dataclass(slots=True)
class Move:
    """`backhaul migrate --to URL --live`, killed and run again."""

    old: Replica
    url: str
    process: subprocess.Popen[bytes] | None = None
    log: Path | None = None

    def start(self) -> None:
        self.log = leftovers.new_log("move")
        command = [sys.executable, "-m", "backhaul", "migrate", "--to", self.url]
        config = ["--live", "--config", str(self.old.office.config)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*command, *config], stdout=log, stderr=log)

    def start_again(self) -> None:
        self.kill()
        self.start()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def said(self, text: str) -> bool:
        assert self.process is not None
        assert self.log is not None
        found = text in self.log.read_text()
        assert found or self.process.poll() is None, self.log.read_text()
        return found

    def end(self) -> None:
        assert self.process is not None
        assert self.log is not None
        assert self.process.wait(HANG_SECONDS) == 0, self.log.read_text()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Replica, Replica, str]]:
    """Return a daemon on a file, one on an empty server, and the id of their store."""
    with (
        postgres() as server,
        reference(tmp_path / "platform") as platform,
        replicas(platform, server.new_database(), 2) as (old, new),
    ):
        old.url = f"sqlite:///{old.office.database}"
        yield old, new, platform.store().id


async def more(load: Load) -> None:
    wanted = load.answered() + WEBHOOKS
    await until(lambda: load.has_more_than(wanted), "more webhooks are answered")


async def test_a_live_move_refuses_no_webhook_and_loses_none(
    pair: tuple[Replica, Replica, str],
) -> None:
    old, new, store = pair
    await asyncio.to_thread(old.start)
    address = [old.public_port]
    load = Load(address, old.office.webhook_secret, store, per_second=5)
    move = Move(old, new.url)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        await more(load)
        move.start()
        await until(lambda: move.said("1. Start daemons"), "the database is prepared")
        move.start_again()
        await until(lambda: move.said("1. Start daemons"), "it is prepared again")
        await asyncio.to_thread(new.start)
        assert new.status() == "standby"
        await until(lambda: move.said("2. Send the webhooks"), "a daemon is there")
        address[:] = [new.public_port]
        await more(load)
        move.start_again()
        await until(lambda: move.said("3. When webhooks arrive"), "it waits again")
        assert old.is_owner()
        assert old.process is not None
        assert await asyncio.to_thread(old.process.terminate) == 0
        await asyncio.to_thread(move.end)
        await until(new.is_owner, "the new daemon takes over")
        await more(load)
        load.going = False
    answers = [task.result() for task in load.sent]
    assert {status for status, _ in answers} == {200}
    assert {body for _, body in answers} <= set(stored.bodies(new.url))
    await_true(lambda: stored.events_to_fold(new.url) == 0, "all are folded")
    assert not old.office.database.exists()
    old.launch()
    assert old.process.process.wait(HANG_SECONDS) == 78
    assert "this database was moved to" in old.log()
