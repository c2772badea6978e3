"""Threads that wait for a network end when their caller is cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from backhaul_sdk.files import in_breakable_thread
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
