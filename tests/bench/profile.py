"""`python -m bench.profile`: where the processor time of a request and a fold goes.

It needs py-spy (`pip install py-spy`) and strace (`apt-get install strace`), and the
right to trace processes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from bench import load, machine, orders, servers
from bench.serving import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONNECTIONS = 64
RATE = 400
"""Samples a second; more would slow the server."""
PARTS = (
    ("SQLite", r"libsqlite3|_sqlite3"),
    ("signature (HMAC, SHA-256)", r"libcrypto|_hashlib|hmac\.py|core/webhook"),
    ("JSON (msgspec)", r"msgspec"),
    ("aiohttp", r"aiohttp|multidict|yarl|propcache|frozenlist"),
    ("event loop (uvloop, asyncio)", r"uvloop|asyncio"),
    ("Backhaul: listener", r"backhaul/app/"),
    ("Backhaul: receiver", r"backhaul/ingest/receiver|backhaul/ingest/webhook_"),
    ("Backhaul: fold", r"backhaul/(ingest|core|store/sql/(inbox|mirror))"),
    ("Backhaul: writer", r"backhaul/store/"),
)
"""Each sample counts for the part of its innermost frame that one of these matches."""
OTHERS = "others (system calls, threads)"
_CALLS = re.compile(
    r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE
)


def _part(stack: str) -> str:
    for frame in reversed(stack.split(";")):
        for name, pattern in PARTS:
            if re.search(pattern, frame):
                return name
    return OTHERS


def _sampled(pid: int, seconds: int, file: Path) -> Counter[str]:
    """Return the samples of each part."""
    tool = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
    options = ["--rate", str(RATE), "--duration", str(seconds), "--format", "raw"]
    command = [tool, "record", "--native", *options, "--output", str(file)]
    subprocess.run([*command, "--pid", str(pid)], check=True, capture_output=True)
    found: Counter[str] = Counter()
    for line in file.read_text().splitlines():
        stack, _, number = line.rpartition(" ")
        found[_part(stack)] += int(number)
    return found


def _called(pid: int, seconds: int) -> Counter[str]:
    """Return how often each system call was made."""
    command = ["timeout", "-s", "INT", str(seconds), "strace", "-c", "-f", "-p"]
    done = subprocess.run(
        [*command, str(pid)], check=False, capture_output=True, text=True
    )
    found = {name: int(n) for n, name in _CALLS.findall(done.stderr)}
    found.pop("total", None)
    return Counter(found)


@contextmanager
def _loaded(port: int, requests: Iterator[bytes]) -> Iterator[Callable[[], int]]:
    """Load a server meanwhile; yields how many requests were taken for sending."""
    ended, number = threading.Event(), 0

    def endless() -> Iterator[bytes]:
        nonlocal number
        while not ended.is_set():
            number += 1
            yield next(requests)

    loading = threading.Thread(target=load.send, args=(port, endless(), CONNECTIONS))
    loading.start()
    try:
        yield lambda: number
    finally:
        ended.set()
        loading.join()


def main(
    kind: Annotated[Kind, typer.Argument(help="What is served.")] = Kind.KEEPING,
    seconds: Annotated[
        int, typer.Option(min=2, help="How long each is measured.")
    ] = 10,
    directory: Annotated[Path, typer.Option(help="Not a tmpfs.")] = Path("var/bench"),
) -> None:
    """Load a server; print the share of each part, and the system calls a request."""
    directory.mkdir(parents=True, exist_ok=True)
    requests = map(orders.request, orders.bodies(10**9))
    with (
        machine.load_core(),
        tempfile.TemporaryDirectory(dir=directory) as name,
        servers.serving(kind, Path(name, "bench.db")) as (port, pid),
    ):
        with _loaded(port, requests) as answered:
            began, before = perf_counter(), answered()
            parts = _sampled(pid, seconds, Path(name, "samples"))
            each = (answered() - before) / (perf_counter() - began)
        typer.echo(f"{kind}: {each:,.0f} requests/s while sampled")
        total = parts.total()
        for part, number in parts.most_common():
            typer.echo(f"{number / total:6.1%}  {part}")
        with _loaded(port, requests) as answered:
            before = answered()
            calls = _called(pid, seconds)
            done = answered() - before
        for call, number in calls.most_common(12):
            typer.echo(f"{number / max(done, 1):8.3f}  {call} a request")


if __name__ == "__main__":
    typer.run(main)
