"""Whole copies of a database: made while it is in use, and checked."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.errors import BackhaulError, CorruptData, Unusable, why
from backhaul.store.sqlite import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEP_PAGES = 1_024
"""Pages between two looks at whether to go on; 8 MB of ours."""
CHECK_STEPS = 100_000
FINDINGS_SHOWN = 3
DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
SIDES = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database."""


class Ended(BackhaulError):
    """The copy was given up because the program ends."""


class Damaged(CorruptData):
    """A database is not whole; `found` says in what, for another name of the file."""

    def __init__(self, path: Path | str, found: str) -> None:
        self.found = " ".join(found.split())
        super().__init__(
            f"{path}: the database is damaged ({self.found}); stop the daemon, then"
            " restore a backup: backhaul restore FILE"
        )


def never() -> bool:
    """Nobody ends it."""
    return False


def is_damage(error: BaseException) -> bool:
    """Tell a file that is not whole from any other trouble with a database."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in DAMAGE


def free_bytes(folder: Path) -> int:
    """Return how much may still be written there."""
    there = os.statvfs(folder)
    return there.f_bavail * there.f_frsize


def copy(
    source: Path,
    target: Path,
    ended: Callable[[], bool] = never,
    room: Callable[[Path], int] = free_bytes,
) -> int:
    """Copy a database to a file that is checked, whole and durable, or not there.

    The source may be in use: the copy is as it was at one moment. Until it is read the
    log beside it keeps what is written meanwhile; the copy is given up once that takes
    more than the disk has left, in bytes by `room`. Returns the bytes. Raises
    CorruptData, BackhaulError where one of them cannot be read or written, and Ended.
    """
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        discard(unfinished)
        _require_room(source, target, room(target.parent))
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _fill(source, unfinished, ended, room)
        check(unfinished, ended, source)
        sync(unfinished)
        unfinished.replace(target)
        sync(target.parent)
        return target.stat().st_size
    except OSError as error:
        raise BackhaulError(f"{target}: cannot be written: {why(error)}") from None
    except sqlite3.Error as error:
        raise _failed(source, target, error) from None
    finally:
        with suppress(OSError):
            discard(unfinished)


def copy_bytes(source: Path, target: Path) -> None:
    """Copy a file that nothing writes to, without what lies beside it.

    `target` must be new; it is readable by its owner only. Raises BackhaulError.
    """
    try:
        _require_room(source, target, free_bytes(target.parent))
        handle = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(handle, "wb") as writing, source.open("rb") as reading:  # noqa: PTH123 - a handle
            shutil.copyfileobj(reading, writing, STEP_PAGES << 10)
        sync(target)
    except OSError as error:
        raise BackhaulError(f"{target}: cannot be written: {why(error)}") from None


def is_foreign_log(path: Path) -> bool:
    """Return True if the write-ahead log beside a database is of another one.

    A database that has a log says so in its header. A backup says that it has none, so
    that a backup copied over a database does not match the log that was left there.
    """
    log = connections.log_of(path)
    if not path.is_file() or not log.is_file() or not log.stat().st_size:
        return False
    with path.open("rb") as opened:
        header = opened.read(20)
    return header.startswith(b"SQLite format 3\0") and header[18:20] != b"\x02\x02"


def discard(path: Path) -> None:
    """Remove a database with what is beside it, which another would take for its own.

    Raises OSError.
    """
    for side in (*SIDES, ""):
        path.with_name(path.name + side).unlink(missing_ok=True)


def check(
    path: Path, ended: Callable[[], bool] = never, named: Path | None = None
) -> None:
    """Read every page and row. Raises CorruptData, which is `named` so, and Ended."""
    with open_to_look(path) as connection:
        connection.set_progress_handler(ended, CHECK_STEPS)
        try:
            found = connection.execute("PRAGMA integrity_check").fetchmany(
                FINDINGS_SHOWN
            )
        except sqlite3.DatabaseError as error:
            if ended():
                raise Ended(f"{path}: the check was stopped") from None
            raise Damaged(named or path, str(error)) from None
    if found != [("ok",)]:
        raise Damaged(named or path, "; ".join(row[0].strip() for row in found))


def unread(path: Path, error: sqlite3.Error) -> BackhaulError:
    """Return the error of who could not read it: what is whole needs no backup."""
    if isinstance(error, sqlite3.OperationalError):
        return BackhaulError(f"{path}: cannot be read: {error}")
    return Damaged(path, str(error))


def open_beside(path: Path) -> sqlite3.Connection:
    """Open for reading what a daemon may be writing.

    Raises CorruptData where it is damaged, and BackhaulError where there is none yet or
    it cannot be read.
    """
    if not path.exists():
        raise Unusable(
            f"{path}: there is no database yet; start the daemon once: backhaul run"
        )
    try:
        connection = connections.open_reader(path)
        connection.execute("SELECT 1 FROM inbox LIMIT 1")
    except sqlite3.Error as error:
        raise unread(path, error) from None
    return connection


@contextmanager
def open_to_look(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database that is only read. Raises BackhaulError where there is none."""
    if not path.is_file():
        raise BackhaulError(f"{path}: there is no such file")
    address = f"{path.absolute().as_uri()}?mode=ro"
    opened = sqlite3.connect(
        address, uri=True, isolation_level=None, factory=connections.Connection
    )
    with closing(opened):
        yield opened


def _fill(
    source: Path,
    target: Path,
    ended: Callable[[], bool],
    room: Callable[[Path], int],
) -> None:
    real = Path(os.path.realpath(source))  # SQLite's log lies beside that one
    log = connections.log_of(real)
    begun = _size(log)

    def look(_status: int, _remaining: int, _total: int) -> None:
        if ended():
            raise Ended(f"{target}: the copy was stopped")
        grown, free = _size(log) - begun, room(source.parent)
        if grown > free:
            raise BackhaulError(
                f"{source}: the copy was stopped, because the database's log grew by"
                f" {grown >> 20} MB during the copy and only {free >> 20} MB are"
                " free on that disk"
            )

    with closing(sqlite3.connect(target)) as writing:
        # Nothing is flushed before the source is let go, for its log grows until then.
        writing.execute("PRAGMA synchronous=OFF")
        with open_to_look(source) as reading:
            # One transaction for all steps: what is written meanwhile would otherwise
            # begin the copy anew, and one commit a second is enough for no end.
            reading.execute("BEGIN")
            reading.execute("SELECT 1 FROM sqlite_master").fetchone()
            reading.backup(writing, pages=STEP_PAGES, progress=look)
        writing.execute("PRAGMA journal_mode=DELETE")


def _size(path: Path) -> int:
    """Return the bytes, 0 of what is not there. Raises BackhaulError."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise BackhaulError(f"{path}: cannot be read: {why(error)}") from None


def _require_room(source: Path, target: Path, free: int) -> None:
    """Leave a disk alone that the copy would fill. Raises BackhaulError."""
    needed = _size(source)
    if free < needed + needed // 10:
        raise BackhaulError(
            f"{target}: not enough space: the copy needs"
            f" {_megabytes(needed + needed // 10)}, and {_megabytes(free)} are free"
        )


def _megabytes(number: int) -> str:
    return f"{number / (1 << 20):,.1f} MB"


def _failed(source: Path, target: Path, error: sqlite3.Error) -> BackhaulError:
    if is_damage(error):
        return Damaged(source, str(error))
    return BackhaulError(f"{source} cannot be copied to {target}: {error}")


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
