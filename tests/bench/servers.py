"""Starts a measured process on its core, and stops it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    Where: TypeAlias = "Callable[[], AbstractContextManager[None]]"

STOP_SECONDS = 60
TESTS = Path(__file__).resolve().parents[1]


class DiedError(Exception):
    """A measured process ended before its time."""


def _start(
    module: str, *arguments: str, where: Where = machine.measured_core
) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    with where():
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )


@contextmanager
def serving(
    kind: str, database: Path, where: Where = machine.measured_core
) -> Iterator[tuple[int, int]]:
    """Run a receiver and give its port and process id; at the end it stops in order."""
    command = "bench.serving", kind, str(database)
    with running(kind, *command, where=where) as (line, pid):
        yield int(line), pid


@contextmanager
def running(
    name: str, module: str, *arguments: str, where: Where = machine.measured_core
) -> Iterator[tuple[str, int]]:
    """Run a module and give its first line and process id; it stops in order too."""
    with _start(module, *arguments, where=where) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.strip():
                raise DiedError(f"the {name} server did not start")
            yield line, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(STOP_SECONDS)
    if code != 0:
        raise DiedError(f"the {name} server ended with {code}")


def run(module: str, *arguments: str) -> str:
    """Run a module to its end and return what it printed."""
    with _start(module, *arguments) as process:
        output, _ = process.communicate()
    if process.returncode != 0:
        raise DiedError(f"{module} ended with {process.returncode}")
    return output
