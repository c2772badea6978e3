"""The machine that was measured on, and which of its cores does what."""

from __future__ import annotations

import os
import platform
import sqlite3
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_STAT = Path("/proc/stat")
_MOUNTS = Path("/proc/mounts")
_CPUS = Path("/proc/cpuinfo")


@cache
def cores() -> tuple[int | None, int | None]:
    """Return the core for what is measured and the one for the load; None: any.

    Told once, before this process keeps to one of them itself.
    """
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return (usable[0], usable[-1]) if len(usable) > 1 else (None, None)


@contextmanager
def load_core() -> Iterator[None]:
    """Keep this process off the core of what is measured."""
    with _on(cores()[1]):
        yield


@contextmanager
def measured_core() -> Iterator[None]:
    """Be on the core of what is measured, so that what is started there stays there."""
    with _on(cores()[0]):
        yield


@contextmanager
def all_cores() -> Iterator[None]:
    """Let what is started there use every core, as it may in production."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core for core in cores() if core is not None} or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _on(core: int | None) -> Iterator[None]:
    if core is None:
        yield
        return
    usable = os.sched_getaffinity(0)
    pin(core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def pin(core: int | None) -> None:
    """Keep this process on one core, where there is one to spare."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def processor_seconds(pid: int) -> float:
    """Return the processor time a process has had; 0 where the system tells none."""
    return _ticks(pid, 11)


def family_seconds(pid: int) -> float:
    """Return the processor time of a process and of its children that run."""
    file = Path(f"/proc/{pid}/task/{pid}/children")
    children = file.read_text().split() if file.exists() else []
    return sum(map(processor_seconds, [pid, *map(int, children)]))


def ended_children_seconds(pid: int) -> float:
    """Return the processor time of the children that a process has waited for."""
    return _ticks(pid, 13)


def _ticks(pid: int, place: int) -> float:
    file = Path("/proc", str(pid), "stat")
    if not file.exists():
        return 0.0
    fields = file.read_text().rpartition(")")[2].split()
    return (int(fields[place]) + int(fields[place + 1])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the memory that a process holds; 0 where the system tells none."""
    file = Path("/proc", str(pid), "statm")
    pages = int(file.read_text().split()[1]) if file.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_resident_bytes(pid: int) -> int:
    """Return the most memory that a process ever held; 0 where the system is silent."""
    file = Path("/proc", str(pid), "status")
    lines = file.read_text().splitlines() if file.exists() else []
    return sum(int(line.split()[1]) * 1_024 for line in lines if "VmHWM" in line)


def core_seconds() -> float:
    """Return how long the measured core has worked, for any program."""
    core = f"cpu{cores()[0]}"
    lines = _STAT.read_text().splitlines() if _STAT.exists() else []
    busy = [line.split() for line in lines if line.split()[0] == core]
    # user, nice, system; then, after idle and iowait, irq, softirq and stolen time
    ticks = sum(int(n) for fields in busy for n in (*fields[1:4], *fields[6:9]))
    return ticks / os.sysconf("SC_CLK_TCK")


def describe(directory: Path) -> dict[str, Any]:
    """Return what a figure depends on besides our code."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "pinned": cores()[0] is not None,
        "filesystem": _filesystem(directory.resolve()),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "aiohttp": version("aiohttp"),
        "uvloop": version("uvloop"),
    }


def _processor() -> str:
    lines = _CPUS.read_text().splitlines() if _CPUS.exists() else []
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return names[0].strip() if names else platform.processor()


def _filesystem(directory: Path) -> str:
    """Return the type: on a tmpfs a commit is durable in name only."""
    lines = _MOUNTS.read_text().splitlines() if _MOUNTS.exists() else []
    mounts = {fields[1]: fields[2] for fields in map(str.split, lines)}
    holding = [path for path in mounts if directory.is_relative_to(path)]
    return mounts[max(holding, key=len)] if holding else "unknown"
