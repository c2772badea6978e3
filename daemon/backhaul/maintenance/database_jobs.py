"""Jobs on the database: backups, and deleting what is older than settings keep."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.clock import for_file_name, to_text
from backhaul.errors import BackhaulError, Busy, CorruptData, why
from backhaul.runtime.loop import Loop
from backhaul.runtime.signals import no_report
from backhaul.store import database_at
from backhaul.store.database import MANIFEST_SUFFIX, manifest_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store import Place
    from backhaul.store.operations import ReportEnd, Retention

_OURS = re.compile(r"backhaul-\d{8}T\d{6}Z\.db", re.ASCII)
"""The names of scheduled backups. Other files in the folder are never deleted."""
_MANIFEST = re.escape(MANIFEST_SUFFIX)
_LEFT = re.compile(
    rf"\.{_OURS.pattern}(\.unfinished(-wal|-shm|-journal)?|{_MANIFEST}\.unfinished)",
    re.ASCII,
)
"""The names of unfinished files that a killed backup leaves behind."""
REMEDY = "give the daemon write access, or set another folder in [jobs.backup]"


class BackupPlan(Struct, frozen=True):
    """Where the backups of a database are, and how many are kept."""

    database: Place
    folder: Path
    keep: int


async def begin_at_once() -> None:
    """Wait for nothing before a backup."""


class BackupWorker:
    """Makes a backup whenever it is woken, and reports the result.

    `before` waits until all that was acknowledged before is in the database.
    """

    def __init__(
        self,
        plan: BackupPlan,
        clock: Clock,
        report: ReportEnd = no_report,
        before: Callable[[], Awaitable[None]] = begin_at_once,
    ) -> None:
        self._before = before
        self._plan = plan
        self._clock = clock
        self._loop = Loop(clock, at_start=False)
        self._report = report

    def keep_in(self, folder: Path, keep: int) -> None:
        """Use another folder or number of backups from the next backup on."""
        self._plan = replace(self._plan, folder=folder, keep=keep)

    def wake(self) -> None:
        """Make a backup; called by the scheduled job."""
        self._loop.wake()

    async def run(self) -> None:
        """Wait and back up until cancelled. An unfinished backup is deleted."""
        await self._loop.run(self._run_job)

    async def _run_job(self) -> None:
        began = to_text(self._clock.now())
        said, failed = await self._back_up()
        await self._report(began, said, failed=failed)

    async def _back_up(self) -> tuple[str, bool]:
        """Return what was made or why it failed, and whether it failed."""
        ended = threading.Event()
        name = f"backhaul-{for_file_name(self._clock.now())}.db"
        target = self._plan.folder / name
        try:
            await self._before()
            size = await asyncio.to_thread(
                _make, self._plan, target, self._clock, ended.is_set
            )
        except BackhaulError as error:
            said = (
                str(error) if isinstance(error, CorruptData) else f"{error}; {REMEDY}"
            )
            logger.bind(action="backup.failed").error("the backup failed: {}", said)
            return said, True
        finally:
            ended.set()
        logger.bind(action="backup.done").info("{} has {} bytes", target, size)
        return f"{target.name}, {size} bytes", False


def _make(
    plan: BackupPlan, target: Path, clock: Clock, ended: Callable[[], bool]
) -> int:
    try:
        plan.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = f"the folder {plan.folder} could not be created: {why(error)}"
        raise BackhaulError(problem) from None
    _clear(plan.folder)
    size = database_at(plan.database).back_up(target, clock, ended).bytes
    try:
        for old in _from_the_oldest(plan.folder, target)[: -plan.keep]:
            old.unlink(missing_ok=True)
            manifest_of(old).unlink(missing_ok=True)
    except OSError as error:
        problem = f"an older backup could not be deleted: {why(error)}"
        raise BackhaulError(f"{target} was made, but {problem}") from None
    return size


def _clear(folder: Path) -> None:
    # A file that cannot be deleted, such as another user's, must not stop the backup.
    with suppress(OSError):
        for left in [each for each in folder.iterdir() if _LEFT.fullmatch(each.name)]:
            left.unlink(missing_ok=True)


def _from_the_oldest(folder: Path, newest: Path) -> list[Path]:
    """Return the backups, oldest first; a date after the newest is a clock error."""
    made = sorted(each for each in folder.iterdir() if _OURS.fullmatch(each.name))
    return sorted(made, key=lambda backup: backup.name <= newest.name)


SLICE_SECONDS = 0.005
REST_SECONDS = 0.05
"""Pause between two slices: accepts and folds get nine tenths of the writer's time."""


class Pruner:
    """Deletes old data at the start and whenever it is woken."""

    def __init__(
        self,
        retention: Retention,
        days: int,
        clock: Clock,
        report: ReportEnd = no_report,
    ) -> None:
        self._retention = retention
        self._age = timedelta(days=days)
        self._clock = clock
        self._loop = Loop(clock)
        self._report = report

    def wake(self) -> None:
        """Start a run now."""
        self._loop.wake()

    async def run(self) -> None:
        """Run until cancelled. A slice is one transaction, so none is half done."""
        await self._loop.run(self._run_job)

    async def _run_job(self) -> None:
        began = to_text(self._clock.now())
        erased = await self._prune()
        if erased is not None:
            await self._report(began, f"erased {erased}")

    async def _prune(self) -> int | None:
        """Return how many bodies were erased; None if the database was busy."""
        before = to_text(self._clock.now() - self._age)
        total, counts, more = 0, 0, True
        while more:
            try:
                pruned = await self._retention.prune(before, SLICE_SECONDS)
            except Busy as error:
                logger.bind(action="prune.busy").warning("{}", error)
                return None
            total, counts = total + pruned.erased, counts + pruned.counts
            more = pruned.more
            if more:
                await self._clock.sleep(REST_SECONDS)
        if total or counts:
            logger.bind(action="prune.done").info(
                "erased {} bodies and {} counts received before {}",
                total,
                counts,
                before,
            )
        return total
