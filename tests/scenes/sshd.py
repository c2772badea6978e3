"""An OpenSSH server on loopback with its own keys, for SFTP."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from scenes.ports import accepts, free_port, unless_ended
from scenes.processes import kill_family
from scenes.requirements import require
from scenes.waiting import await_true


@dataclass(slots=True)
class Sshd:
    """A server with its keys and configuration in `folder`."""

    folder: Path
    port: int = field(default_factory=lambda: free_port())
    _process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for name in ("host", "user"):
            asyncssh.generate_private_key("ssh-ed25519").write_private_key(
                self.folder / name
            )
            (self.folder / name).chmod(0o600)
        public = asyncssh.read_private_key(self.folder / "user").export_public_key()
        (self.folder / "authorized").write_bytes(public)
        self._configuration().write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 1000\n"
            "PidFile none\nUseDNS no\nSubsystem sftp internal-sftp\n",
            encoding="ascii",
        )

    @property
    def host_key(self) -> str:
        key = asyncssh.read_private_key(self.folder / "host")
        return str(key.export_public_key().decode().strip())

    def settings(self) -> dict[str, object]:
        """Return what a connector needs to log in here."""
        return {
            "sftp_host": "127.0.0.1",
            "sftp_port": self.port,
            "sftp_user": getpass.getuser(),
            "sftp_key": (self.folder / "user").read_text("ascii"),
            "sftp_host_key": self.host_key,
        }

    @property
    def is_dead(self) -> bool:
        return self._process is None

    def start(self) -> None:
        """Start the server; return when it accepts connections."""
        program = shutil.which("sshd", path="/usr/sbin:/sbin") or require("sshd")
        log = self.folder / "sshd.log"
        command = [program, "-D", "-f", str(self._configuration()), "-E", str(log)]
        self._process = subprocess.Popen(command)
        ready = unless_ended(self._process.poll, lambda: accepts(self.port), log)
        await_true(ready, "sshd listens")

    def kill(self) -> None:
        """Kill the server with all its sessions."""
        if self._process is not None:
            kill_family(self._process.pid)
            self._process.wait()
            self._process = None

    def _configuration(self) -> Path:
        return self.folder / "sshd_config"
