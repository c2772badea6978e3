"""Rows `startup` and `newcomer`: what a person waits for at the very beginning."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from bench import machine
from bench.daemon import Daemon
from bench.results import CountsDisagreeError, Rounds
from bench.servers import STOP_SECONDS
from bench.shop import open_shop

if TYPE_CHECKING:
    from bench.results import Scale

ROOT = Path(__file__).resolve().parents[2]
SETTLE_SECONDS = 3.0
"""What a start leaves to be done; it is no part of the idle time."""
IDLE = 10
"""How many times as long as a server is loaded it is left alone."""
LIBRARIES = (
    "import sys; sys.modules['httpx._main'] = None;"
    " import aiohttp.web, apscheduler.schedulers.asyncio, httpx, loguru,"
    " prometheus_client, pydantic_settings, sqlite_utils, tenacity, typer, uvloop"
)
"""httpx without its command line, which the daemon leaves out as well."""
FULFILLED = re.compile(r"\bfulfilled [1-9]")
NEWCOMER_SECONDS = 900


def startup(scale: Scale) -> Rounds:
    """Start the daemon on no database beside a platform, and leave it alone."""
    rounds = Rounds()
    with tempfile.TemporaryDirectory(dir=scale.directory) as name:
        folder = Path(name)
        with open_shop(folder / "shop", "empty") as shop:
            for number in range(scale.rounds):
                platform = f"http://127.0.0.1:{shop.port}"
                daemon = Daemon(folder / str(number), platform, shop.key)
                bare = _import_libraries()
                seconds, pid = daemon.start()
                busy = machine.processor_seconds(pid)
                rounds.add("start to ready", "s", seconds)
                rounds.add("the same by processor time", "s", busy)
                rounds.add("bare, its libraries imported, processor time", "s", bare)
                rounds.add("ratio to bare by processor time", "", busy / bare)
                _leave_alone(rounds, pid, scale.seconds * IDLE)
                daemon.stop()
    return rounds


def newcomer(scale: Scale) -> Rounds:
    """Clone, `make demo`, and wait for the first order that the store shows shipped."""
    rounds = Rounds()
    for _ in range(scale.rounds):
        with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
            clone = str(Path(folder, "backhaul"))
            began = perf_counter()
            subprocess.run(["git", "clone", "--quiet", str(ROOT), clone], check=True)
            rounds.add("clone to fulfilled", "s", _see_one_fulfilled(clone) - began)
    return rounds


def _import_libraries() -> float:
    """Return the processor time of it: the clock would count what others take."""
    before = _children_seconds()
    with machine.measured_core():
        subprocess.run([sys.executable, "-c", LIBRARIES], check=True)
    return _children_seconds() - before


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _leave_alone(rounds: Rounds, pid: int, seconds: float) -> None:
    rest = threading.Event()
    rest.wait(SETTLE_SECONDS)
    began, busy = perf_counter(), machine.processor_seconds(pid)
    rest.wait(seconds)
    share = (machine.processor_seconds(pid) - busy) / (perf_counter() - began)
    rounds.add("idle, of a core", "%", share * 100)
    rounds.add("idle, memory", "MB", machine.resident_bytes(pid) / 1e6)


def _see_one_fulfilled(clone: str) -> float:
    """Return when the demo said so. Its output is no terminal: a line every 5 s."""
    demo = subprocess.Popen(
        ["make", "demo"],
        cwd=clone,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    watchdog = threading.Timer(NEWCOMER_SECONDS, os.killpg, (demo.pid, signal.SIGKILL))
    watchdog.start()
    try:
        if not any(FULFILLED.search(line) for line in demo.stdout):
            raise CountsDisagreeError("the demo ended before an order was fulfilled")
        return perf_counter()
    finally:
        watchdog.cancel()
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGINT)
        demo.wait(STOP_SECONDS)
