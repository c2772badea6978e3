"""Complete, checked copies of a database that may be in use."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backhaul.errors import BackhaulError, CorruptData, Unusable, why
from backhaul.store.sqlite import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STEP_PAGES = 1_024
"""Pages between two checks whether to continue; 8 MB of our database."""
CHECK_STEPS = 100_000
FINDINGS_SHOWN = 3
DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
SIDES = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite keeps beside a database."""


class Ended(BackhaulError):
    """The copy was stopped because the program ends."""


class Damaged(CorruptData):
    """A database is damaged; `found` is the finding, without the name of the file."""

    def __init__(self, path: Path | str, found: str) -> None:
        self.found = " ".join(found.split())
        super().__init__(
            f"{path}: the database is damaged ({self.found}); stop the daemon, then"
            " restore a backup: backhaul restore FILE"
        )


def never() -> bool:
    """Return False: nothing ends the copy."""
    return False


def is_damage(error: BaseException) -> bool:
    """Return True if an error shows damage of the file."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in DAMAGE


def free_bytes(folder: Path) -> int:
    """Return how many bytes the disk of a folder has left."""
    there = os.statvfs(folder)
    return there.f_bavail * there.f_frsize


def copy(
    source: Path,
    target: Path,
    ended: Callable[[], bool] = never,
    room: Callable[[Path], int] = free_bytes,
) -> int:
    """Copy a database; afterwards the copy is complete and durable, or absent.

    The source may be in use: the copy shows one moment. Meanwhile the log beside the
    source grows; the copy stops once the log has grown by more than the disk has left
    (`room`). Returns the bytes. Raises CorruptData, Ended, and BackhaulError if a file
    cannot be read or written.
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
    """Copy a file that nothing writes to, without the files beside it.

    `target` must be new; only its owner can read it. Raises BackhaulError.
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
    """Return True if the write-ahead log beside a database is of another database.

    The header of a database says whether it has a log. A backup has none, so a backup
    that was copied over a database does not match the log that is still there.
    """
    log = connections.log_of(path)
    if not path.is_file() or not log.is_file() or not log.stat().st_size:
        return False
    with path.open("rb") as opened:
        header = opened.read(20)
    return header.startswith(b"SQLite format 3\0") and header[18:20] != b"\x02\x02"


def discard(path: Path) -> None:
    """Remove a database and the files beside it, which another database would use.

    Raises OSError.
    """
    for side in (*SIDES, ""):
        path.with_name(path.name + side).unlink(missing_ok=True)


def check(
    path: Path, ended: Callable[[], bool] = never, named: Path | None = None
) -> None:
    """Read every page and row. Raises CorruptData about the file `named`, and Ended."""
    with open_read_only(path) as connection:
        connection.set_progress_handler(ended, CHECK_STEPS)
        try:
            found = connection.execute("PRAGMA integrity_check").fetchmany(
                FINDINGS_SHOWN
            )
        except sqlite3.DatabaseError as error:
            if ended():
                raise Ended(
                    f"{path}: the check of this file was stopped before its end"
                ) from None
            raise Damaged(named or path, str(error)) from None
    if found != [("ok",)]:
        raise Damaged(named or path, "; ".join(row[0].strip() for row in found))


def unread(path: Path, error: sqlite3.Error) -> BackhaulError:
    """Return the error for a failed read: damage, or BackhaulError for other causes."""
    if isinstance(error, sqlite3.OperationalError):
        return BackhaulError(f"{path}: cannot be read: {error}")
    return Damaged(path, str(error))


def open_beside(path: Path) -> sqlite3.Connection:
    """Open a database for reading that a daemon may write.

    Raises CorruptData if it is damaged, and BackhaulError if there is none yet or it
    cannot be read.
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
def open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading. Raises BackhaulError if there is none."""
    if not path.is_file():
        raise BackhaulError(f"{path}: this file does not exist")
    address = f"{path.absolute().as_uri()}?mode=ro"
    opened = sqlite3.connect(
        address, uri=True, isolation_level=None, factory=connections.Connection
    )
    with closing(opened):
        yield opened


def query(path: Path, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query. Raises CorruptData, BackhaulError."""
    try:
        with open_read_only(path) as connection:
            return connection.execute(sql, values).fetchall()
    except sqlite3.Error as error:
        raise unread(path, error) from None


def row_counts(path: Path) -> dict[str, int]:
    """Return how many rows each table has. Raises sqlite3.DatabaseError."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    with open_read_only(path) as connection:
        names = [str(row[0]) for row in connection.execute(query)]
        return {name: _count(connection, name) for name in names}


def _count(connection: sqlite3.Connection, table: str) -> int:
    quoted = table.replace('"', '""')
    (found,) = connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()  # noqa: S608 - a name of the schema
    return int(found)


def _fill(
    source: Path,
    target: Path,
    ended: Callable[[], bool],
    room: Callable[[Path], int],
) -> None:
    real = Path(os.path.realpath(source))  # SQLite's log is beside the real file
    log = connections.log_of(real)
    begun = _size(log)

    def check_progress(_status: int, _remaining: int, _total: int) -> None:
        if ended():
            raise Ended(f"{target}: the copy to this file was stopped before its end")
        grown, free = _size(log) - begun, room(source.parent)
        if grown > free:
            raise BackhaulError(
                f"{source}: the copy was stopped, because the database's log grew"
                f" by {grown >> 20} MB during the copy and only {free >> 20} MB are"
                " free on its disk. Free space, or make the backup when fewer"
                " webhooks arrive"
            )

    with closing(sqlite3.connect(target)) as writing:
        # The copy is flushed after the source is closed: its log grows until then.
        writing.execute("PRAGMA synchronous=OFF")
        with open_read_only(source) as reading:
            # One transaction for all steps. Otherwise each write restarts the copy, and
            # with one commit a second it never ends.
            reading.execute("BEGIN")
            reading.execute("SELECT 1 FROM sqlite_master").fetchone()
            reading.backup(writing, pages=STEP_PAGES, progress=check_progress)
        writing.execute("PRAGMA journal_mode=DELETE")


def _size(path: Path) -> int:
    """Return the size of a file, 0 if there is none. Raises BackhaulError."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise BackhaulError(f"{path}: cannot be read: {why(error)}") from None


def _require_room(source: Path, target: Path, free: int) -> None:
    """Refuse a copy that would fill the disk. Raises BackhaulError."""
    needed = _size(source)
    if free < needed + needed // 10:
        raise BackhaulError(
            f"{target}: this disk has not enough space: the copy needs"
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
