"""Notices a test that blocks its event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_SECONDS = 1.0
BEAT_SECONDS = 0.05
_SCHEDULING = Path("/proc/thread-self/schedstat")
_PROCESSORS = Path("/proc/stat")
_STOLEN = 8
"""The column of the time in which another virtual machine ran instead."""


_on_purpose_seconds = [0.0]
_collecting_seconds = [0.0]
_collecting_since = [0.0]


def _collecting(phase: str, _: dict[str, int]) -> None:
    now = time.monotonic()
    if phase == "start":
        _collecting_since[0] = now
    else:
        _collecting_seconds[0] += now - _collecting_since[0]


gc.callbacks.append(_collecting)


@contextmanager
def on_purpose() -> Iterator[None]:
    """Block the loop without being told of: a test waits for another process."""
    began = time.monotonic()
    try:
        yield
    finally:
        _on_purpose_seconds[0] += time.monotonic() - began


def waited_seconds() -> float:
    """Return the seconds that do not count as a blocked loop.

    This thread was ready to run and another one ran instead, on a busy machine; that
    machine itself stood still, as it shares its processors with others; the test waited
    on purpose; or all that thousands of tests before it left was searched for garbage.
    """
    excused = _on_purpose_seconds[0] + _collecting_seconds[0]
    try:
        busy = int(_SCHEDULING.read_text().split()[1]) / 1e9
        return busy + stolen_seconds() + excused
    except (OSError, IndexError, ValueError):
        return excused


def stolen_seconds() -> float:
    """Return for how long the machine's processors have stood still, all together."""
    with _PROCESSORS.open() as processors:
        stolen = int(processors.readline().split()[_STOLEN])
    return stolen / os.sysconf("SC_CLK_TCK")


class LoopGuard:
    """Beats on the running loop and remembers the longest time without a beat."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self._loop = asyncio.get_running_loop()
        self._due = time.monotonic()
        self._waited = waited_seconds()
        self._beat()

    def _beat(self) -> None:
        self._measure()
        self._due = time.monotonic() + BEAT_SECONDS
        self._waited = waited_seconds()
        self._handle = self._loop.call_later(BEAT_SECONDS, self._beat)

    def _measure(self) -> None:
        late = time.monotonic() - self._due
        if late > self.longest_seconds:
            blocked = late - (waited_seconds() - self._waited)
            self.longest_seconds = max(self.longest_seconds, blocked)

    def stop(self) -> None:
        """Measure once more; nothing beats after this."""
        self._handle.cancel()
        self._measure()
