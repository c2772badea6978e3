"""Runs the reference server in its own process, and sends requests to it."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scenes import leftovers, tracking_tokens
from scenes.loop_guard import on_purpose
from scenes.recorded_exchanges import EXCHANGE_FILES, VARIABLE
from scenes.waiting import HANG_SECONDS

TESTS = Path(__file__).parents[1]

START_SECONDS = HANG_SECONDS
STOP_SECONDS = HANG_SECONDS
FAST_RETRIES = "0,0.2,0.2,0.5,1,2,5,5,5,5"


class ReferenceFailedError(Exception):
    """The server did not start; the message is its output."""


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """One store of the server."""

    subdomain: str
    id: str
    api_key: str


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def data(self) -> Any:
        return self.json()["data"]


@dataclass(slots=True)
class ReferenceProcess:
    """A running reference server; `restart` keeps its data and its ports."""

    data_dir: Path
    arguments: Sequence[str]
    process: subprocess.Popen[str] = field(init=False)
    access: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._start(self.arguments)

    @property
    def public_url(self) -> str:
        return str(self.access["public_url"])

    @property
    def control_url(self) -> str:
        return str(self.access["control_url"])

    @property
    def control_token(self) -> str:
        return str(self.access["control_token"])

    @property
    def log(self) -> Path:
        return self.data_dir / "reference.log"

    def store(self, subdomain: str = "demo") -> StoreAccess:
        found = next(s for s in self.access["stores"] if s["subdomain"] == subdomain)
        return StoreAccess(**found)

    def state(self, subdomain: str = "demo") -> dict[str, Any]:
        answer = self.control("GET", f"/stores/{subdomain}/state")
        document: dict[str, Any] = answer.json()
        return document

    def control(self, method: str, path: str, body: Any = None) -> HttpAnswer:
        """Send a request to the control API; `path` begins after `/_control`."""
        headers = {"Authorization": f"Bearer {self.control_token}"}
        return ask(method, f"{self.control_url}/_control{path}", headers, body)

    def v1(self, method: str, path: str, body: Any = None) -> HttpAnswer:
        """Send a request to the keyed API; `path` begins after `/api/v1`."""
        headers = {"Authorization": f"Bearer {self.store().api_key}"}
        return ask(method, f"{self.public_url}/api/v1{path}", headers, body)

    def storefront(self, method: str, path: str, body: Any = None) -> HttpAnswer:
        """Send a request as a shopper; `path` begins after `/storefront`."""
        headers = {"x-subdomain": "demo"}
        return ask(method, f"{self.public_url}/storefront{path}", headers, body)

    def kill(self) -> None:
        """Kill the server (SIGKILL)."""
        self.process.kill()
        self._reap()

    def terminate(self) -> int:
        """Stop the server with SIGTERM; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def restart(self) -> None:
        """Start the server again with the same data and ports."""
        if self.process.poll() is None:
            self.terminate()
        ports = [
            self.public_url.rpartition(":")[2],
            self.control_url.rpartition(":")[2],
        ]
        fixed = ["--port", ports[0], "--control-port", ports[1]]
        self._start([*self.arguments, *fixed])

    def _start(self, arguments: Sequence[str]) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "scenes.recorded_reference"]
        command += ["--data", str(self.data_dir), *arguments]
        environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            VARIABLE: str(EXCHANGE_FILES.file()),
        }
        leftovers.keep_log(self.log)
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        self._await_listeners()
        self.access = json.loads((self.data_dir / "access.json").read_text())
        keys = [store["api_key"] for store in self.access["stores"]]
        leftovers.issued(self.control_token, *keys)

    @on_purpose()
    def _await_listeners(self) -> None:
        # Three lines: both listeners are bound and access.json is written.
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(3)]
        if not all(lines):
            code = self._reap()
            raise ReferenceFailedError(f"exit {code}: {self.log.read_text()[-2000:]}")

    @on_purpose()
    def _reap(self) -> int:
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait(STOP_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        tracking_tokens.check_servers(self.data_dir)
        return code


def start_reference(
    data_dir: Path,
    *,
    fixture: str = "demo",
    limits: bool = False,
    retry_schedule: str = FAST_RETRIES,
    port: int = 0,
    control_port: int = 0,
    extra: Sequence[str] = (),
) -> ReferenceProcess:
    """Start a server and wait until it answers; the caller stops it."""
    arguments = ["--fixture", fixture, "--limits", "on" if limits else "off"]
    arguments += ["--retry-schedule", retry_schedule]
    arguments += ["--port", str(port), "--control-port", str(control_port), *extra]
    return ReferenceProcess(data_dir, arguments)


@contextmanager
def reference(data_dir: Path, **options: Any) -> Iterator[ReferenceProcess]:
    """Run a server within the block."""
    running = start_reference(data_dir, **options)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.terminate()


def ask(
    method: str, url: str, headers: Mapping[str, str], body: Any = None
) -> HttpAnswer:
    """Send one request; return the response, also with an error status."""
    content = None if body is None else json.dumps(body).encode()
    sent = {**headers, "Content-Type": "application/json"}
    request = urllib.request.Request(url, content, sent, method=method)  # noqa: S310  - loopback http of our own server
    try:
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as response:  # noqa: S310  - as above
            content = response.read()
            leftovers.issued_in(content)
            return HttpAnswer(response.status, dict(response.headers), content)
    except urllib.error.HTTPError as error:
        with error:
            return HttpAnswer(error.code, dict(error.headers), error.read())
