"""Three PostgreSQL servers: a primary, and two replicas of it.

A commit waits until one of the replicas has it on disk (`ANY 1`). Clients reach the
primary by one URL with all three hosts and `target_session_attrs=read-write`: the
driver tries them in order, and its timeouts and the kernel's end at the server itself.
A load balancer has one address to configure, but it keeps the client's side open when
the server behind it vanishes, and it must know the primary. A test of a load balancer
puts a `tcp_relay` before the primary, and sets its `upstream` after a promotion.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
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

    import psycopg

NAMES = ("a", "b", "c")
CONFIGURATION = """
shared_buffers = 16MB
unix_socket_directories = ''
# In the folder of the data, so that a killed server leaves none behind.
dynamic_shared_memory_type = mmap
# A replica finds its primary again at once, and what it missed is still there.
wal_retrieve_retry_interval = 100ms
wal_keep_size = 512MB
include '../node.conf'
"""
COMMIT_ALONE = b"Q\x00\x00\x00\x0bCOMMIT\x00"
END_OF_COPY = b"c\x00\x00\x00\x04"
"""Messages of the protocol, which libpq sends each on its own: a query that is only
COMMIT, and the end of the rows of a COPY."""
MEMORY = Path("/dev/shm")
ROOM_BYTES = 2_000_000_000
SMALL_SEGMENTS = ("--wal-segsize", "1")
_STREAMS = """
    SELECT pid FROM pg_stat_replication
    WHERE application_name = %s AND state = 'streaming'
"""
_RECEIVED = """
    SELECT coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'
"""
_BUSY = """
    SELECT pid FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND state != 'idle'
        AND pid != pg_backend_pid()
"""
_WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
_SLOT = """
    SELECT pg_create_physical_replication_slot(%(name)s) WHERE NOT EXISTS (
        SELECT 1 FROM pg_replication_slots WHERE slot_name = %(name)s)
"""


@dataclass(slots=True)
class Nodes:
    """The servers by name; `primary` is the one that accepts writes."""

    servers: dict[str, Postgres]
    primary: Postgres
    synchronous: bool = True
    _stalled: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Return a URL that leads to the primary, whichever server it is."""
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.servers.values())
        wanted = "target_session_attrs=read-write"
        return f"postgresql://{USER}:{PASSWORD}@{hosts}/postgres?{wanted}"

    @property
    def standbys(self) -> list[Postgres]:
        """Return the running servers that are not the primary."""
        others = (each for each in self.servers.values() if each is not self.primary)
        return [each for each in others if each.runs]

    def connect(self) -> psycopg.Connection:
        return self.primary.connect("public")

    def start(self) -> None:
        """Create the three servers, and wait until both replicas copy the primary."""
        initialize(self.primary, *SMALL_SEGMENTS)
        with (self.primary.data / "postgresql.conf").open("a") as configuration:
            configuration.write(CONFIGURATION)
        self._configure(self.primary)
        self.primary.start()
        self._make_slots()
        others = [each for each in self.servers.values() if each is not self.primary]
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.clone, others))

    def kill_primary(self) -> Postgres:
        """Kill the primary with all its processes; return it."""
        self.primary.kill()
        self._stalled.clear()
        return self.primary

    def most_advanced(self) -> Postgres:
        """Return the replica that has received the most."""
        return max(self.standbys, key=lambda each: self._value(each, _RECEIVED))

    def promote(self, chosen: Postgres | None = None) -> Postgres:
        """Make a replica the primary, by default the one that has received the most.

        The other replica follows it, unless it is ahead: then it has to `rejoin`.
        """
        self.primary = chosen or self.most_advanced()
        self._value(self.primary, "SELECT pg_promote(true, 300)")
        self._make_slots()
        for each in self.standbys:
            self._configure(each)
            each.reload()
        return self.primary

    def rejoin(self, server: Postgres) -> None:
        """Make the former primary a replica; undo what the new one does not have."""
        with self.connect() as connection:
            connection.execute("CHECKPOINT")  # pg_rewind reads the timeline from it
        source = f"--source-server={self._source('postgres')}"
        run_as_server(
            [BINARIES / "pg_rewind", "-D", server.data, source, "--no-sync"],
            PGPASSWORD=PASSWORD,
        )
        self._start_standby(server)

    def clone(self, server: Postgres) -> None:
        """Make a server a replica by copying the whole primary."""
        server.kill()
        shutil.rmtree(server.data, ignore_errors=True)
        source = self._source("replication")
        run_as_server(
            [
                *(BINARIES / "pg_basebackup", "-D", server.data, "-d", source),
                *("-X", "stream", "--checkpoint=fast", "--no-sync"),
            ],
            PGPASSWORD=PASSWORD,
        )
        self._start_standby(server)

    def back(self, server: Postgres) -> None:
        """Start a replica that `stop` or `kill` ended."""
        self._start_standby(server)

    def stall(self, server: Postgres) -> None:
        """Stop the primary's process that sends to a standby.

        A receiver that is stopped loses nothing: the kernel has what was sent, and
        delivers it later. Only what the sender keeps dies with the primary.
        """
        sender = self._value(self.primary, _STREAMS, self._name(server))
        os.kill(sender, signal.SIGSTOP)
        self._stalled[self._name(server)] = sender

    def resume(self, server: Postgres) -> None:
        os.kill(self._stalled.pop(self._name(server)), signal.SIGCONT)

    def are_busy(self) -> bool:
        """Return True if a client of the primary is in a transaction, or waits."""
        return self._value(self.primary, _BUSY) is not None

    def commits_wait(self) -> bool:
        """Return True if a commit waits for a standby."""
        return self._value(self.primary, _WAITING) is not None

    def close(self) -> None:
        for server in self.servers.values():
            server.kill()
            _free_shared_memory(server)

    def _start_standby(self, server: Postgres) -> None:
        self._configure(server)
        (server.data / "standby.signal").touch()
        server.start()
        name = self._name(server)

        def replicates() -> bool:
            return self._value(self.primary, _STREAMS, name) is not None

        await_true(replicates, f"{name} replicates")

    def _configure(self, server: Postgres) -> None:
        """Write the settings in which a server differs from the others."""
        name = self._name(server)
        others = ", ".join(each for each in NAMES if each != name)
        quorum = f"ANY 1 ({others})" if self.synchronous else ""
        source = f"{self._source('postgres')} application_name={name}"
        is_primary = server is self.primary
        (server.folder / "node.conf").write_text(
            f"synchronous_standby_names = '{quorum}'\n"
            f"primary_conninfo = '{'' if is_primary else source}'\n"
            f"primary_slot_name = '{'' if is_primary else name}'\n"
        )

    def _source(self, database: str) -> str:
        place = f"host=127.0.0.1 port={self.primary.port} dbname={database}"
        return f"{place} user={USER} password={PASSWORD}"

    def _make_slots(self) -> None:
        with self.connect() as connection:
            for name in NAMES:
                if self.servers[name] is not self.primary:
                    connection.execute(_SLOT, {"name": name})

    def _name(self, server: Postgres) -> str:
        return next(name for name, each in self.servers.items() if each is server)

    def _value(self, server: Postgres, query: str, *values: str) -> Any:
        with server.connect("public") as connection:
            row = connection.execute(query.encode(), values).fetchone()
            return row and row[0]


@contextmanager
def postgres_nodes(
    *, synchronous: bool = True, folder: Path | None = None
) -> Iterator[Nodes]:
    """Run three servers; without `synchronous` no commit waits for a standby.

    Their files are in memory, or in a new folder below the given one.
    """
    folder = Path(tempfile.mkdtemp(prefix="postgres-nodes-", dir=folder or _scratch()))
    folder.chmod(0o755)
    servers = {name: _server(folder / name) for name in NAMES}
    nodes = Nodes(servers, servers[NAMES[0]], synchronous)
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.close()
        shutil.rmtree(folder)


def _scratch() -> Path | None:
    """Return a folder in memory if it has room; no test needs a real disk."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    return MEMORY if has_room else None


def _server(folder: Path) -> Postgres:
    folder.mkdir()
    if (user := server_user()) is not None:
        os.chown(folder, user, -1)
    return Postgres(folder, free_port(), settings=())


def _free_shared_memory(server: Postgres) -> None:
    """Remove the shared memory of a killed server that is not started again."""
    lock = server.data / "postmaster.pid"
    if lock.exists() and len(words := lock.read_text().split()) > 1:
        subprocess.run(["ipcrm", "-m", words[-2]], check=False, capture_output=True)
