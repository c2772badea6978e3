"""Litestream, as docs/how-to/back-up-and-restore.md sets it up, with a file replica."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scenes import leftovers
from scenes.loop_guard import on_purpose
from scenes.requirements import require
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STOP_SECONDS = HANG_SECONDS


@dataclass(frozen=True, slots=True)
class Litestream:
    """A database, and the folder to which Litestream replicates it."""

    program: str
    database: Path
    replica: Path
    log: Path

    def restore(self, out: Path) -> None:
        """Restore the newest copy to `out`, from the replica alone."""
        self._say("restore", "-o", str(out), f"file://{self.replica}")

    @on_purpose()
    def _say(self, *arguments: str) -> None:
        done = subprocess.run(
            [self.program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=STOP_SECONDS,
        )
        assert done.returncode == 0, done.stderr


@contextmanager
def replicating(recipe: str, database: Path, folder: Path) -> Iterator[Litestream]:
    """Run Litestream with the recipe; at the end everything is replicated."""
    log = leftovers.new_log("litestream")
    found = Litestream(require("litestream"), database, folder / "replica", log)
    config = folder / "litestream.yml"
    config.write_text(recipe)
    with log.open("w") as said:
        process = subprocess.Popen(
            [found.program, "replicate", "-config", str(config)],
            stdout=said,
            stderr=said,
        )
    try:
        with on_purpose():
            await_true(found.replica.exists, "the first copy", STOP_SECONDS)
        yield found
    finally:
        with on_purpose():
            process.terminate()
            process.wait(STOP_SECONDS)
