"""A WebDAV or FTP server on loopback that serves a folder; it can be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scenes.ports import accepts, free_port, unless_ended
from scenes.waiting import await_true

if TYPE_CHECKING:
    from pathlib import Path

USER, PASSWORD = "courier", "a-password-that-must-not-show"


@dataclass(slots=True)
class FileServer:
    """Serves `folder/data` with WebDAV or FTP, with TLS if it has a certificate."""

    folder: Path
    protocol: str
    certificate: Path | None = None
    key: Path | None = None
    port: int = field(default_factory=lambda: free_port())
    _process: subprocess.Popen[bytes] | None = None

    @property
    def drop(self) -> Path:
        return self.folder / "data/drop/in"

    def settings(self) -> dict[str, object]:
        """Return what a connector needs to read the folder `drop`."""
        scheme = f"{self.protocol}s" if self.certificate else self.protocol
        return {
            "folder": f"{scheme}://127.0.0.1:{self.port}/drop/in",
            "user": USER,
            "password": PASSWORD,
        }

    def start(self) -> None:
        """Start the server; return when it accepts connections."""
        self.drop.mkdir(parents=True, exist_ok=True)
        options = self._webdav() if self.protocol == "webdav" else self._ftp()
        log = self.folder / "server.log"
        with log.open("ab") as output:
            # -P: do not import modules from the project's folders
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", *options], stdout=output, stderr=output
            )
        ready = unless_ended(self._process.poll, lambda: accepts(self.port), log)
        await_true(ready, "the server listens")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _webdav(self) -> list[str]:
        file = self.folder / "wsgidav.json"
        configuration: dict[str, object] = {
            "host": "127.0.0.1",
            "port": self.port,
            "provider_mapping": {"/": str(self.folder / "data")},
            "simple_dc": {"user_mapping": {"*": {USER: {"password": PASSWORD}}}},
            "http_authenticator": {
                "accept_basic": True,
                "accept_digest": False,
                "default_to_digest": False,
            },
        }
        if self.certificate:
            configuration["ssl_certificate"] = str(self.certificate)
            configuration["ssl_private_key"] = str(self.key)
        file.write_text(json.dumps(configuration), "utf-8")
        return ["wsgidav.server.server_cli", "-qqq", "--config", str(file)]

    def _ftp(self) -> list[str]:
        options = ["pyftpdlib", "--write", "--interface", "127.0.0.1"]
        options += ["--port", str(self.port), "--directory", str(self.folder / "data")]
        options += ["--username", USER, "--password", PASSWORD]
        if self.certificate:
            options += ["--tls", "--tls-control-required", "--tls-data-required"]
            options += ["--certfile", str(self.certificate), "--keyfile", str(self.key)]
        return options
