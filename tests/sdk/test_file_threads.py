"""File work that waits for a network, when its caller is cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from backhaul_sdk import files
from backhaul_sdk.files import in_breakable_thread, to_its_end
from scenes.clock import run_ready_tasks
from scenes.waiting import HANG_SECONDS


async def test_a_result_comes_from_the_thread() -> None:
    found = await in_breakable_thread(threading.get_ident, lambda: None)
    assert found != threading.get_ident()


async def test_an_error_of_the_thread_reaches_the_caller() -> None:
    def fail() -> None:
        raise OSError("the line broke")

    with pytest.raises(OSError, match="the line broke"):
        await in_breakable_thread(fail, lambda: None)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancellation_breaks_the_wait_and_outlives_the_thread(
    fails: bool,
) -> None:
    begun, broken, ends = threading.Event(), threading.Event(), []

    def wait_for_the_network() -> None:
        begun.set()
        ends.append(broken.wait(HANG_SECONDS))
        if fails:
            raise ConnectionError("broken off")

    waiting = asyncio.ensure_future(
        in_breakable_thread(wait_for_the_network, broken.set)
    )
    await asyncio.to_thread(begun.wait, HANG_SECONDS)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ends == [True], "the thread went on, or nothing broke its wait"


async def test_a_cancellation_waits_for_work_with_a_server() -> None:
    begun, answer, done = asyncio.Event(), asyncio.Event(), []

    async def work() -> None:
        begun.set()
        await answer.wait()
        done.append(True)

    waiting = asyncio.ensure_future(to_its_end(work()))
    await begun.wait()
    waiting.cancel()
    await run_ready_tasks()
    assert not waiting.done()
    answer.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done == [True]


async def test_a_cancellation_ends_work_with_a_server_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "LONGEST_SECONDS", 0.01)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.ensure_future(to_its_end(work()))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(HANG_SECONDS):
        await ended.wait()
