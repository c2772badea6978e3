"""One of the two programs as a process: `python -m …`, its log in a file."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from backhaul.errors import BackhaulError
from backhaul.settings import bare_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

START_SECONDS = 30.0
STOP_SECONDS = 30.0
LOOK_SECONDS = 0.02


class ProgramError(BackhaulError):
    """A program did not start, or did not come to rest."""


class Program:
    """Runs while a test does."""

    def __init__(self, module: str, arguments: Sequence[object], log: Path) -> None:
        self.log = log
        with log.open("ab") as stream:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", module, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=bare_environment(),
            )

    def await_start(self, started: Callable[[], bool]) -> None:
        """Wait until `started`. Raises ProgramError with the end of the log."""

        def look() -> bool:
            if self._process.poll() is not None:
                raise ProgramError(f"it ended at once: {self.last_words()}")
            return started()

        try:
            await_true(look, START_SECONDS)
        except TimeoutError:
            self.kill()
            raise ProgramError(f"did not start: {self.last_words()}") from None

    def stop(self) -> None:
        """Ask it to end, and wait until it has. Safe to call twice."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL: nothing gets a chance to be written."""
        self._process.kill()
        self._process.wait()

    def last_words(self) -> str:
        """Return the end of the log, for a person."""
        return self.log.read_text(errors="replace")[-2_000:]


def await_true(look: Callable[[], bool], seconds: float) -> None:
    """Look again and again. Raises TimeoutError."""
    until = time.monotonic() + seconds
    rest = threading.Event()
    while not look():
        if time.monotonic() > until:
            raise TimeoutError
        rest.wait(LOOK_SECONDS)
