"""The database file from outside of the daemon; heavy modules are imported on use."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import SystemClock, to_text
from backhaul.errors import BackhaulError
from backhaul.store import database_at
from backhaul.store.database import Database, StoredWebhook
from backhaul.store.sql.read_models import database_reads
from backhaul.store.sqlite import (
    connections,
    file_backup,
    file_replacement,
    moved_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.errors import Finding
    from backhaul.store import Place, Store
    from backhaul.store.database import Manifest, Restored
    from backhaul.store.export_and_query import InboxExport, SqlConsole
    from backhaul.store.mirror import Difference
    from backhaul.store.operations import OrphanedWork
    from backhaul.store.ownership import KnownMember
    from backhaul.store.read_models import Reader
    from backhaul.store.sql.family import Connection

_SCHEMA = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name"


class SqliteDatabase(Database):
    """One file; the daemon's log may lie beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        from backhaul.store.sql.read_models.reader import SqlReader
        from backhaul.store.sqlite import full_text

        with self._beside() as connection:
            connection.text_factory = _readable
            now = to_text(SystemClock().now())
            yield SqlReader(connection, full_text.find, now)

    @contextmanager
    def console(self, clock: Clock) -> Iterator[SqlConsole]:
        from backhaul.store.sqlite.sql_console import SqliteConsole

        with self._beside() as connection:
            connection.text_factory = _readable
            yield SqliteConsole(connection, clock)

    @contextmanager
    def inbox_export(self) -> Iterator[InboxExport]:
        from backhaul.store.sql.inbox.export import SqlInboxExport

        with self._beside() as connection:
            yield SqlInboxExport(connection)

    def exists(self) -> bool:
        return self._path.exists()

    def sizes(self) -> dict[str, int]:
        log = self._path.with_name(f"{self._path.name}-wal")
        size = log.stat().st_size if log.exists() else 0
        return {"database": self._path.stat().st_size, "log": size}

    @contextmanager
    def readable(self) -> Iterator[Store]:
        from backhaul.store.sqlite.database import open_readable

        with open_readable(self._path) as store:
            yield store

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        with (
            self._looking(),
            closing(connections.open_reader(self._path)) as connection,
        ):
            yield connection

    def engine_version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def differences(self, other: Place) -> Iterator[Difference]:
        from backhaul.store.sql.mirror.compare_mirrors import differences

        with self.connection() as left, database_at(other).connection() as right:
            yield from differences(left, right)

    def problem(self) -> str:
        from backhaul.store.sqlite import opening

        path = file_replacement.real_path(self._path)
        if moved := moved_files.why_absent(path):
            return f"{path}: {moved.problem}; {moved.hint}"
        if file_replacement.is_interrupted(path):
            return (
                f"a restore into {path} is running or was interrupted; run backhaul"
                " restore FILE again, or start the daemon to undo the restore"
            )
        return opening.log_problem(path)

    def journal_mode(self) -> str:
        ((mode,),) = self._rows("PRAGMA journal_mode")
        return str(mode)

    def pending_migrations(self) -> list[str]:
        from backhaul.store.sqlite import opening

        return opening.pending(self._path)

    def hold_for_audit(self, stores: Iterable[str], clock: Clock) -> None:
        raise BackhaulError(
            f"{self._path}: this database is a SQLite file, and --fence is for"
            " PostgreSQL. To replace the file with a backup, use: backhaul restore"
            " FILE"
        )

    def finish_upgrade(self) -> str:
        return ""

    def faults(self, *, deep: bool = False) -> list[str]:
        check = "PRAGMA integrity_check" if deep else "PRAGMA quick_check"
        try:
            with file_backup.open_read_only(self._path) as connection:
                rows = connection.execute(check).fetchmany(file_backup.FINDINGS_SHOWN)
        except sqlite3.DatabaseError as error:
            return [str(error)]
        return [str(row[0]).strip() for row in rows if row[0] != "ok"]

    def members(self) -> list[KnownMember]:
        return []

    def durability(self, *, quorum: bool) -> tuple[Finding, ...]:
        return ()  # the daemon's own connection sets what a commit waits for

    def archiving(self) -> tuple[list[str], list[Finding]]:
        return [], []

    def schema(self) -> list[str]:
        return [str(row[0]) for row in self._rows(_SCHEMA)]

    def row_counts(self) -> dict[str, int]:
        with self._looking():
            return file_backup.row_counts(self._path)

    def applied_kinds(self, store: str) -> set[str]:
        with self._looking(), file_backup.open_read_only(self._path) as connection:
            return database_reads.applied_kinds(connection, store)

    def last_event(self) -> int:
        with self._looking(), file_backup.open_read_only(self._path) as connection:
            return database_reads.last_event(connection)

    def find_test_webhook(
        self, after: int, store: str, names: Sequence[str]
    ) -> StoredWebhook | None:
        with self._looking(), file_backup.open_read_only(self._path) as connection:
            found = database_reads.find_test_webhook(connection, after, store, names)
        return None if found is None else StoredWebhook(*found)

    def orphaned_work(self, stores: Iterable[str]) -> tuple[OrphanedWork, ...]:
        from backhaul.store.sql.operations.alerts import of_other_stores

        try:
            if not self._path.is_file():
                return ()
            with file_backup.open_read_only(self._path) as connection:
                return of_other_stores(connection, stores)
        except (OSError, sqlite3.Error):
            return ()

    def back_up(
        self, target: Path, clock: Clock, ended: Callable[[], bool] = file_backup.never
    ) -> Manifest:
        from backhaul.store.sqlite import backup_manifest

        return backup_manifest.back_up(self._path, target, clock, ended)

    def restore(self, backup: Path, stores: Iterable[str], clock: Clock) -> Restored:
        from backhaul.store.sqlite import restoring

        return restoring.restore(backup, self._path, stores, clock)

    @contextmanager
    def _beside(self) -> Iterator[sqlite3.Connection]:
        """Open the file beside a daemon; name the migrations that a query needs."""
        moved_files.require_here(self._path)
        with closing(file_backup.open_beside(self._path)) as connection:
            try:
                yield connection
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
                    self._require_schema()
                    raise  # a bug in a statement
                raise file_backup.unread(self._path, error) from error

    def _require_schema(self) -> None:
        if ahead := self.pending_migrations():
            raise BackhaulError(
                f"{self._path}: the schema of this database is {len(ahead)} steps"
                " behind this version of Backhaul (backhaul migrate --plan lists"
                " the steps). To upgrade the schema, run backhaul migrate while no"
                " daemon runs, or restart the daemon"
            ) from None

    def _rows(
        self, query: str, values: dict[str, object] | tuple[()] = ()
    ) -> list[tuple[Any, ...]]:
        with self._looking(), file_backup.open_read_only(self._path) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _looking(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise file_backup.unread(self._path, error) from None


def _readable(text: bytes) -> str:
    """Return plain text, which JSON can hold, also where the text is damaged."""
    return text.decode(errors="replace")
