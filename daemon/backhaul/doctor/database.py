"""Checks the database: mode, schema and integrity."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.doctor import Result, fail, ok, warn
from backhaul.doctor.storage import is_closed
from backhaul.errors import BackhaulError, CorruptData
from backhaul.store import database_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backhaul.errors import Finding
    from backhaul.store import Place

RESTORE = "stop the daemon, then restore a backup: backhaul restore FILE"
READ = "run it as the daemon's user, while no other program locks the file"
QUICK = (
    "quick_check found no fault: the structure of every page was read, and no index"
    " was compared with its table (backhaul doctor --deep does that)"
)
DEEP = (
    "integrity_check found no fault: the structure of every page was read, and every"
    " index was compared with its table (a changed character inside a value is found"
    " by neither)"
)


def check(
    place: Place, *, deep: bool = False, quorum: bool = False
) -> Iterator[Result]:
    """Check a database, which may be in use; `deep` also compares each index.

    With `quorum` a standby has to confirm each commit of a server.
    """
    if isinstance(place, str):
        yield from _server(place, quorum=quorum)
    else:
        yield from _file(Path(os.path.realpath(place)), deep=deep)


def _server(url: str, *, quorum: bool) -> Iterator[Result]:
    opened = database_at(url)
    try:
        yield ok("database", f"{opened.engine_version()} answers")
        yield _schema("the database", opened.pending_migrations())
        yield from _durability(opened.durability(quorum=quorum), quorum=quorum)
    except CorruptData as error:
        yield fail("database", *_split(str(error)))
    except BackhaulError as error:
        fix = "start the server, or correct [database] url and the rights of its user"
        yield fail("database", str(error), fix)


def _file(path: Path, *, deep: bool) -> Iterator[Result]:
    if is_closed(path.parent):
        yield fail("database", f"this user cannot read the folder of {path}", READ)
        return
    opened = database_at(path)
    if problem := opened.problem():
        yield fail("database", *_split(problem))
        return
    if not path.exists():
        yield ok("database", f"{path} is created at the first start")
        return
    try:
        ahead = opened.pending_migrations()
        yield _mode(path, opened.journal_mode())
    except CorruptData as error:
        yield fail("database", *_split(str(error)))
        return
    except BackhaulError as error:
        yield fail("database", str(error), READ)
        return
    yield _schema(path, ahead)
    yield _integrity(path, opened.faults(deep=deep), deep=deep)


def left_behind(place: Place, stores: Iterable[str]) -> Iterator[Result]:
    """Check for work of stores that the settings lack, as after a renaming."""
    for each in database_at(place).orphaned_work(stores):
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


def _schema(path: Path | str, ahead: list[str]) -> Result:
    if ahead:
        said = f"{path} is {len(ahead)} steps behind this version"
        return warn("schema", said, "backhaul migrate, or start the daemon")
    return ok("schema", "matches this version")


def _durability(found: Sequence[Finding], *, quorum: bool) -> Iterator[Result]:
    if not found:
        where = "a standby's disk too" if quorum else "the server's disk"
        yield ok("durability", f"a confirmed commit is on {where}")
    for each in found:
        said = f"{each.source}: {each.problem}"
        result = fail if quorum else warn
        yield result("durability", said, each.hint)


def _integrity(path: Path, faults: list[str], *, deep: bool) -> Result:
    if faults:
        return fail("integrity", f"{path}: {'; '.join(faults)}", RESTORE)
    return ok("integrity", DEEP if deep else QUICK)
