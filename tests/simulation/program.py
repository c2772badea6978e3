"""The whole daemon as a program that can be started, stopped and killed."""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.app.daemon import Daemon, Environment
from backhaul.errors import Busy, ConfigurationError, PlatformUnavailable
from backhaul.settings import Settings
from backhaul.store.sqlite import restoring
from backhaul.store.sqlite.opening import open_store
from simulation.loop import LIFE, Served, VirtualLoop
from simulation.platform import API_KEY
from simulation.weather import PATIENCE_SECONDS
from simulation.writing import Disk

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    import httpx

    from backhaul.core.clock import Clock
    from backhaul.store import Place, Store
    from backhaul.store.ownership import Member
    from simulation.clock import SimulatedClock

STORE, INSTANCE = "main", "courier"
LAST_LOOK_SECONDS = 60.0
UNLIMITED_PAGES = 1_073_741_823
STOP_SECONDS = 120.0


def settings_of(folder: Path, secret: str) -> Settings:
    """Return the configuration of the simulated daemon."""
    rarely = {"every": "3h"}
    return Settings.model_validate(
        {
            "state_dir": folder / "state",
            # Requests arrive whole: whoever looks for slow ones need not look often.
            "public": {"host": "127.0.0.1", "port": 0, "request_seconds": 600},
            "admin": {"port": 0},
            "stores": {
                STORE: {
                    "base_url": "http://platform",
                    "api_key": API_KEY,
                    "webhook_secrets": [secret],
                }
            },
            "connectors": {
                INSTANCE: {
                    "type": "file_drop",
                    "every": "15s",
                    "path": str(folder / "drop"),
                    "unchanged_seconds": 0,
                    # People set the clock on by a day; no count is stale for that.
                    "counts": {"stale_after": "2d"},
                }
            },
            "jobs": {
                "reconcile_incremental": {"every": "90s"},
                "reconcile_full": {"every": "5m"},
                "audit": {"every": "4m"},
                "prune": rarely,
            },
            "push": {
                "read_seconds": PATIENCE_SECONDS,
                "check_after": ["0s", "15s", f"{LAST_LOOK_SECONDS:.0f}s"],
                "retry_cap": "10s",
            },
        }
    )


@dataclass(slots=True)
class Program:
    """One daemon after the other, on one folder."""

    loop: VirtualLoop
    folder: Path
    settings: Settings
    clock: SimulatedClock
    chance: random.Random
    network: httpx.AsyncBaseTransport
    moment: Callable[[str], bool]
    """Told of each commit before and after it; True when it was the last thing done."""
    nothing_happened: Callable[[], None]
    """Told that there was nothing to commit at the last of them."""
    gave_up: Callable[[], None]
    lives: int = 0
    deaths: list[str] = field(default_factory=list)
    """Of what the daemon died by itself, which it should not."""
    _daemon: Daemon | None = None
    _task: asyncio.Task[None] | None = None
    _disk: Disk = field(default_factory=Disk)
    _lock: sqlite3.Connection | None = None

    @property
    def database(self) -> Path:
        assert isinstance(self.settings.place, Path)
        return self.settings.place

    @property
    def front_door(self) -> Served | None:
        """What the platform's webhooks reach, if anybody is there."""
        if self._daemon is None or not self._daemon.ready.is_set():
            return None
        port = int(self._daemon.public_url.rpartition(":")[2])
        served = self.loop.served.get(str(("127.0.0.1", port)))
        return served if served and served.open else None

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin a new life."""
        self.lives += 1
        self.loop.served.clear()
        self._disk = Disk()
        self._disk.before_commit = lambda: self.moment("before a commit")
        self._disk.after_commit = lambda: self.moment("after a commit")
        self._disk.in_vain = self.nothing_happened
        context = contextvars.copy_context()
        context.run(LIFE.set, self.lives)
        environment = Environment(
            self.clock, self.chance.random, self.network, self._opened
        )
        self._daemon = context.run(Daemon, self.settings, environment)
        self._task = context.run(self.loop.create_task, self._live(self._daemon))

    def _opened(
        self,
        place: Place,
        clock: Clock,
        notify: Callable[[str], None],
        _: Member | None,
    ) -> Store:
        assert isinstance(place, Path)
        return open_store(place, clock, self._disk.writer, notify)

    async def _live(self, daemon: Daemon) -> None:
        try:
            await daemon.run()
        except* (ConfigurationError, PlatformUnavailable):
            # It may end at the first contact, and is started again.
            self.gave_up()
        except* Busy as error:
            # Before it is ready it may end of a database that is locked.
            if daemon.ready.is_set():
                self.deaths.append(f"life {self.lives} died of {error!r}")
            else:
                self.gave_up()
        except* Exception as error:  # noqa: BLE001 - whatever it is, it is told
            self.deaths.append(f"life {self.lives} died of {error!r}")

    def kill(self) -> None:
        """SIGKILL: not one more step is done."""
        self.loop.end(self.lives)
        self._disk.unplug()
        self.unlock()
        self._daemon = self._task = None
        # Its descriptor goes with a process; here only the file can.
        (self.settings.state_dir / "backhaul.lock").unlink(missing_ok=True)

    async def stop(self) -> None:
        """SIGTERM: it has time to end by itself."""
        if self._daemon is None or self._task is None:
            return
        self._daemon.stop()
        await asyncio.wait([self._task], timeout=STOP_SECONDS)
        self.kill()

    def lock(self) -> None:
        """Hold the write lock of the database, as a backup may."""
        if self._lock is None and self.alive:
            self._lock = sqlite3.connect(self.database, isolation_level=None)
            self._lock.execute("PRAGMA busy_timeout=0")
            with suppress(sqlite3.OperationalError):
                self._lock.execute("BEGIN IMMEDIATE")

    def unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def fill(self) -> None:
        """Let the database grow no more."""
        if self._disk.connection is not None:
            (pages,) = self._disk.connection.execute("PRAGMA page_count").fetchone()
            self._disk.connection.execute(f"PRAGMA max_page_count={pages}")

    def make_room(self) -> None:
        if self._disk.connection is not None:
            limit = f"PRAGMA max_page_count={UNLIMITED_PAGES}"
            self._disk.connection.execute(limit)

    def back_up(self, copy: Path) -> None:
        """Copy the database as SQLite's own backup does."""
        copy.unlink(missing_ok=True)
        with (
            closing(sqlite3.connect(self.database)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)

    def restore(self, copy: Path, *, by_hand: bool) -> None:
        """Put a copy in the place of the database, with nobody at work."""
        if not by_hand:
            restoring.restore(copy, self.database, [STORE], self.clock)
            return
        for suffix in ("", "-wal", "-shm"):
            name = self.database.name + suffix
            self.database.with_name(name).unlink(missing_ok=True)
        self.database.write_bytes(copy.read_bytes())
