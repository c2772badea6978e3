"""Backups: made now and then while the daemon runs, the oldest thrown away."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.core.clock import in_a_name, to_text
from backhaul.errors import BackhaulError
from backhaul.store.sqlite import copies

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from backhaul.core.clock import Clock

PATTERN = "backhaul-*.db"


@dataclass(frozen=True, slots=True)
class Plan:
    """Where backups of a database lie, and how many."""

    database: Path
    folder: Path
    keep: int


class Backer:
    """Backs up whenever it is woken; `backed_up` is told when one is made."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._wake = asyncio.Event()
        self.backed_up: Callable[[str, str], Awaitable[None]] | None = None

    def wake(self) -> None:
        """Make a backup; called by the scheduled job."""
        self._wake.set()

    async def run(self) -> None:
        """Back up for ever. Cancel to stop: what is not whole is thrown away."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            began = to_text(self._clock.now())
            said = await self._back_up()
            if self.backed_up is not None and said:
                await self.backed_up(began, said)

    async def _back_up(self) -> str:
        """Return what was made; empty where it failed."""
        ended = threading.Event()
        name = f"backhaul-{in_a_name(self._clock.now())}.db"
        target = self._plan.folder / name
        try:
            size = await asyncio.to_thread(_make, self._plan, target, ended.is_set)
        except BackhaulError as error:
            logger.bind(action="backup.failed").error("no backup was made: {}", error)
            return ""
        finally:
            ended.set()
        logger.bind(action="backup.done").info("{} has {} bytes", target, size)
        return f"{target.name}, {size} bytes"


def _make(plan: Plan, target: Path, ended: Callable[[], bool]) -> int:
    try:
        plan.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BackhaulError(f"{plan.folder}: {error.strerror}") from None
    size = copies.copy(plan.database, target, ended)
    for old in sorted(plan.folder.glob(PATTERN))[: -plan.keep]:
        old.unlink(missing_ok=True)
    return size
