"""The memory, files, CPU time and limits of a process, as Linux shows them."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def memory_bytes(pid: int, kind: str = "VmRSS") -> int:
    """Return a size of `/proc/PID/status`: VmRSS (now), VmHWM (peak), VmSize (all)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1_024
    raise AssertionError(f"process {pid} has no {kind}")


def reset_most_memory(pid: int) -> None:
    """Reset VmHWM to the current size."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def thread_seconds(pid: int) -> float:
    """Return the processor time of the main thread, which runs the event loop."""
    taken = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]
    return int(taken) / 1e9


def stolen_seconds() -> float:
    """Return the total steal time of the machine's processors."""
    # the ninth column: another virtual machine ran instead
    stolen = int(Path("/proc/stat").read_text().splitlines()[0].split()[8])
    return stolen / os.sysconf("SC_CLK_TCK")


def thread_waited_seconds(pid: int) -> float:
    """Return how long the main thread waited for a processor."""
    waited = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]
    return int(waited) / 1e9


def children(*words: str) -> list[int]:
    """Return this user's running processes with these words in their command."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may have ended meanwhile
            command = (folder / "cmdline").read_text().split("\0")
            is_ours = f"PPid:\t{os.getpid()}\n" in (folder / "status").read_text()
            if is_ours and {*words} <= {*command}:
                found.append(int(folder.name))
    return found


def family_of(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    own = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        found = map(int, own.read_text("ascii").split())
    except FileNotFoundError:
        return [pid]
    return [pid, *(each for child in found for each in family_of(child))]


def is_over(pid: int) -> bool:
    """Return True if a process ended, also if its parent did not wait for it."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def kill_family(*pids: int) -> None:
    """Kill processes and all their descendants (SIGKILL); return when they are gone.

    All are stopped first: what a server forks while its descendants are listed would
    live on, and keep the server's sockets and shared memory.
    """
    family: set[int] = set()
    while found := {each for pid in pids for each in family_of(pid)} - family:
        family |= found
        _signal(found, signal.SIGSTOP, _stands_still)
    _signal(family, signal.SIGKILL, is_over)


def _signal(
    pids: set[int], number: signal.Signals, has_worked: Callable[[int], bool]
) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    await_true(lambda: all(map(has_worked, pids)), f"{number.name} had its effect")


def _stands_still(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return "\nState:\tT" in state or "\nState:\tZ" in state


@contextmanager
def limited(pid: int, kind: int, soft: int) -> Iterator[None]:
    """Set a soft limit of a running process, and restore the old one at the end."""
    before = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (soft, before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # the limit may have ended the process
            resource.prlimit(pid, kind, before)
