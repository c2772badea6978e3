"""The wake loop: no wake-up is lost, and a stop ends each loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.errors import Busy, ReadFailed
from backhaul.runtime.loop import (
    BUSY_SECONDS,
    IDLE_SECONDS,
    Loop,
    OpenStores,
    OpenWork,
    retry_while_busy,
    seconds_until,
)
from scenes.clock import START, RunningClock, VirtualClock, run_ready_tasks
from scenes.pushing import cancel_task

if TYPE_CHECKING:
    from collections.abc import Sequence

BUSY = Busy("the disk is full")
REFUSED = [BUSY, ExceptionGroup("", [BUSY, ExceptionGroup("", [BUSY])])]


class Worker:
    """Returns or raises one of these after another, then waits for wakes only."""

    def __init__(
        self, clock: VirtualClock, *said: object, at_start: bool = True
    ) -> None:
        self.refused: list[Exception] = []
        self.loop = Loop(clock, self.refused.append, at_start=at_start)
        self.runs = 0
        self._said = list(said)

    async def work(self) -> float | None:
        self.runs += 1
        said = self._said.pop(0) if self._said else None
        if isinstance(said, Exception):
            raise said
        assert said is None or isinstance(said, float)
        return said

    def start(self) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.loop.run(self.work))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.mark.parametrize(("at_start", "runs"), [(True, [1, 2]), (False, [0, 1])])
async def test_a_loop_works_at_the_start_or_after_a_wake(
    at_start: bool, runs: Sequence[int], clock: VirtualClock
) -> None:
    worker = Worker(clock, at_start=at_start)
    running = worker.start()
    await run_ready_tasks()
    before = worker.runs
    worker.loop.wake()
    await run_ready_tasks()
    assert [before, worker.runs] == runs
    await cancel_task(running)


async def test_a_wake_before_the_start_is_not_lost(clock: VirtualClock) -> None:
    worker = Worker(clock, at_start=False)
    worker.loop.wake()
    running = worker.start()
    await run_ready_tasks()
    assert worker.runs == 1
    await cancel_task(running)


async def test_a_wake_during_the_work_makes_it_work_again(clock: VirtualClock) -> None:
    loop, runs = Loop(clock), 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            loop.wake()
            assert loop.is_woken

    running = asyncio.ensure_future(loop.run(work))
    await run_ready_tasks()
    assert runs == 2
    assert not loop.is_woken
    await cancel_task(running)


async def test_a_loop_rests_by_the_clock_until_it_is_woken_or_due(
    clock: VirtualClock,
) -> None:
    worker = Worker(clock, 10.0, 10.0)
    running = worker.start()
    await run_ready_tasks()
    await clock.advance(9)
    assert worker.runs == 1
    await clock.advance(1)
    assert worker.runs == 2
    worker.loop.wake()
    await run_ready_tasks()
    assert worker.runs == 3
    await cancel_task(running)


async def test_work_that_has_more_is_done_again_and_lets_others_run(
    clock: VirtualClock,
) -> None:
    worker = Worker(clock, *[0.0] * 10_000)
    running = worker.start()
    await run_ready_tasks()
    assert worker.runs > 1
    await cancel_task(running)
    assert worker.runs < 1_000


@pytest.mark.parametrize("refused", REFUSED, ids=["alone", "in a group"])
async def test_a_busy_database_is_retried_after_a_pause_that_no_wake_shortens(
    refused: Exception, clock: VirtualClock
) -> None:
    worker = Worker(clock, refused)
    running = worker.start()
    await run_ready_tasks()
    worker.loop.wake()
    await run_ready_tasks()
    assert (worker.runs, worker.refused) == (1, [BUSY])
    await clock.advance(BUSY_SECONDS)
    assert worker.runs >= 2
    await cancel_task(running)


async def test_a_stop_lets_the_work_end(clock: VirtualClock) -> None:
    loop, begun, go_on = Loop(clock), asyncio.Event(), asyncio.Event()
    ended: list[None] = []

    async def work() -> float:
        begun.set()
        await go_on.wait()
        ended.append(None)
        return 10.0

    running = asyncio.ensure_future(loop.run(work))
    await begun.wait()
    loop.stop()
    await run_ready_tasks()
    assert not running.done()
    go_on.set()
    await asyncio.wait_for(running, 5)
    assert (len(ended), loop.is_stopped) == (1, True)


async def test_a_stop_ends_a_loop_that_rests_or_has_not_begun(
    clock: VirtualClock,
) -> None:
    resting, unborn = Worker(clock, 10.0), Worker(clock)
    running = resting.start()
    await run_ready_tasks()
    for worker in (resting, unborn):
        worker.loop.stop()
    await asyncio.wait_for(asyncio.gather(running, unborn.start()), 5)
    assert (resting.runs, unborn.runs) == (1, 0)


async def test_a_stop_ends_a_loop_that_the_database_keeps_refusing(
    clock: VirtualClock,
) -> None:
    worker = Worker(clock, *[BUSY] * 1000)
    running = worker.start()
    await run_ready_tasks()
    worker.loop.stop()
    await clock.advance(BUSY_SECONDS)
    await asyncio.wait_for(running, 5)
    assert worker.runs == 1


async def test_a_worker_without_work_is_left_alone_until_it_is_woken(
    clock: VirtualClock,
) -> None:
    answers, asked = [False, True, False], []

    async def has_work() -> bool:
        asked.append(clock.monotonic())
        return answers.pop(0)

    worker = Worker(clock, 5.0, IDLE_SECONDS, IDLE_SECONDS, IDLE_SECONDS)
    worker.loop = Loop(clock, has_work=has_work)
    running = worker.start()
    runs = []
    for seconds in (5.0, IDLE_SECONDS, IDLE_SECONDS, IDLE_SECONDS):
        await clock.await_sleeper()
        await clock.advance(seconds)
        runs.append(worker.runs)
    assert runs == [2, 2, 3, 3], "it works when it is due, and if there is work"
    assert len(asked) == 3
    worker.loop.wake()
    await run_ready_tasks()
    assert worker.runs == 4, "a wake needs no answer"
    await cancel_task(running)


async def test_what_is_open_is_read_once_for_all_workers(clock: VirtualClock) -> None:
    found = OpenStores(frozenset({"main"}), 7)
    answers: list[OpenStores | Exception] = [found, ReadFailed("away"), found]
    reads = 0

    async def read() -> OpenStores:
        nonlocal reads
        reads += 1
        answer = answers.pop(0)
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    work = OpenWork(read, clock)
    first, second = await asyncio.gather(work.now(), work.now())
    assert (first, second) == (found, found)
    await clock.advance(IDLE_SECONDS - 1)
    assert (await work.now(), reads) == (found, 1)
    await clock.advance(1)
    assert (await work.now(), reads) == (None, 2)
    assert (await work.now(), reads) == (found, 3), "a failed read is done again"


@pytest.mark.parametrize(
    ("due", "seconds"),
    [
        (None, IDLE_SECONDS),
        ("2026-03-01T12:00:07.500Z", 7.5),
        ("2026-03-01T11:00:00.000Z", 0.0),
        ("2026-03-01T13:00:00.000Z", IDLE_SECONDS),
    ],
)
def test_no_rest_is_longer_than_a_lost_wake_may_cost(
    due: str | None, seconds: float
) -> None:
    assert seconds_until(due, VirtualClock(START)) == seconds


@pytest.mark.parametrize("refused", REFUSED, ids=["alone", "in a group"])
async def test_refused_work_is_done_again(refused: Exception) -> None:
    failures = [refused, refused]

    async def run() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert await retry_while_busy(run, RunningClock()) == "done"


async def test_another_error_is_not_hidden_by_it(clock: VirtualClock) -> None:
    async def run() -> None:
        raise ExceptionGroup("", [BUSY, KeyError("a bug")])

    with pytest.raises(ExceptionGroup) as caught:
        await retry_while_busy(run, clock)
    assert caught.value.subgroup(KeyError) is not None


async def test_work_that_fails_while_it_is_stopped_is_stopped() -> None:
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

    loop = asyncio.create_task(retry_while_busy(run, RunningClock()))
    await begun.wait()
    loop.cancel()
    await asyncio.wait({loop}, timeout=5)
    assert (loop.done(), runs) == (True, 1)
    assert loop.cancelled()
