"""The daemon under test, its mirror, signed deliveries and replays."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from msgspec import Struct

from backhaul.app.control_socket import SOCKET_NAME, Control
from backhaul.core import webhook
from backhaul.core.clock import SystemClock, normalize
from backhaul.core.webhook import TOPICS
from backhaul.demo.daemon_rows import read_progress
from backhaul.errors import BackhaulError
from backhaul.ingest.topics import fold_for
from backhaul.store import database_at
from backhaul.testing.reference_server import Program, ProgramError, await_true
from backhaul.traffic import capture_files
from backhaul.traffic.capture_files import NetworkFaults

if TYPE_CHECKING:
    from os import PathLike

    from backhaul.store.mirror import Difference
    from backhaul.testing.reference_server import ReferenceStore


class Mirror(Struct, frozen=True):
    """The database of a replay or of a running daemon."""

    path: Path

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """Return the rows of a read-only query, as dicts by column name."""
        with database_at(self.path).connection() as connection:
            return [dict(row) for row in connection.execute(sql, values)]

    def order(self, number: int) -> dict[str, Any]:
        """Return the order with this number. Raises KeyError."""
        found = self.rows("SELECT * FROM orders WHERE number = ?", number)
        if len(found) != 1:
            raise KeyError(f"{len(found)} orders have the number {number}")
        return found[0]

    def stock(self, sku: str) -> int:
        """Return the stock of the variant with this SKU. Raises KeyError."""
        found = self.rows("SELECT stock FROM stock WHERE sku = ?", sku)
        if len(found) != 1:
            raise KeyError(f"{len(found)} stock levels have the SKU {sku!r}")
        return int(found[0]["stock"])

    def differences(self, other: Mirror) -> list[Difference]:
        """Return the differences of two mirrors; empty if they are equal."""
        return list(database_at(self.path).differences(other.path))


def sign(body: bytes, secret: str) -> str:
    """Return Base64(HMAC-SHA256(body, secret)), the value of the signature header."""
    return webhook.sign(body, secret.encode()).decode()


def signed_headers(body: bytes, secret: str, topic: str = "") -> dict[str, str]:
    """Return the headers of a delivery; `topic` if the body does not name it."""
    headers = {webhook.HEADER: sign(body, secret), "Content-Type": "application/json"}
    return headers | ({"X-Service-Topic": topic} if topic else {})


MODULE = "backhaul"
STORE = "main"
NOT_YET = "http://127.0.0.1:9/hook"
ASK_SECONDS = 10.0


class DaemonUnderTest:
    """`backhaul run`, subscribed to every topic of a store.

    `settings` is TOML that is added to the configuration, such as connectors.
    """

    def __init__(self, store: ReferenceStore, settings: str = "") -> None:
        self.store = store
        # Short, because the path of a socket has to be.
        self.folder = Path(tempfile.mkdtemp(prefix="bh-", dir="/tmp"))
        self._control = Control(self.folder / "state")
        self._program: Program | None = None
        try:
            self._subscribe(settings)
        except BaseException:
            self.close()
            raise

    def _subscribe(self, settings: str) -> None:
        """Start the daemon with the store's secret, then subscribe its address."""
        subscription = {"address": NOT_YET, "topics": list(TOPICS)}
        hook = self.store.control("POST", "/webhooks", subscription)
        self.webhook_secret = str(hook["secret"])
        self.config.write_text(self._configuration() + settings, encoding="utf-8")
        self.start()
        address = {"address": f"{self.public_url}/webhooks/{STORE}"}
        self.store.v1("PUT", f"/webhooks/{hook['id']}", address)

    @property
    def config(self) -> Path:
        """The configuration file, for `backhaul … --config`."""
        return self.folder / "backhaul.toml"

    @property
    def mirror(self) -> Mirror:
        """The database, readable while the daemon runs."""
        return Mirror(self.folder / "state" / "backhaul.db")

    @property
    def public_url(self) -> str:
        """The URL for webhooks and connectors' requests."""
        return str(self.status()["public_url"])

    def start(self) -> None:
        """Start the daemon, or restart it on the same database."""
        log = self.folder / "daemon.log"
        self._program = Program(MODULE, ["run", "--config", self.config], log)
        self._program.await_start(self._ready)

    def stop(self) -> None:
        """Stop the daemon with SIGTERM, as systemd does."""
        if self._program is not None:
            self._program.stop()

    def kill(self) -> None:
        """Kill the daemon with SIGKILL."""
        if self._program is not None:
            self._program.kill()
        # The killed daemon could not remove its socket.
        (self.folder / "state" / SOCKET_NAME).unlink(missing_ok=True)

    def close(self) -> None:
        """Stop the daemon and remove its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def status(self) -> dict[str, Any]:
        """Return the daemon's status."""
        found: dict[str, Any] = self._control.get("/api/status")
        return found

    def deliver(self, body: bytes | dict[str, Any], topic: str = "") -> int:
        """Send a delivery, signed like the platform's, and return the status code."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = signed_headers(raw, self.webhook_secret, topic)
        url = f"{self.public_url}/webhooks/{STORE}"
        with httpx.Client(timeout=ASK_SECONDS, trust_env=False) as client:
            return client.post(url, content=raw, headers=headers).status_code

    def wait_until_idle(self, seconds: float = 30.0) -> Mirror:
        """Wait until all work in both directions is done; return the mirror.

        Work is done when two checks in a row find the backfill ended, every webhook
        delivered, every event folded, no object to refetch, no record waiting for its
        order, and no open command. Raises ProgramError that names the work left.
        """
        before: object = None

        def quiet() -> bool:
            nonlocal before
            now = self._moving()
            still, before = now == before and not any(now[1].values()), now
            return still

        try:
            await_true(quiet, seconds)
        except TimeoutError:
            moving = {name: n for name, n in self._moving()[1].items() if n}
            raise ProgramError(f"not done after {seconds} s: {moving}") from None
        return self.mirror

    def _moving(self) -> tuple[int, dict[str, int]]:
        """Return the newest event and how much work is left, by kind.

        The order is that of the work, or it could move past a check.
        """
        progress = read_progress(self.mirror.path)
        deliveries = self.store.control("GET", "/state")["deliveries"]
        return progress.newest_event, {
            "backfill": self._backfills() - progress.backfills,
            "webhooks to deliver": deliveries["PENDING"],
            "events to fold": progress.to_fold,
            "objects to refetch": progress.in_doubt,
            "records waiting": progress.waiting_records,
            "open commands": progress.open_commands,
        }

    def _backfills(self) -> int:
        """Return how many stores the daemon backfills when it starts."""
        settings = tomllib.loads(self.config.read_text(encoding="utf-8"))
        return int(settings.get("reconcile", {}).get("backfill_on_start", True))

    def _ready(self) -> bool:
        try:
            self._control.get("/readyz")
        except BackhaulError:
            return False
        return True

    def _configuration(self) -> str:
        return f"""\
state_dir = "{self.folder}/state"
[public]
host = "127.0.0.1"
port = 0
[admin]
port = 0
[push]
retry_base = "50ms"
[stores.{STORE}]
base_url = "{self.store.server.url}"
api_key = "{self.store.api_key}"
webhook_secrets = ["{self.webhook_secret}"]
"""


class Replays:
    """Creates a mirror for each replay, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    def __call__(
        self,
        capture: str | PathLike[str],
        *,
        shuffle: int | None = None,
        duplicate: float = 0.0,
        drop: float = 0.0,
        until: str | None = None,
    ) -> Mirror:
        """Fold the capture into a new mirror and return the mirror.

        `until` is any RFC 3339 time; without a zone it is UTC. Raises ValueError if it
        is not a time, and Unusable, with file and line, if the file is not a capture.
        """
        head = capture_files.read_head(Path(capture))
        end = None if until is None else normalize(until)
        disorder = NetworkFaults(shuffle, duplicate, drop, end)
        run = disorder.apply(capture_files.read(Path(capture)))
        path = self._folder / f"replay-{next(self._numbers)}.db"
        folding = capture_files.replay_into(
            path, run, head.stores, fold_for(head.stores), SystemClock()
        )
        # In a thread: the test itself may run in an event loop.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, folding).result()
        return Mirror(path)
