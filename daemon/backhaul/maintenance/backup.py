"""Makes backups on schedule and deletes the oldest."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.clock import for_file_name, to_text
from backhaul.errors import BackhaulError, CorruptData, why
from backhaul.store.sqlite import manifests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.job_runs import Told

_OURS = re.compile(r"backhaul-\d{8}T\d{6}Z\.db", re.ASCII)
"""What else lies there, as a backup that a person has named, is not ours to remove."""
_MANIFEST = re.escape(manifests.SUFFIX)
_LEFT = re.compile(
    rf"\.{_OURS.pattern}(\.unfinished(-wal|-shm|-journal)?|{_MANIFEST}\.unfinished)",
    re.ASCII,
)
"""What a kill leaves of one, as large as the database and never of any use again."""
REMEDY = "let the daemon write there, or let [jobs.backup] folder name another place"


class BackupPlan(Struct, frozen=True):
    """Where backups of a database lie, and how many."""

    database: Path
    folder: Path
    keep: int


class BackupWorker:
    """Backs up whenever it is woken; `backed_up` is told how it went."""

    def __init__(self, plan: BackupPlan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._wake = asyncio.Event()
        self.backed_up: Told | None = None

    def keep_in(self, folder: Path, keep: int) -> None:
        """Put them elsewhere, or keep so many, from the next one on."""
        self._plan = replace(self._plan, folder=folder, keep=keep)

    def wake(self) -> None:
        """Make a backup; called by the scheduled job."""
        self._wake.set()

    async def run(self) -> None:
        """Back up for ever. Cancel to stop: what is not whole is thrown away."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            began = to_text(self._clock.now())
            said, failed = await self._back_up()
            if self.backed_up is not None:
                await self.backed_up(began, said, failed=failed)

    async def _back_up(self) -> tuple[str, bool]:
        """Return what was made, or why it failed, and whether it did."""
        ended = threading.Event()
        name = f"backhaul-{for_file_name(self._clock.now())}.db"
        target = self._plan.folder / name
        try:
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
        raise BackhaulError(f"{plan.folder}: cannot be made: {why(error)}") from None
    _clear(plan.folder)
    size = manifests.back_up(plan.database, target, clock, ended).bytes
    try:
        for old in _from_the_oldest(plan.folder, target)[: -plan.keep]:
            old.unlink(missing_ok=True)
            manifests.path_of(old).unlink(missing_ok=True)
    except OSError as error:
        told = f"an older backup cannot be removed: {why(error)}"
        raise BackhaulError(f"{target} was made, but {told}") from None
    return size


def _clear(folder: Path) -> None:
    # What cannot be removed, as of another user, is no reason for not backing up.
    with suppress(OSError):
        for left in [each for each in folder.iterdir() if _LEFT.fullmatch(each.name)]:
            left.unlink(missing_ok=True)


def _from_the_oldest(folder: Path, newest: Path) -> list[Path]:
    """Return the backups; what has a later date than the newest is of a clock ahead."""
    made = sorted(each for each in folder.iterdir() if _OURS.fullmatch(each.name))
    return sorted(made, key=lambda backup: backup.name <= newest.name)
