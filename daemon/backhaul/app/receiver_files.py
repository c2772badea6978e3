"""The inbox files of receiver processes: who uses them, and how the daemon moves them.

Each run of a process has a file of its own. A webhook is durable there before it is
answered. It is removed after its commit in the database; if the daemon ends in between,
the next one moves it again, and the fold finds that its body is a repeat.

A process holds a lock on a second file for as long as it lives. The file of a process
that lives is never deleted: it could still answer a webhook.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from loguru import logger

from backhaul.errors import AlreadyRunning, Busy, CorruptData, ReadFailed
from backhaul.runtime.loop import retry_while_busy
from backhaul.store import INBOX_FILE, inbox_files, open_inbox_file

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from backhaul.core.clock import Clock
    from backhaul.store.inbox import Inbox, Spool

T = TypeVar("T")
LOCK = ".lock"
DAMAGED = ".damaged"
RELEASE_SECONDS = 10.0
"""How long a process may take to end after a SIGKILL."""
LOOK_SECONDS = 0.05


class ReceiverFile:
    """The inbox file of one run of a process, as the daemon reads it."""

    def __init__(self, path: Path, inbox: Inbox, clock: Clock) -> None:
        self.path = path
        self._inbox = inbox
        self._clock = clock
        self._spool: Spool | None = None
        self.moved = 0
        """Up to this id, the webhooks are in the database."""
        self.is_ended = False

    @classmethod
    def new(cls, folder: Path, inbox: Inbox, clock: Clock) -> ReceiverFile:
        """Return a file that does not exist yet; the process creates it."""
        return cls(folder / INBOX_FILE.format(secrets.token_hex(4)), inbox, clock)

    def lock(self) -> int:
        """Lock it; return the descriptor that the process inherits and never closes.

        Raises OSError.
        """
        lock = os.open(self.path.with_suffix(LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    async def move(self) -> int:
        """Move the next webhooks; return how many. May raise Busy, and CorruptData."""
        events = await _read(self._open().oldest(self.moved))
        if events:
            # The writer takes them all into one commit.
            await asyncio.gather(*(self._inbox.append(event) for _, event in events))
            self.moved = events[-1][0]
        return len(events)

    async def newest(self) -> int:
        """Return the highest id in the file. May raise Busy, and CorruptData."""
        return await _read(self._open().newest())

    async def end(self) -> int:
        """Move all, once no process uses it, and delete it; return how many.

        A damaged file is kept under another name. May raise Busy: then the file stays,
        with what is not moved yet.
        """
        total, damage = 0, None
        try:
            while number := await self.move():
                total += number
        except CorruptData as error:
            damage = error
        self.is_ended = True
        if self._spool is not None:
            await self._spool.stop()
        if damage is not None:
            self._set_aside(damage)
        name = self.path.name
        for left in (name, f"{name}-wal", f"{name}-shm"):
            self.path.with_name(left).unlink(missing_ok=True)
        self.path.with_suffix(LOCK).unlink(missing_ok=True)
        return total

    def _open(self) -> Spool:
        if self._spool is None:
            self._spool = open_inbox_file(self.path, self._clock)
        return self._spool

    def _set_aside(self, error: CorruptData) -> None:
        name = self.path.name
        kept = self.path.with_name(f"{name}{DAMAGED}")
        log = self.path.with_name(f"{name}-wal")
        if log.exists():  # SQLite finds it by this name
            log.rename(kept.with_name(f"{kept.name}-wal"))
        self.path.rename(kept)
        logger.bind(action="receiver.damaged", file=str(kept)).error(
            "a file of received webhooks is damaged, so some webhooks in it that were"
            " answered with 200 may not be in the database. The file is kept as {}."
            " Read what they said from the platform: backhaul reconcile. {}",
            kept,
            error,
        )


async def _read(reading: Awaitable[T]) -> T:
    """Return what is read; raise Busy if it cannot be read now, as with many files."""
    try:
        return await reading
    except CorruptData:
        raise
    except ReadFailed as error:
        raise Busy(str(error)) from None


async def end_orphans(folder: Path, clock: Clock) -> None:
    """End the processes of a daemon that was killed. Call it as the sole writer.

    They have the public port, and could answer webhooks that nobody would move. Raises
    AlreadyRunning if one does not end.
    """
    for lock in _locks(folder):
        until = clock.monotonic() + RELEASE_SECONDS
        while (pid := _holder(lock)) is not None:
            if pid:  # it is written soon after the start; without it, the end is near
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if clock.monotonic() > until:
                raise AlreadyRunning(
                    f"{lock}: the receiver process {pid} of an earlier run does not"
                    " end; end it, then start Backhaul again"
                )
            await clock.sleep(LOOK_SECONDS)


def _holder(lock: Path) -> int | None:
    """Return the process that holds a lock: 0 if unknown, None if there is none."""
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return int(os.pread(descriptor, 32, 0) or 0)
    finally:
        os.close(descriptor)
    return None


async def move_left(
    folder: Path, inbox: Inbox, clock: Clock, *, retry: bool = True
) -> None:
    """Move the webhooks that an earlier run of the daemon left behind.

    Without `retry` it may raise Busy.
    """
    for path in inbox_files(folder):
        file = ReceiverFile(path, inbox, clock)
        end = retry_while_busy(file.end, clock) if retry else file.end()
        if number := await end:
            logger.bind(action="receiver.recovered", webhooks=number).warning(
                "{} webhooks of the file {} are in the database; the daemon had ended"
                " before it moved them",
                number,
                path.name,
            )
    for lock in _locks(folder):  # of processes that never had a file
        lock.unlink()


class LeftFiles:
    """The files of an earlier run, for the sole writer when no daemon runs."""

    def __init__(self, folder: Path, inbox: Inbox, clock: Clock) -> None:
        self._parts = folder, inbox, clock

    async def move_all(self) -> None:
        """Move all webhooks, and delete the files. Raises AlreadyRunning, Busy."""
        folder, _, clock = self._parts
        await end_orphans(folder, clock)
        await move_left(*self._parts, retry=False)

    async def clear(self) -> bool:
        """Return True: `move_all` deleted the files."""
        return True


def damaged(folder: Path) -> list[Path]:
    """Return the damaged files that were kept, and their logs."""
    return sorted(folder.glob(f"{INBOX_FILE.format('*')}{DAMAGED}*"))


def _locks(folder: Path) -> list[Path]:
    return sorted(folder.glob(str(Path(INBOX_FILE.format("*")).with_suffix(LOCK))))
