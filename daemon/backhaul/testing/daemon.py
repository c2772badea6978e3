"""The daemon on a temporary database, as the receiver of a reference store."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from backhaul.control import SOCKET_NAME, Control
from backhaul.core.envelope import TOPICS
from backhaul.demo.books import read_progress
from backhaul.errors import BackhaulError
from backhaul.testing.mirrors import Mirror
from backhaul.testing.programs import Program, ProgramError, await_true
from backhaul.testing.signatures import signed_headers

if TYPE_CHECKING:
    from backhaul.testing.reference import ReferenceStore

MODULE = "backhaul"
STORE = "main"
NOT_YET = "http://127.0.0.1:9/hook"
ASK_SECONDS = 10.0


class DaemonUnderTest:
    """`backhaul run`, subscribed to every topic of a store.

    `settings` is TOML that is added to the configuration, connectors above all.
    """

    def __init__(self, store: ReferenceStore, settings: str = "") -> None:
        self.store = store
        # Short, as the path of a socket has to be.
        self.folder = Path(tempfile.mkdtemp(prefix="bh-", dir="/tmp"))
        self._control = Control(self.folder / "state")
        self._program: Program | None = None
        try:
            self._subscribe(settings)
        except BaseException:
            self.close()
            raise

    def _subscribe(self, settings: str) -> None:
        """Start it with a secret of the store's, then say where it listens."""
        wanted = {"address": NOT_YET, "topics": list(TOPICS)}
        hook = self.store.control("POST", "/webhooks", wanted)
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
        """The database, to be looked at while the daemon runs."""
        return Mirror(self.folder / "state" / "backhaul.db")

    @property
    def public_url(self) -> str:
        """Where webhooks and connectors' requests go."""
        return str(self.status()["public_url"])

    def start(self) -> None:
        """Start it, or start it again on the same database."""
        log = self.folder / "daemon.log"
        self._program = Program(MODULE, ["run", "--config", self.config], log)
        self._program.await_start(self._ready)

    def stop(self) -> None:
        """Ask it to end, as systemd does."""
        if self._program is not None:
            self._program.stop()

    def kill(self) -> None:
        """SIGKILL."""
        if self._program is not None:
            self._program.kill()
        # It had no chance to: nobody answers there any more.
        (self.folder / "state" / SOCKET_NAME).unlink(missing_ok=True)

    def close(self) -> None:
        """End it and remove all it wrote."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def status(self) -> dict[str, Any]:
        """Return what the daemon says of itself."""
        found: dict[str, Any] = self._control.get("/api/status")
        return found

    def deliver(self, body: bytes | dict[str, Any], topic: str = "") -> int:
        """Send a delivery signed as the platform would; returns the status."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = signed_headers(raw, self.webhook_secret, topic)
        url = f"{self.public_url}/webhooks/{STORE}"
        with httpx.Client(timeout=ASK_SECONDS, trust_env=False) as client:
            return client.post(url, content=raw, headers=headers).status_code

    def settled(self, seconds: float = 30.0) -> Mirror:
        """Wait until nothing is on its way in either direction; return the mirror.

        Quiet is: every webhook delivered, every event folded, no object to be read
        again, no record waiting for its order, no command that is neither settled nor
        parked, twice in a row.
        Raises ProgramError that says what still moves.
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
            raise ProgramError(f"not quiet after {seconds} s: {moving}") from None
        return self.mirror

    def _moving(self) -> tuple[int, dict[str, int]]:
        """Return the newest event, and how much is still to do, by what it is.

        In the order in which work moves on, or it could slip past a look.
        """
        progress = read_progress(self.mirror.path)
        deliveries = self.store.control("GET", "/state")["deliveries"]
        return progress.newest_event, {
            "webhooks to deliver": deliveries["PENDING"],
            "events to fold": progress.to_fold,
            "objects to read again": progress.in_doubt,
            "records waiting": progress.waiting_records,
            "open commands": progress.open_commands,
        }

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
