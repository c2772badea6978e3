"""Row `recovery`: the daemon killed with many open commands, until it is ready."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from backhaul.core.clock import SystemClock
from backhaul.store.commands import Sendable
from backhaul.store.sqlite.opening import open_store
from bench import machine
from bench.daemon import Daemon
from bench.orders import STORE
from bench.pushing import plan
from bench.results import Rounds, agree
from scenes.stored import lists

if TYPE_CHECKING:
    from bench.results import Scale

SHARE = 2
"""Open commands: so much less than the orders of a fold."""
OPEN = ("planned", "sending", "uncertain")
"""The states of commands that are not resolved."""
GATES = {"adjust": "9999"}


def recovery(scale: Scale) -> Rounds:
    """Kill the daemon as soon as it is ready, and start it again."""
    rounds = Rounds()
    wanted = max(scale.orders // SHARE, 10)
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        daemon = Daemon(Path(folder, "daemon"))
        uvloop.run(_plan(daemon.database, wanted))
        daemon.start()
        daemon.kill()
        for _ in range(scale.rounds):
            seconds, pid = daemon.start()
            busy, resident = machine.processor_seconds(pid), machine.resident_bytes(pid)
            daemon.kill()
            rounds.add("kill to ready", "s", seconds)
            rounds.add("kill to ready, processor time", "s", busy)
            rounds.add("memory when ready", "MB", resident / 1e6)
            agree("open commands", wanted, _open(daemon.database))
    return rounds


def _open(database: Path) -> int:
    with lists(database) as reader:
        states = reader.counts().commands
    return sum(states.get(state, 0) for state in OPEN)


async def _plan(database: Path, count: int) -> None:
    """Plan `count` commands; a start will find half of them uncertain."""
    store = open_store(database, SystemClock())
    store.start()
    await plan(store, range(count))
    sent = Sendable(b"{}", "a key")
    await store.commands.claim(STORE, GATES, count // 2, lambda *_: sent)
    await store.stop()
