"""Checks the state folder, its disk, and the database."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.doctor import Result, fail, ok, warn
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


def check_database(
    place: Place, *, deep: bool = False, quorum: bool = False
) -> Iterator[Result]:
    """Check a database, which may be in use; `deep` also compares each index.

    With `quorum` a replica has to confirm each commit of a server.
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
        yield from _archive(*opened.archiving())
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
        said = f"store is not in the configuration, but the database has {each}"
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


def _archive(well: Sequence[str], wrong: Sequence[Finding]) -> Iterator[Result]:
    for said in well:
        yield ok("archive", said)
    for each in wrong:
        yield warn("archive", f"{each.source}: {each.problem}", each.hint)


def _durability(found: Sequence[Finding], *, quorum: bool) -> Iterator[Result]:
    if not found:
        where = "a replica's disk too" if quorum else "the server's disk"
        yield ok("durability", f"a confirmed commit is on {where}")
    for each in found:
        said = f"{each.source}: {each.problem}"
        result = fail if quorum else warn
        yield result("durability", said, each.hint)


def _integrity(path: Path, faults: list[str], *, deep: bool) -> Result:
    if faults:
        return fail("integrity", f"{path}: {'; '.join(faults)}", RESTORE)
    return ok("integrity", DEEP if deep else QUICK)


LEAST_BYTES = 64_000_000
"""Room for the write-ahead log and a few deliveries."""
EASY_BYTES = 1_000_000_000
NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|glusterfs|lustre|ncpfs|ocfs2|gfs2"
    r"|fuse\.(sshfs|s3fs|glusterfs|rclone|davfs\w*|ceph\w*|gcsfuse)"
)
FLEETING = {"tmpfs", "ramfs"}
FILELESS = {"proc", "sysfs", "cgroup", "cgroup2", "devpts"}
_OCTAL = re.compile(r"\\([0-7]{3})")


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class Machine(Struct, frozen=True):
    """The facts of the machine that the checks read."""

    mounts: Path = Path("/proc/self/mountinfo")

    def free_bytes(self, folder: Path) -> int:
        return _free_bytes(folder)

    def is_read_only(self, folder: Path) -> bool:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)

    def file_system(self, folder: Path) -> str:
        """Return the type of a folder's file system, such as ext4."""
        best, found = "", "unknown"
        for line in self.mounts.read_text("utf-8").splitlines():
            head, _, tail = line.partition(" - ")
            point = _OCTAL.sub(lambda each: chr(int(each[1], 8)), head.split()[4])
            if len(point) >= len(best) and folder.is_relative_to(point):
                best, found = point, tail.split()[0]
        return found


def is_closed(folder: Path) -> bool:
    """Return True if this user is not allowed to see the files of a folder."""
    try:
        (folder / "anything").lstat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def check(state_dir: Path, database: Place, machine: Machine) -> Iterator[Result]:
    """Check the state folder, or the place where it would be created."""
    there = _nearest(state_dir)
    yield _folder(state_dir, there, machine)
    folders, used = [there], 0
    if isinstance(database, Path):
        folders.append(_nearest(database.parent))
        used = _size(database)
    for place in dict.fromkeys(folders):
        yield _file_system(place, machine.file_system(place))
        yield _room(place, machine.free_bytes(place), used)


def _nearest(folder: Path) -> Path:
    resolved = folder.resolve()
    every = (resolved, *resolved.parents)
    return next(each for each in every if not is_closed(each.parent) and each.is_dir())


def _folder(state_dir: Path, there: Path, machine: Machine) -> Result:
    if is_closed(state_dir):
        return _not_writable(state_dir)
    if (kind := machine.file_system(there)) in FILELESS:
        said = f"{state_dir} is on a file system that stores no files ({kind})"
        return fail("state_dir", said, "set state_dir to a folder on a local disk")
    if machine.is_read_only(there):
        said = f"{state_dir} is on a file system that is mounted read-only"
        return fail("state_dir", said, "mount it writable, or set another state_dir")
    if not state_dir.is_dir():
        return _unmade(state_dir)
    if not os.access(state_dir, os.R_OK | os.W_OK | os.X_OK):
        return _not_writable(state_dir)
    mode = stat.S_IMODE(state_dir.stat().st_mode)
    if mode & stat.S_IRWXO:
        said = f"{state_dir} is open to all users (mode {mode:04o}); it holds addresses"
        return warn("state_dir", said, f"chmod 700 {state_dir}")
    return ok("state_dir", f"{state_dir} (mode {mode:04o})")


def _not_writable(state_dir: Path) -> Result:
    said = f"{state_dir} is not writable for {_user()}"
    fix = f"give it to {_user()}: chown, chmod 700; or run this as the daemon's user"
    return fail("state_dir", said, fix)


def _unmade(state_dir: Path) -> Result:
    above = next(e for e in (state_dir, *state_dir.absolute().parents) if e.exists())
    if not above.is_dir():
        said = f"{above} is not a folder"
        return fail("state_dir", said, "move it away, or set another state_dir")
    if os.access(above, os.W_OK | os.X_OK):
        return ok("state_dir", f"{state_dir} is created at the first start")
    said = f"{state_dir} does not exist and cannot be created in {above}"
    return fail("state_dir", said, f"create it and give it to {_user()}")


def _user() -> str:
    return f"the user that runs Backhaul (uid {os.getuid()})"


def _file_system(place: Path, kind: str) -> Result:
    if NETWORK.fullmatch(kind):
        return fail(
            "file system",
            f"{place} is on a network file system ({kind}): its locks are unreliable,"
            " so the database would be damaged",
            "set state_dir, and database.url, to a local disk",
        )
    if kind in FLEETING:
        said = (
            f"{place} is in memory ({kind}): everything is lost when the machine stops"
        )
        return warn("file system", said, "set state_dir to a local disk")
    return ok("file system", f"{place} is local ({kind})")


def _room(place: Path, free: int, used: int) -> Result:
    said = f"{free // 1_000_000} MB are free at {place}"
    fix = f"free space there, or move state_dir; df -h {place}"
    if free < LEAST_BYTES:
        return fail("free space", f"{said}: webhooks will soon be refused", fix)
    if free < EASY_BYTES or free < used + used // 10:
        size = f"{used // 1_000_000} MB"
        return warn("free space", f"{said}; a backup of the database needs {size}", fix)
    return ok("free space", said)


def _size(database: Path) -> int:
    if is_closed(database.parent) or not database.is_file():
        return 0
    return database.stat().st_size
