"""A database that refuses writes for a moment ends no loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.app.daemon import Daemon
from backhaul.cli import context
from backhaul.errors import Busy
from scenes.clock import RunningClock
from scenes.daemon import NOBODY, Office

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Office(NOBODY.removesuffix("/hook"), "svc_live_" + "0" * 40)
    yield Daemon(context.settings(made.config), clock=RunningClock())
    made.remove()


BUSY = Busy("the disk is full")
REFUSED = [BUSY, ExceptionGroup("", [BUSY, ExceptionGroup("", [BUSY])])]


@pytest.mark.parametrize("refused", REFUSED, ids=["alone", "in a group"])
async def test_a_loop_is_run_again(refused: Exception, daemon: Daemon) -> None:
    failures = [refused, refused]

    async def run() -> None:
        if failures:
            raise failures.pop()

    await daemon._keep(run)
    assert failures == []


async def test_another_error_is_not_hidden_by_it(daemon: Daemon) -> None:
    async def run() -> None:
        raise ExceptionGroup("", [BUSY, KeyError("a bug")])

    with pytest.raises(ExceptionGroup) as caught:
        await daemon._keep(run)
    assert caught.value.subgroup(KeyError) is not None


async def test_a_loop_that_fails_while_it_is_stopped_is_stopped(daemon: Daemon) -> None:
    begun = asyncio.Event()
    runs = 0

    async def part() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if runs == 1:
                raise BUSY from None
            raise

    async def run() -> None:
        nonlocal runs
        runs += 1
        async with asyncio.TaskGroup() as group:
            group.create_task(part())
            await asyncio.sleep(0)
            begun.set()

    loop = asyncio.create_task(daemon._keep(run))
    await begun.wait()
    loop.cancel()
    await asyncio.wait({loop}, timeout=5)
    assert (loop.done(), runs) == (True, 1)
    assert loop.cancelled()
