"""A database from outside of the daemon: reads, checks, backup and restore."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from backhaul.errors import AlreadyRunning, ConfigurationError, Finding, why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store import Place, Store
    from backhaul.store.export_and_query import InboxExport, SqlConsole
    from backhaul.store.mirror import Difference
    from backhaul.store.operations import OrphanedWork
    from backhaul.store.ownership import KnownMember
    from backhaul.store.read_models import Reader
    from backhaul.store.sql.family import Connection


class StoredWebhook(Struct, frozen=True):
    """A webhook in the inbox; `is_test`: its topic or its body shows a test."""

    event: int
    topic: str
    is_test: bool


class Manifest(Struct, frozen=True):
    """What is in a backup; it lies in a file beside the backup.

    `rows` has the number of rows of each table, `bytes` and `sha256` are the file's.
    `schema_version` is the name of the newest migration.
    """

    created_at: str
    schema_version: str
    bytes: int
    sha256: str
    rows: dict[str, int]


MANIFEST_SUFFIX = ".manifest.json"


def manifest_of(backup: Path) -> Path:
    """Return the file of a backup's manifest."""
    return backup.with_name(backup.name + MANIFEST_SUFFIX)


class Restored(Struct, frozen=True):
    """The rows of a restored backup, and the files that it replaced.

    `aside` is the previous database, None if there was none. `moved` has the files
    beside it as well. `returned` are the decisions since the backup that the restore
    has undone, each with the command that repeats it; None if there was no previous
    database, or it cannot be read. `undid` means that an earlier, interrupted restore
    was undone.
    """

    rows: dict[str, int]
    newest_event_at: str | None
    moved: tuple[Path, ...] = ()
    aside: Path | None = None
    returned: tuple[str, ...] | None = None
    undid: bool = False


class Database(Protocol):
    """A database that a daemon may be writing meanwhile.

    What `with` opens only reads. It raises CorruptData where the database is damaged,
    and BackhaulError where there is no database, its schema is too old, or it cannot be
    read now.
    """

    def exists(self) -> bool:
        """Return whether there is a database with tables."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the bytes of `database`, and of its `log` where the engine has one."""
        ...

    def reader(self) -> AbstractContextManager[Reader]:
        """Open the lists, timelines and figures for people."""
        ...

    def console(self, clock: Clock) -> AbstractContextManager[SqlConsole]:
        """Open the database for an operator's SQL."""
        ...

    def inbox_export(self) -> AbstractContextManager[InboxExport]:
        """Open the inbox, to read the events as they arrived."""
        ...

    def readable(self) -> AbstractContextManager[Store]:
        """Open a store for its methods that only read; they raise ReadFailed."""
        ...

    def connection(self) -> AbstractContextManager[Connection]:
        """Open a connection for statements on the tables of docs/mirror.md.

        The rows have names. It only checks that the database is there when a statement
        runs. A statement that fails raises what `with` raises.
        """
        ...

    def engine_version(self) -> str:
        """Return the engine's name and version, such as `SQLite 3.45.1`."""
        ...

    def differences(self, other: Place) -> Iterator[Difference]:
        """Yield every difference to another mirror, table by table."""
        ...

    def problem(self) -> str:
        """Return why the files must not be opened as they are, or an empty text.

        A restore may have been interrupted, or a log of another database is beside it.
        The text has the problem, a semicolon, and the fix.
        """
        ...

    def journal_mode(self) -> str:
        """Return how the engine logs changes: `wal`, or what the file was left in."""
        ...

    def pending_migrations(self) -> list[str]:
        """Return the migrations that the schema lacks, without running them.

        Raises CorruptData if a newer version made the database.
        """
        ...

    def hold_for_audit(self, stores: Iterable[str], clock: Clock) -> None:
        """Treat a server's database as restored: the daemon sends nothing at first.

        Raises AlreadyRunning if a daemon uses it, and BackhaulError for a file, which
        `restore` replaces.
        """
        ...

    def finish_upgrade(self) -> str:
        """Apply the migrations that a server's database lacks.

        Returns why one of them waits for a daemon of an older version, or an empty
        text. A file is upgraded by whoever opens its store. Raises BackhaulError.
        """
        ...

    def faults(self, *, deep: bool = False) -> list[str]:
        """Return what is damaged; empty if nothing was found.

        Reads the structure of every page. Only `deep` also compares each index with its
        table, which takes several times as long.
        """
        ...

    def members(self) -> list[KnownMember]:
        """Return the daemons of a server's database, the owner first; none of a file.

        Raises BackhaulError if the database cannot be read.
        """
        ...

    def durability(self, *, quorum: bool) -> tuple[Finding, ...]:
        """Return why confirmed rows may be lost; empty if nothing was found.

        With `quorum` they have to survive the loss of the server, not only its crash.
        """
        ...

    def archiving(self) -> tuple[list[str], list[Finding]]:
        """Return what is well with a server's archive of its log, and what is not.

        Both are empty for a file. Raises BackhaulError.
        """
        ...

    def schema(self) -> list[str]:
        """Return the statements that made the tables, indexes and views."""
        ...

    def row_counts(self) -> dict[str, int]:
        """Return how many rows each table has."""
        ...

    def applied_kinds(self, store: str) -> set[str]:
        """Return the kinds of commands that the platform has ever carried out."""
        ...

    def last_event(self) -> int:
        """Return the id of the newest event, 0 if there is none."""
        ...

    def find_test_webhook(
        self, after: int, store: str, names: Sequence[str]
    ) -> StoredWebhook | None:
        """Return the test webhook that arrived after an event, or else any webhook.

        A webhook may have no topic: then one of `names` identifies it, the ids that the
        platform gave it.
        """
        ...

    def orphaned_work(self, stores: Iterable[str]) -> tuple[OrphanedWork, ...]:
        """Return the open work of stores that are not among these.

        Empty if the database is not there or cannot be read.
        """
        ...

    def back_up(
        self, target: Path, clock: Clock, ended: Callable[[], bool] = ...
    ) -> Manifest:
        """Copy the database to a file, check the copy, and write its manifest.

        The copy is whole and durable, or it is not there. Raises CorruptData, and
        BackhaulError if a file cannot be read or written, or `ended` returns True.
        """
        ...

    def restore(self, backup: Path, stores: Iterable[str], clock: Clock) -> Restored:
        """Replace the database with a backup. Hold `sole_writer` meanwhile.

        The backup is checked, and brought to this version's schema, before any file is
        changed. Then the database is checked in its place; if that fails, the database
        from before is put back. Raises CorruptData, BackhaulError.
        """
        ...


OWNER_ONLY = 0o700
_NOT_OF_THE_SETTING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM})
"""A full disk and a missing right: another setting does not help."""


@contextmanager
def setting_errors(setting: str) -> Iterator[None]:
    """Report a folder that cannot be used as a ConfigurationError of its setting."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_OF_THE_SETTING:
            raise
        reason = why(error)
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "it is not a folder, or a part of its path is not"
        problem = f"cannot be used: {reason}"
        hint = "correct it, or name a folder that the daemon can write to"
        finding = Finding(str(error.filename), setting, problem, hint)
        raise ConfigurationError([finding]) from None


@contextmanager
def sole_writer(state_dir: Path) -> Iterator[None]:
    """Hold the lock of the state directory. Raises AlreadyRunning, ConfigurationError.

    The lock has a file of its own: closing a second handle on the database file would
    drop SQLite's locks on it.
    """
    with setting_errors("state_dir"):
        state_dir.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
        lock = os.open(state_dir / "backhaul.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise AlreadyRunning(
                f"{state_dir}: another Backhaul process ({holder}) uses this"
                " folder; stop that process, or set another state_dir"
            ) from None
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)
