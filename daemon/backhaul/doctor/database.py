"""Looks at the database: how it is written, its schema, and whether it is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.doctor.machine import is_closed
from backhaul.doctor.result import Result, fail, ok, warn
from backhaul.errors import BackhaulError, CorruptData
from backhaul.store import opening
from backhaul.store.sqlite import examining, stranded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RESTORE = "stop the daemon, then restore a backup: backhaul restore FILE"
READ = "ask as the daemon's user, while no other program locks the file"


def look(path: Path) -> Iterator[Result]:
    """Look at a database, which may be in use."""
    if is_closed(path.parent):
        yield fail("database", f"{path} cannot be seen by this user", READ)
        return
    if not path.exists():
        yield ok("database", f"{path} is made at the first start")
        return
    try:
        ahead = opening.pending(path)
        yield _mode(path, examining.journal_mode(path))
    except CorruptData as error:
        yield fail("database", *_split(str(error)))
        return
    except BackhaulError as error:
        yield fail("database", str(error), READ)
        return
    yield _schema(path, ahead)
    yield _integrity(path)


def left_behind(path: Path, stores: Iterable[str]) -> Iterator[Result]:
    """Look for work of stores that are not configured, as after a renaming."""
    for each in stranded.found(path, stores):
        said = f"the configuration names no such store, and it has {each}"
        yield fail("store", said, each.mend, each.store)


def _split(problem: str) -> tuple[str, str]:
    """Part what is wrong from what our own sentence says can be done."""
    said, _, fix = problem.partition("; ")
    return said, fix or RESTORE


def _mode(path: Path, mode: str) -> Result:
    if mode == "wal":
        return ok("database", f"{path} writes ahead (WAL)")
    said = f"{path} is in mode {mode}, so that readers hold the writer up"
    return warn("database", said, "start the daemon: it sets WAL again")


def _schema(path: Path, ahead: list[str]) -> Result:
    if ahead:
        said = f"{path} is {len(ahead)} steps behind this version"
        return warn("schema", said, "backhaul migrate, or start the daemon")
    return ok("schema", "is of this version")


def _integrity(path: Path) -> Result:
    problems = examining.problems(path)
    if problems:
        return fail("integrity", f"{path}: {'; '.join(problems)}", RESTORE)
    return ok("integrity", "every page can be read")
