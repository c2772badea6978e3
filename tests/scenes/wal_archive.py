"""A PostgreSQL server that archives its WAL, for point-in-time recovery."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenes.ports import free_port
from scenes.postgres import (
    BINARIES,
    PASSWORD,
    USER,
    Postgres,
    initialize,
    run_as_server,
    server_user,
)
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = """
fsync = off
shared_buffers = 32MB
unix_socket_directories = ''
archive_mode = on
archive_command = 'cp %p {archive}/%f.part && mv {archive}/%f.part {archive}/%f'
"""
RECOVERY = """
restore_command = 'cp {archive}/%f %p'
recovery_target_time = '{moment}'
recovery_target_action = 'promote'
"""


@dataclass(slots=True)
class ArchivedServer:
    """The server; `archive` holds its WAL, and `backup` a copy of its data."""

    server: Postgres
    archive: Path
    backup: Path

    @property
    def url(self) -> str:
        return self.server.url("public").replace(f"{USER}@", f"{USER}:{PASSWORD}@")

    def back_up(self) -> None:
        """Copy the data of the running server, as a base backup."""
        place = f"host=127.0.0.1 port={self.server.port} user={USER}"
        run_as_server(
            [
                *(BINARIES / "pg_basebackup", "-D", self.backup, "-d", place),
                *("-X", "none", "--checkpoint=fast", "--no-sync"),
            ],
            PGPASSWORD=PASSWORD,
        )

    def now(self) -> str:
        """Return the server's time, for a later point-in-time recovery."""
        return str(self._value("SELECT clock_timestamp()"))

    def archive_all(self) -> None:
        """Wait until all WAL so far is in the archive."""
        last = self._value("SELECT pg_walfile_name(pg_switch_wal())")
        await_true((self.archive / last).exists, f"{last} is archived")

    def restore(self, moment: str) -> None:
        """Restore the data as of a time after the backup."""
        self.server.stop()
        shutil.rmtree(self.server.data)
        self.backup.rename(self.server.data)
        text = RECOVERY.format(archive=self.archive, moment=moment)
        with (self.server.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(text)
        (self.server.data / "recovery.signal").touch()
        self.server.start()
        await_true(
            lambda: not self._value("SELECT pg_is_in_recovery()"), "it is promoted"
        )

    def _value(self, query: str) -> Any:
        with self.server.connect("public") as connection:
            row = connection.execute(query.encode()).fetchone()
            return row and row[0]


@contextmanager
def archived_server() -> Iterator[ArchivedServer]:
    folder = Path(tempfile.mkdtemp(prefix="wal-archive-"))
    folder.chmod(0o755)
    server = ArchivedServer(
        Postgres(folder / "server", free_port(), settings=()),
        folder / "archive",
        folder / "backup",
    )
    for each in (server.server.folder, server.archive):
        each.mkdir()
    if (user := server_user()) is not None:
        for each in (folder, server.server.folder, server.archive):
            os.chown(each, user, -1)
    initialize(server.server, "--wal-segsize", "1")
    with (server.server.data / "postgresql.conf").open("a") as settings:
        settings.write(SETTINGS.format(archive=server.archive))
    server.server.start()
    try:
        yield server
    finally:
        server.server.stop()
        shutil.rmtree(folder)
