"""An S3 server on loopback whose bucket is a folder; it can be killed and started."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scenes.ports import accepts, free_port, unless_ended
from scenes.waiting import await_true

if TYPE_CHECKING:
    from pathlib import Path

SECRET_KEY = "a-secret-key-that-must-not-show"


@dataclass(slots=True)
class ObjectStore:
    """The bucket `drop` is a folder of that name in `root`."""

    root: Path
    port: int = field(default_factory=lambda: free_port())
    _process: subprocess.Popen[bytes] | None = None

    @property
    def bucket(self) -> Path:
        return self.root / "drop"

    def settings(self, prefix: str = "in") -> dict[str, object]:
        """Return what a connector needs to read objects with the prefix."""
        return {
            "folder": f"s3://drop/{prefix}",
            "endpoint": f"http://127.0.0.1:{self.port}",
            "access_key": "AKIDEXAMPLE",
            "secret_key": SECRET_KEY,
        }

    def start(self) -> None:
        """Start the server; return when it accepts connections."""
        self.bucket.mkdir(exist_ok=True)
        # -P: do not import modules from the project's folders
        program = [sys.executable, "-P", "-m", "localbucket", str(self.root)]
        self._process = subprocess.Popen(
            [*program, "--port", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ready = unless_ended(self._process.poll, lambda: accepts(self.port))
        await_true(ready, "the object store listens")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
