"""Runs the daemon against a reference store, in this process or in its own."""

from __future__ import annotations

import asyncio
import io
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import (
    asynccontextmanager,
    closing,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backhaul.app.control_socket import SOCKET_NAME
from backhaul.app.daemon import Daemon
from backhaul.cli import context, exit_codes
from backhaul.cli.root import app
from backhaul.core.webhook import TOPICS
from scenes import leftovers, tracking_tokens
from scenes.loop_guard import on_purpose
from scenes.waiting import HANG_SECONDS, await_true, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from backhaul.store import Place
    from scenes.reference_process import ReferenceProcess
    from scenes.reference_shop import Shop

UNUSED_ADDRESS = "http://127.0.0.1:9/hook"
STOP_SECONDS = HANG_SECONDS


@dataclass(slots=True)
class Office:
    """A state directory, a configuration and a drop folder for a daemon.

    The paths are short enough for unix sockets.
    """

    base_url: str
    api_key: str
    folder: Path = field(
        default_factory=lambda: Path(tempfile.mkdtemp(prefix="bh-", dir="/tmp"))
    )
    webhook_secret: str = field(
        default_factory=lambda: "whsec_" + secrets.token_hex(16)
    )
    device_token: str = field(default_factory=lambda: secrets.token_hex(16))
    more: str = ""

    def __post_init__(self) -> None:
        leftovers.issued(self.api_key, self.webhook_secret, self.device_token)
        (self.folder / "drop").mkdir(exist_ok=True)
        self.write()

    @property
    def config(self) -> Path:
        return self.folder / "backhaul.toml"

    @property
    def database(self) -> Path:
        return self.folder / "state" / "backhaul.db"

    @property
    def place(self) -> Place:
        """The database that the daemon opens; the environment may name a server."""
        return os.environ.get("BACKHAUL_DATABASE__URL") or self.database

    @property
    def drop(self) -> Path:
        return self.folder / "drop"

    def write(self, **changes: str) -> None:
        """Write the configuration; `changes` replace parts of its text."""
        text = CONFIGURATION.format(office=self)
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        self.config.write_text(text + self.more)

    def put(self, name: str, *lines: str) -> None:
        """Put a complete file into the drop folder."""
        unfinished = self.drop / f"{name}.tmp"
        unfinished.write_text("\n".join(lines) + "\n")
        unfinished.rename(self.drop / name)

    def read_status(self) -> dict[str, Any] | None:
        """Return the status of a running daemon; None while it is not ready."""
        path = self.folder / "state" / SOCKET_NAME
        try:
            if request_over_socket(path, "/readyz")[0] != 200:
                return None
            found: dict[str, Any] = json.loads(
                request_over_socket(path, "/api/status")[1]
            )
        except OSError:
            return None
        return found

    def remove(self) -> None:
        """Check the files for tracking tokens, then delete them."""
        with on_purpose():
            tracking_tokens.check_daemon(self.folder)
            shutil.rmtree(self.folder, ignore_errors=True)


CONFIGURATION = """\
state_dir = "{office.folder}/state"
[public]
host = "127.0.0.1"
port = 0
[admin]
port = 0
[log]
level = "TRACE"
format = "json"
[push]
retry_base = "50ms"
[connect]
match_wait = "10m"
[stores.main]
base_url = "{office.base_url}"
api_key = "{office.api_key}"
webhook_secrets = ["{office.webhook_secret}"]
test_store = true
[connectors.courier]
type = "file_drop"
every = "50ms"
path = "{office.folder}/drop"
unchanged_seconds = 0
[connectors.bench]
type = "scanner"
[connectors.bench.devices]
gun = "{office.device_token}"
"""


def request_over_socket(path: Path, question: str) -> tuple[int, bytes]:
    """Send a request over a unix socket; raise OSError if nobody listens."""
    with closing(HTTPConnection("backhaul", timeout=HANG_SECONDS)) as connection:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(5)
        connection.sock.connect(str(path))
        connection.request("GET", question)
        answer = connection.getresponse()
        return answer.status, answer.read()


@asynccontextmanager
async def running(office: Office) -> AsyncIterator[Daemon]:
    """Run the daemon in this process."""
    daemon = Daemon(context.settings(office.config))
    task = asyncio.create_task(daemon.run())
    try:
        await until(lambda: daemon.ready.is_set() or task.done(), "the daemon is ready")
        if not task.done():
            yield daemon
    finally:
        daemon.stop()
        await task


@asynccontextmanager
async def connected(shop: Shop, more: str = "") -> AsyncIterator[tuple[Office, Daemon]]:
    """Run the daemon as the receiver of a store in this process."""
    access = shop.running.access
    body = {"address": UNUSED_ADDRESS, "topics": list(TOPICS)}
    hook = (await shop.v1("POST", "/webhooks", body)).data
    office = Office(
        access.public_url, access.api_key, webhook_secret=hook["secret"], more=more
    )
    try:
        async with running(office) as daemon:
            address = f"{daemon.public_url}/webhooks/main"
            await shop.v1("PUT", f"/webhooks/{hook['id']}", {"address": address})
            yield office, daemon
    finally:
        office.remove()


class DaemonProcess:
    """`backhaul run` as its own process; its log is kept with the session's logs.

    `environ` is added to this process's environment; `wrapped` is a command that
    becomes the daemon, as `nice` would; `handed` are open files that it inherits.
    """

    def __init__(
        self,
        office: Office,
        environ: Mapping[str, str] | None = None,
        wrapped: Sequence[str] = (),
        handed: Sequence[int] = (),
    ) -> None:
        self.office = office
        self.log = leftovers.new_log("daemon")
        command = [sys.executable, "-m", "backhaul", "run"]
        command += ["--config", str(office.config)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*wrapped, *command],
                stdout=log,
                stderr=log,
                cwd=office.folder,
                env=os.environ | dict(environ or {}),
                pass_fds=handed,
            )

    @on_purpose()
    def await_ready(self, seconds: float = 90) -> dict[str, Any]:
        """Wait until the daemon is ready; return its status."""

        def read() -> dict[str, Any] | None:
            assert self.process.poll() is None, self.log.read_text()[-2_000:]
            return self.office.read_status()

        found = await_true(read, "the daemon is ready", seconds)
        assert found is not None
        return found

    @on_purpose()
    def terminate(self, seconds: float = STOP_SECONDS) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    @on_purpose()
    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def daemon_process(
    office: Office, environ: Mapping[str, str] | None = None
) -> Iterator[DaemonProcess]:
    started = DaemonProcess(office, environ)
    try:
        started.await_ready()
        yield started
    finally:
        if started.process.poll() is None:
            started.kill()


@contextmanager
def office_of(reference: ReferenceProcess, more: str = "") -> Iterator[Office]:
    """Return an office for the demo store of a reference server; nothing runs yet."""
    office = Office(reference.public_url, reference.store().api_key, more=more)
    try:
        yield office
    finally:
        office.remove()


@contextmanager
def connected_process(
    reference: ReferenceProcess,
    more: str = "",
    environ: Mapping[str, str] | None = None,
) -> Iterator[DaemonProcess]:
    """Run the daemon as the receiver of the demo store's webhooks."""
    hook = reference.v1(
        "POST", "/webhooks", {"address": UNUSED_ADDRESS, "topics": TOPICS}
    ).data()
    with office_of(reference, more) as office:
        office.webhook_secret = hook["secret"]
        office.write()
        with daemon_process(office, environ) as started:
            live = office.read_status() or {}
            address = {"address": f"{live['public_url']}/webhooks/main"}
            answer = reference.v1("PUT", f"/webhooks/{hook['id']}", address)
            assert answer.status == 200, answer.body
            yield started


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


def in_process(*arguments: object, config: Path | None) -> CommandResult:
    """Run a command in this process, without the start of a Python interpreter."""
    given = [*map(str, arguments), *(["--config", str(config)] if config else [])]
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        for _ in range(2)
    )
    before, sys.argv = sys.argv, ["backhaul", *given]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = exit_codes.run(app, given)
    finally:
        sys.argv = before
    texts = [stream.detach().getvalue().decode() for stream in (out, err)]
    return CommandResult(code, *texts)


def backhaul(
    *arguments: object, config: Path | None = None, seconds: float = 40
) -> CommandResult:
    """Run a command as an operator does; `seconds` is its timeout."""
    given = [str(argument) for argument in arguments]
    if config is not None:
        given += ["--config", str(config)]
    done = subprocess.run(
        [sys.executable, "-m", "backhaul", *given],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    leftovers.new_log("cli").write_text(f"{given}\n{done.stdout}\n{done.stderr}")
    return CommandResult(done.returncode, done.stdout, done.stderr)
