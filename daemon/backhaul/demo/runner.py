"""Runs a demo, endlessly or once with a comparison at its end, and shows it."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
from msgspec import Struct

from backhaul.demo.comparison import compare_sides
from backhaul.demo.daemon_rows import (
    read_daemon_rows,
    read_progress,
)
from backhaul.demo.demo_folder import SCANNER, STORE
from backhaul.demo.program_pair import open_pair
from backhaul.demo.screen import Figures, Screen, summary_of
from backhaul.demo.simulation import LIVE, ShopFloor, at_once
from backhaul.errors import BackhaulError
from backhaul_sdk.extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Iterator,
    )

    from backhaul.core.clock import Clock
    from backhaul.demo.comparison import ComparisonReport
    from backhaul.demo.daemon_rows import Progress
    from backhaul.demo.demo_folder import Ports
    from backhaul.demo.mirror_checks import State
    from backhaul.demo.program_pair import Pair
    from backhaul.demo.simulation import Pace


LOOK_SECONDS = 0.15


class Check(Struct, frozen=True):
    """The store's state at one moment, what still moves in words, and what changed.

    Two checks in a row with the same `fingerprint` and nothing busy mean that nothing
    moved between the two sides.
    """

    state: State
    busy: list[str]
    fingerprint: object


async def until_quiet(
    pair: Pair, clock: Clock, seconds: float
) -> tuple[State, list[str]]:
    """Return the store's state and what is not quiet after `seconds`: nothing, if well.

    Raises httpx.HTTPError or BackhaulError when one side cannot be asked at the end.
    """

    async def check() -> Check:
        # In the order in which work moves on, or it could slip past a check.
        files = len(list(pair.home.drop.glob("*.csv")))
        entered = pair.erp.untaken() if pair.erp else 0
        done = pair.tryton.untold(pair.home.database) if pair.tryton else 0
        progress = read_progress(pair.home.database)
        state = await pair.server_state()
        pending = state["deliveries"]["PENDING"]
        busy = list(work_left(files, entered, done, progress, pending))
        return Check(state, busy, (progress, state["sequence"]))

    found = await until_at_rest(check, clock, seconds)
    return found.state, found.busy


async def until_at_rest(
    check: Callable[[], Awaitable[Check]], clock: Clock, seconds: float
) -> Check:
    """Check until two checks are quiet and equal; return the last after `seconds`."""
    until = clock.monotonic() + seconds
    before: object = None
    while True:
        last = clock.monotonic() > until
        try:
            found = await check()
        except (httpx.HTTPError, BackhaulError):
            if last:
                raise
        else:
            if last or (not found.busy and found.fingerprint == before):
                return found
            before = None if found.busy else found.fingerprint
        await clock.sleep(LOOK_SECONDS)


def work_left(
    files: int, entered: int, done: int, progress: Progress, pending: int
) -> Iterator[str]:
    """Yield what still moves, in words."""
    counts = {
        "files in the drop folder": files,
        "rows that the ERP entered": entered,
        "shipments and levels that Tryton has to tell": done,
        "events to fold": progress.to_fold,
        "records that wait for their order or article": progress.waiting_records,
        "commands neither settled nor parked": progress.open_commands,
        "change notifications still to be delivered": progress.untold,
        "webhooks still to be delivered": pending,
    }
    yield from (f"{what}: {count}" for what, count in counts.items() if count)


T = TypeVar("T")
OK, FAILED, INTERRUPTED = 0, 1, 130
QUIET_SECONDS = 90.0
"""Longest wait for both sides; the last retry of a webhook takes 36 s."""
TRYTON_SECONDS = 600.0
"""The same beside a Tryton, which takes a good while for each order."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Result(Struct, frozen=True):
    """How a play ended: the report, and what was not quiet when time was up."""

    report: ComparisonReport
    busy: tuple[str, ...]

    def passes(self, *, may_park: bool = False) -> bool:
        """Tell whether both sides came to rest and agree."""
        return not self.busy and self.report.balances(may_park=may_park)


async def conclude(pair: Pair, floor: ShopFloor, clock: Clock) -> Result:
    """Wait until both sides are quiet, and compare them."""
    patience = TRYTON_SECONDS if pair.tryton else QUIET_SECONDS
    state, busy = await until_quiet(pair, clock, patience)
    books = read_daemon_rows(pair.home.database, STORE, SCANNER)
    told = pair.erp.received() if pair.erp else None
    tryton = await pair.tryton.books() if pair.tryton else None
    report = compare_sides(state, books, floor.causes, floor.placements, told, tryton)
    return Result(report, tuple(busy))


def floor_for(pair: Pair, pace: Pace, seed: int, clock: Clock) -> ShopFloor:
    """Return a floor whose choices depend on the seed alone."""
    rng = random.Random(seed)  # noqa: S311 - plays a shop, guards nothing
    return ShopFloor(pair, pace, rng, clock)


class Stage(Struct, frozen=True):
    """Where a demo plays: its folder, None for a temporary one, and its ports.

    `tryton` is the folder with the database for a Tryton, which then works beside.
    """

    keep: Path | None = None
    ports: Ports | None = None
    tryton: Path | None = None


async def run_once(
    screen: Screen, clock: Clock, stage: Stage, *, orders: int, seed: int
) -> int:
    """Play once and print the comparison. Returns the exit code."""

    async def play(pair: Pair) -> Result:
        floor = floor_for(pair, at_once(orders), seed, clock)
        screen.say(f"simulating {orders} orders (seed {seed})")
        async with beside(screen.follow(pair, floor, clock)):
            await floor.play()
            return await conclude(pair, floor, clock)

    screen.say("starting the reference server and the daemon")
    with lent_folder(stage.keep) as (folder, kept):
        result = await _with_pair(play, folder, clock, stage, limits=False)
        if result is None:
            return INTERRUPTED
        screen.show(result.report)
        screen.say_busy(result.busy)
        if result.passes():
            return OK
        kept()
        screen.say(f"everything is kept in {folder}")
        return FAILED


async def run_live(screen: Screen, clock: Clock, stage: Stage, *, seed: int) -> int:
    """Play until Ctrl-C or SIGTERM, then compare both sides. Returns the exit code.

    A second signal stops at once, without a comparison.
    """
    ending = asyncio.Event()

    async def close(floor: ShopFloor) -> None:
        await ending.wait()
        screen.say("finishing the work under way; Ctrl-C again stops at once")
        floor.close()

    async def play(pair: Pair) -> tuple[Result, Figures]:
        floor = floor_for(pair, LIVE, seed, clock)
        screen.welcome(pair)
        async with beside(screen.follow(pair, floor, clock, lines=True), close(floor)):
            await floor.play()
            result = await conclude(pair, floor, clock)
        return result, summary_of(pair.home.database, floor, result.report)

    screen.say("starting the reference server and the daemon")
    with lent_folder(stage.keep) as (folder, kept):
        ended = await _with_pair(play, folder, clock, stage, limits=True, ending=ending)
        screen.say("both programs are stopped")
        if ended is None:
            screen.say("stopped at once, without a comparison")
            passes = True
        else:
            result, figures = ended
            screen.summarize(result.report, figures)
            screen.say_busy(result.busy)
            passes = result.passes(may_park=True)
        if stage.keep is None and passes:
            screen.say(
                "the data are deleted; to keep the data: backhaul demo --keep DIR"
            )
        else:
            kept()
            screen.say(f"the data, logs and configuration are in {folder}")
    return OK if passes else FAILED


async def _with_pair(
    play: Callable[[Pair], Awaitable[T]],
    folder: Path,
    clock: Clock,
    stage: Stage,
    *,
    limits: bool,
    ending: asyncio.Event | None = None,
) -> T | None:
    """Run the programs while `play` plays. None when a signal ended it.

    With `ending`, the first signal only sets that. Raises BackhaulError if the library
    of the demo's ERP, a SQLite file, is not installed.
    """
    if missing := missing_extra("sql"):
        raise BackhaulError(f"the demo has an ERP with a database and needs {missing}")

    async def work() -> T:
        async with (
            open_pair(
                folder,
                clock,
                limits=limits,
                ports=stage.ports,
                with_erp=True,
                tryton_database=stage.tryton,
            ) as pair,
            beside(*(program.watch() for program in pair.programs)),
        ):
            return await play(pair)

    return await interruptible(work(), ending)


async def interruptible(
    work: Coroutine[Any, Any, T], ending: asyncio.Event | None = None
) -> T | None:
    """Wait for work; a signal cancels it, and then None is returned.

    With `ending`, the first signal only sets that.
    """
    stopped = asyncio.Event()

    def stop() -> None:
        if ending is not None and not ending.is_set():
            ending.set()
        else:
            stopped.set()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work)
            signaled = group.create_task(stopped.wait())
            await asyncio.wait({task, signaled}, return_when=asyncio.FIRST_COMPLETED)
            signaled.cancel()
            task.cancel()
    except BaseExceptionGroup as failed:
        raise _first(failed) from None
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    return None if task.cancelled() else task.result()


@asynccontextmanager
async def beside(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let endless work go on meanwhile; what fails in it fails the whole."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        yield
        for task in tasks:
            task.cancel()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


@contextmanager
def lent_folder(keep: Path | None) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Lend a folder, gone afterwards unless it was asked for or something failed.

    Calling what comes with it keeps it too.
    """
    if keep is not None:
        yield keep.absolute(), lambda: None
        return
    folder = Path(tempfile.mkdtemp(prefix="backhaul-demo-"))
    wanted: list[bool] = []
    yield folder, lambda: wanted.append(True)
    if not wanted:
        shutil.rmtree(folder)
