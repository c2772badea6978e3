"""An idle daemon rarely queries its database."""

from __future__ import annotations

import asyncio
import random
import shutil
from typing import TYPE_CHECKING

from simulation.loop import VirtualLoop
from simulation.seeds import Template, made

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 240
ROUNDS_A_SECOND = 2.0
"""Jobs that let commands leave run every 5 s, the connector is asked every 15 s."""


def test_an_idle_daemon_rarely_queries_its_database() -> None:
    template, loop = Template(), VirtualLoop()
    random.seed(1)
    folder = template.copy()
    rounds = loop.run_until_complete(rounds_when_idle(loop, folder))
    template.remove()
    loop.close()
    shutil.rmtree(folder)
    assert 0 < rounds < ROUNDS_A_SECOND * SECONDS


async def rounds_when_idle(loop: VirtualLoop, folder: Path) -> int:
    """Return how often the writer of a daemon in good weather went round."""
    asked: list[str] = []
    async with made(1, loop, folder, []) as world:

        def note(what: str) -> bool:
            asked.append(what)
            return False

        world.program.moment = note
        world.program.start()
        await asyncio.sleep(60.0)  # it has read all there is
        asked.clear()
        await asyncio.sleep(SECONDS)
        rounds = asked.count("before a commit")
        await world.program.stop()
    return rounds
