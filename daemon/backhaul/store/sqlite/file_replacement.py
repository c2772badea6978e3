"""Puts a restored database in its place: completely, or not at all.

SQLite replays any log beside a database, even the log of another database. So the
database in the place moves together with every file that SQLite keeps beside it. A file
beside them, the intent, lists what moves. While the intent exists, the restore is not
done, and the next start or `backhaul restore` undoes it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backhaul.errors import AlreadyRunning, BackhaulError, why
from backhaul.store.sqlite import file_backup

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = (*file_backup.SIDES, "")
"""What may be in the place: the files beside the database, then the database."""
UNFINISHED = ".unfinished"
_LOCKS = {"": (0x4000_0000, 512), "-shm": (120, 9)}
"""Bytes that a program locks while it has a database open (SQLite's os.h, wal.c)."""


class Intent(Struct, frozen=True):
    """A restore that has begun: which parts were there, and where they move to.

    `inode` is that of the restored file. A file that a person put there has another.
    """

    aside: str
    parts: tuple[str, ...]
    inode: int


def real_path(path: Path) -> Path:
    """Follow symbolic links, as SQLite does: its log lies beside the file itself."""
    return Path(os.path.realpath(path))


def part(path: Path, suffix: str) -> Path:
    """Return the path of a file beside a database, or of the database itself."""
    return path.with_name(path.name + suffix)


def parts_of(path: Path) -> tuple[str, ...]:
    """Return the suffixes of the files that are there, broken links included."""
    return tuple(suffix for suffix in PARTS if os.path.lexists(part(path, suffix)))


def intent_path(place: Path) -> Path:
    """Return the path of the intent of a restore into `place`."""
    return place.with_name(f".{place.name}.restore-intent.json")


def is_interrupted(place: Path) -> bool:
    """Return True while a restore into `place` is under way or was interrupted."""
    return intent_path(place).exists()


def require_unused(place: Path) -> None:
    """Refuse to move a database that a program has open. Raises AlreadyRunning.

    When such a program ends, SQLite removes the log by its name: that of the restored
    database.
    """
    for suffix, (start, length) in _LOCKS.items():
        file = part(place, suffix)
        if file.is_file() and _is_locked(file, start, length):
            raise AlreadyRunning(
                f"{place}: another program has the database open; stop it, then run"
                f" the command again (fuser -v {place} names the program)"
            )


def _is_locked(file: Path, start: int, length: int) -> bool:
    handle = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        os.close(handle)
    return False


def give_to_owner(fresh: Path, place: Path) -> None:
    """As root, give a new file to the user that the daemon runs as."""
    if os.geteuid() == 0:
        owner = (place if place.exists() else place.parent).stat()
        os.chown(fresh, owner.st_uid, owner.st_gid)


def put_in_place(
    fresh: Path, place: Path, aside: Path, verify: Callable[[], None]
) -> tuple[str, ...]:
    """Move `fresh` to `place`, and what was there to `aside`.

    All three are in one folder. `verify` reads the database in its place, and raises if
    it is not the expected one. If anything fails, everything is put back and the error
    is raised. Returns the suffixes of the files that were moved.
    """
    file_backup.sync(fresh)
    intent = Intent(aside.name, parts_of(place), fresh.stat().st_ino)
    try:
        _write(place, intent)
        for suffix in intent.parts:
            part(place, suffix).rename(part(aside, suffix))
        fresh.rename(place)
        file_backup.sync(place.parent)
        verify()
        _remove_intent(place)
    except BaseException:
        _undo(place, intent)
        raise
    return intent.parts


def undo_interrupted(place: Path, *, may_be_absent: bool = False) -> bool:
    """Undo a restore that was interrupted; return whether there was one.

    Raises BackhaulError if it cannot be undone, or if there was no database before it:
    a start would then begin with an empty database. `may_be_absent` allows that.
    """
    intent = _read(place)
    if intent is None:
        return False
    _undo(place, intent, keep_intent=not may_be_absent and "" not in intent.parts)
    if is_interrupted(place):
        raise BackhaulError(
            f"{place}: the restore of this database was interrupted, and there was"
            " no database before the restore. Run the restore again: backhaul"
            " restore FILE. To start with an empty database instead, delete"
            f" {intent_path(place)}"
        )
    return True


def _undo(place: Path, intent: Intent, *, keep_intent: bool = False) -> None:
    """Put back what was moved. It can be repeated after an interruption."""
    try:
        aside = place.with_name(intent.aside)
        was_moved = "" not in intent.parts or os.path.lexists(aside)
        if was_moved:
            _clear_place(place, intent)
        for suffix in reversed(
            intent.parts
        ):  # the database first: it replaces the restored one
            if os.path.lexists(part(aside, suffix)):
                part(aside, suffix).rename(part(place, suffix))
        file_backup.sync(place.parent)
        if not keep_intent:
            _remove_intent(place)
    except OSError as error:
        raise BackhaulError(
            f"{place}: the restore failed, and Backhaul could not put the previous"
            f" database back ({why(error)}). The previous database is"
            f" {intent.aside}, in the same folder. The next start of the daemon, or"
            " the next restore, puts it back"
        ) from error


def _clear_place(place: Path, intent: Intent) -> None:
    """Remove the restored database. Refuses to remove any other file."""
    if os.path.lexists(place):
        if place.lstat().st_ino != intent.inode:
            raise BackhaulError(
                f"{place}: the restore of this database was interrupted, and"
                " another program has replaced this file since then. The database"
                f" from before the restore is in {intent.aside}. To keep {place} as"
                f" it is now, delete {intent_path(place)}. To return to the"
                f" database from before the restore, delete {place}. Then run the"
                " command, or start the daemon, again"
            )
        if "" not in intent.parts:
            place.unlink()
    for suffix in set(file_backup.SIDES).difference(intent.parts):
        part(place, suffix).unlink(missing_ok=True)


def _write(place: Path, intent: Intent) -> None:
    target = intent_path(place)
    unfinished = part(target, UNFINISHED)
    unfinished.write_bytes(msgspec.json.encode(intent))
    file_backup.sync(unfinished)
    unfinished.rename(target)
    file_backup.sync(place.parent)


def _read(place: Path) -> Intent | None:
    """Return the intent of an interrupted restore. Raises BackhaulError."""
    target = intent_path(place)
    try:
        return msgspec.json.decode(target.read_bytes(), type=Intent)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise BackhaulError(
            f"{target}: a restore was interrupted, and this file, which describes"
            f" the restore, cannot be read ({error}). In the same folder,"
            f" {place.name}.before-restore-TIME is the database from before the"
            f" restore. Keep the right one of the two databases as {place}, and"
            f" delete {target}"
        ) from None


def _remove_intent(place: Path, /) -> None:
    """Make a restore, or its undoing, final."""
    intent = intent_path(place)
    for file in (intent, part(intent, UNFINISHED)):
        with suppress(FileNotFoundError):
            file.unlink()
    file_backup.sync(place.parent)
