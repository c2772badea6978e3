"""A killed program of the simulation leaves nothing that runs or sends."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from typing import Any

import pytest

from backhaul.errors import Busy
from simulation import loop as loops
from simulation.loop import LIFE, VirtualLoop


@pytest.mark.parametrize("way", ["one", "gathered", "one by one"])
def test_an_error_for_a_killed_program_is_delivered_to_no_task(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database refused in the very moment in which the program was killed."""
    graveyard: list[asyncio.Task[Any]] = []
    monkeypatch.setattr(loops, "GRAVEYARD", graveyard)
    loop, told = VirtualLoop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: told.append(context))
    loop.run_until_complete(killed_while_it_was_refused(loop, way))
    heard = [task.get_coro() for task in graveyard]
    assert len(heard) == 1
    graveyard.clear()
    heard.clear()
    gc.collect()
    loop.close()
    assert told == []


async def killed_while_it_was_refused(loop: VirtualLoop, way: str) -> None:
    life = contextvars.copy_context()
    life.run(LIFE.set, 1)
    answers = [life.run(loop.create_future) for _ in range(1 if way == "one" else 2)]

    async def work() -> None:
        await (asyncio.gather(*answers) if way == "gathered" else answers[0])
        await answers[-1]

    life.run(loop.create_task, work())
    await asyncio.sleep(0)
    # Of what is waited for one by one the later is refused first.
    for answer in reversed(answers):
        life.run(answer.set_exception, Busy("the database is locked"))
    loop.end(1)
    await asyncio.sleep(0)
