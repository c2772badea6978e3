"""Detects tests that block their event loop, by computing or by a blocking call.

The guard measures the processor time of the loop's thread, and intercepts blocking
calls by name. A busy machine changes neither.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from types import FrameType

LONGEST_SECONDS = 2.0
"""The processor time that one callback may use. Blocking code uses far more; two
threads that share a processor run at half the speed."""
BEAT_SECONDS = 0.05
PRODUCT = ("daemon", "connectors")

_ROOT = f"{Path(__file__).resolve().parents[2]}/"
_on_purpose = threading.local()
_guards: dict[int, LoopGuard] = {}
_collecting_seconds = [0.0]
_collecting_since = [0.0]


def _collecting(phase: str, _: dict[str, int]) -> None:
    now = time.thread_time()
    if phase == "start":
        _collecting_since[0] = now
    else:
        _collecting_seconds[0] += now - _collecting_since[0]


def _depth() -> int:
    depth: int = getattr(_on_purpose, "depth", False)
    return depth


def _note(call: str) -> None:
    """Record a blocking call if an event loop runs in this thread."""
    guard = _guards.get(threading.get_ident())
    if guard is None or _depth():
        return
    if asyncio._get_running_loop() is guard.loop and _caller() in guard.blamed:
        guard.blocking_calls.append(call)


def _caller() -> str:
    """Return the project's folder whose code is innermost in the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_ROOT) and name != __file__:
            return name[len(_ROOT) :].partition("/")[0]
        frame = frame.f_back
    return ""


def _noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a blocking call, so that it is recorded."""

    @wraps(call)
    def noting(*args: Any, **kwargs: Any) -> Any:
        ended = bool(args) and isinstance(args[0], Future) and args[0].done()
        if not ended:
            _note(name)
        return call(*args, **kwargs)

    return noting


gc.callbacks.append(_collecting)
_owners: tuple[tuple[Any, str], ...] = (
    (time, "sleep"),
    (Future, "result"),
    (Future, "exception"),
    (subprocess.Popen, "wait"),
    (subprocess.Popen, "communicate"),
)
for _owner, _call in _owners:
    _name = f"{_owner.__name__}.{_call}"
    setattr(_owner, _call, _noted(_name, getattr(_owner, _call)))


@contextmanager
def on_purpose() -> Iterator[None]:
    """Allow blocking within the block: a test waits for another process."""
    guard = _guards.get(threading.get_ident())
    began = time.thread_time()
    _on_purpose.depth = _depth() + 1
    try:
        yield
    finally:
        _on_purpose.depth -= 1
        if guard is not None:
            guard.excused_seconds += time.thread_time() - began


class LoopGuard:
    """Schedules regular callbacks on the running loop, and records what delayed them.

    `longest_seconds` is the most processor time of the loop's thread between two
    callbacks; `blocking_calls` are blocking calls in that thread by code of the
    folders `blamed`. A test may wait for a program that it starts.
    """

    def __init__(
        self,
        blamed: Container[str] = PRODUCT,
        limit_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self.blamed = blamed
        self.limit_seconds = limit_seconds
        self.loop = asyncio.get_running_loop()
        self.longest_seconds = 0.0
        self.excused_seconds = 0.0
        self.blocking_calls: list[str] = []
        _guards[threading.get_ident()] = self
        self._began = self._spent()
        self._measure_again()

    def flaw(self) -> str | None:
        """Return a sentence about what blocked the loop, for the test's report."""
        if self.blocking_calls:
            calls = ", ".join(dict.fromkeys(self.blocking_calls))
            return f"blocked the event loop by calls that wait: {calls}"
        if self.longest_seconds > self.limit_seconds:
            spent = f"{self.longest_seconds:.1f} s of processor time"
            return f"blocked the event loop: {spent} in one callback"
        return None

    def _spent(self) -> float:
        excused = self.excused_seconds + _collecting_seconds[0]
        return time.thread_time() - excused

    def _measure_again(self) -> None:
        self._measure()
        self._handle = self.loop.call_later(BEAT_SECONDS, self._measure_again)

    def _measure(self) -> None:
        now = self._spent()
        self.longest_seconds = max(self.longest_seconds, now - self._began)
        self._began = now

    def stop(self) -> None:
        """Measure once more, and schedule no more callbacks."""
        self._handle.cancel()
        self._measure()
        _guards.pop(threading.get_ident(), None)
