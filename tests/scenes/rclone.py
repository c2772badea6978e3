"""The S3 server of rclone on loopback: it checks keys, and ignores conditions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from scenes.object_store import SECRET_KEY
from scenes.ports import accepts, free_port, unless_ended
from scenes.requirements import require
from scenes.waiting import await_true

ACCESS_KEY = "AKIDEXAMPLE"


@dataclass(slots=True)
class Rclone:
    """Serves the folders in `folder/data` as buckets; it can be killed and started."""

    folder: Path
    port: int = field(default_factory=lambda: free_port())
    options: list[str] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        return self.folder / "data"

    def settings(self) -> dict[str, object]:
        """Return what a connector needs to read below `in/` of the bucket `drop`."""
        return {
            "folder": "s3://drop/in",
            "endpoint": f"http://127.0.0.1:{self.port}",
            "access_key": ACCESS_KEY,
            "secret_key": SECRET_KEY,
        }

    def start(self) -> None:
        """Start the server; return when it accepts connections."""
        self.root.mkdir(exist_ok=True)
        beside = str(Path(sys.executable).parent)
        program = shutil.which("rclone", path=beside) or require("rclone")
        log = self.folder / "rclone.log"
        command = [program, "serve", "s3", str(self.root), "--config", "/dev/null"]
        command += ["--addr", f"127.0.0.1:{self.port}", "--log-file", str(log)]
        command += ["--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"]
        self._process = subprocess.Popen([*command, *self.options])
        ready = unless_ended(self._process.poll, lambda: accepts(self.port), log)
        await_true(ready, "rclone listens")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
