"""Checks the database: mode, schema and integrity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.doctor.result import Result, fail, ok, warn
from backhaul.doctor.storage import is_closed
from backhaul.errors import BackhaulError, CorruptData
from backhaul.store.sqlite import file_inspection, file_replacement, opening

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RESTORE = "stop the daemon, then restore a backup: backhaul restore FILE"
READ = "run it as the daemon's user, while no other program locks the file"


AGAIN = "run backhaul restore FILE again, or start the daemon to undo the restore"
QUICK = (
    "quick_check found no fault: the structure of every page was read, and no index"
    " was compared with its table (backhaul doctor --deep does that)"
)
DEEP = (
    "integrity_check found no fault: the structure of every page was read, and every"
    " index was compared with its table (a changed character inside a value is found"
    " by neither)"
)


def check(path: Path, *, deep: bool = False) -> Iterator[Result]:
    """Check a database, which may be in use; `deep` also compares each index."""
    path = file_replacement.real_path(path)
    if is_closed(path.parent):
        yield fail("database", f"this user cannot read the folder of {path}", READ)
        return
    if file_replacement.is_interrupted(path):
        said = f"a restore into {path} is running or was interrupted"
        yield fail("database", said, AGAIN)
        return
    if problem := opening.log_problem(path):
        yield fail("database", *_split(problem))
        return
    if not path.exists():
        yield ok("database", f"{path} is created at the first start")
        return
    try:
        ahead = opening.pending(path)
        yield _mode(path, file_inspection.journal_mode(path))
    except CorruptData as error:
        yield fail("database", *_split(str(error)))
        return
    except BackhaulError as error:
        yield fail("database", str(error), READ)
        return
    yield _schema(path, ahead)
    yield _integrity(path, deep=deep)


def left_behind(path: Path, stores: Iterable[str]) -> Iterator[Result]:
    """Check for work of stores that the settings lack, as after a renaming."""
    for each in file_inspection.orphaned_work(path, stores):
        said = f"the settings have no such store, but it has {each}"
        yield fail("store", said, each.remedy, each.store)


def _split(problem: str) -> tuple[str, str]:
    """Split a message into the problem and the fix."""
    said, _, fix = problem.partition("; ")
    return said, fix or RESTORE


def _mode(path: Path, mode: str) -> Result:
    if mode == "wal":
        return ok("database", f"{path} is in WAL mode")
    said = f"{path} is in mode {mode}, in which readers block the writer"
    return warn("database", said, "start the daemon: it sets WAL mode again")


def _schema(path: Path, ahead: list[str]) -> Result:
    if ahead:
        said = f"{path} is {len(ahead)} steps behind this version"
        return warn("schema", said, "backhaul migrate, or start the daemon")
    return ok("schema", "matches this version")


def _integrity(path: Path, *, deep: bool) -> Result:
    problems = file_inspection.problems(path, deep=deep)
    if problems:
        return fail("integrity", f"{path}: {'; '.join(problems)}", RESTORE)
    return ok("integrity", DEEP if deep else QUICK)
