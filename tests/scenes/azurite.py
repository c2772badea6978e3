"""Azurite, Microsoft's server with the API of Azure Blob Storage, from npm."""

from __future__ import annotations

import base64
import hmac
import json
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import obstore
from obstore.store import AzureStore

from scenes.ports import accepts, free_port, unless_ended
from scenes.requirements import require
from scenes.waiting import HANG_SECONDS, await_true
from scenes.wheels import cached, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSIONS = {"azurite": "3.35.0"}
ACCOUNT, CONTAINER = "shop", "drop"
SECRET_KEY = base64.b64encode(b"a-secret-key-that-must-not-show!").decode()
API_VERSION = "2021-12-02"


def _install(folder: Path) -> None:
    folder.mkdir()
    wanted = {"private": True, "dependencies": VERSIONS}
    (folder / "package.json").write_text(json.dumps(wanted))
    without = ["--ignore-scripts", "--omit=dev", "--omit=optional"]
    run([require("npm"), "install", "--prefix", str(folder), *without, "--no-audit"])


@dataclass(slots=True)
class Azurite:
    """Stores blobs in `root`; it can be stopped and started again.

    It is stopped in order: what it stores is complete on disk only seconds later.
    """

    root: Path
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def _endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def settings(self, prefix: str = "in") -> dict[str, object]:
        """Return what a connector needs to read blobs with the prefix."""
        return {
            "folder": f"az://{CONTAINER}/{prefix}",
            "endpoint": self._endpoint,
            "access_key": ACCOUNT,
            "secret_key": SECRET_KEY,
        }

    def start(self) -> None:
        """Start the server; return when it accepts connections."""
        installed = cached("azurite", json.dumps(VERSIONS).encode(), _install)
        program = installed / "node_modules/azurite/dist/src/blob/main.js"
        options = ["--location", str(self.root), "--blobPort", str(self.port)]
        options += ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        self._process = subprocess.Popen(
            [require("node"), str(program), *options],
            env={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{SECRET_KEY}"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ready = unless_ended(self._process.poll, lambda: accepts(self.port))
        await_true(ready, "Azurite listens")

    def kill(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(HANG_SECONDS)
            self._process = None

    def create_container(self) -> None:
        """Create the container; the library that reads blobs cannot."""
        now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers = {"x-ms-date": now, "x-ms-version": API_VERSION}
        named = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        place = f"/{ACCOUNT}/{CONTAINER}"
        without_others = "\n" * 12
        signed = f"PUT{without_others}{named}/{ACCOUNT}{place}\nrestype:container"
        key = base64.b64decode(SECRET_KEY)
        mark = base64.b64encode(hmac.digest(key, signed.encode(), "sha256")).decode()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{mark}"
        address = f"{self._endpoint}/{CONTAINER}?restype=container"
        httpx.put(address, headers=headers).raise_for_status()

    def blobs(self) -> AzureStore:
        """Return the container as the other side reads and writes it."""
        return AzureStore(
            CONTAINER,
            account_name=ACCOUNT,
            account_key=SECRET_KEY,
            endpoint=self._endpoint,
            client_options={"allow_http": True},
        )

    def names(self, prefix: str) -> dict[str, str]:
        """Return the ETag of each blob below the prefix, by its name there."""
        with self._running():
            found = obstore.list(self.blobs(), prefix).collect()
        return {
            each["path"].removeprefix(f"{prefix}/"): str(each["e_tag"])
            for each in found
        }

    def content(self, path: str) -> bytes:
        """Return the content of a blob."""
        with self._running():
            return bytes(obstore.get(self.blobs(), path).bytes())

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Start the server for a moment if it is stopped: a test looks into it."""
        was_stopped = self._process is None
        if was_stopped:
            self.start()
        yield
        if was_stopped:
            self.kill()
