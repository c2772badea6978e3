"""`python -m bench.profile`: where the processor time of a request and a fold goes.

It needs perf (`apt-get install linux-perf`), strace and py-spy (`pip install py-spy`),
and the right to trace processes. perf and py-spy hardly slow the server.
"""

from __future__ import annotations

import os
import re
import subprocess
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
RATE = "499"
"""Samples a second."""
PARTS = (
    ("the kernel: network, files, threads", r"kernel|vdso"),
    ("SQLite", r"sqlite3"),
    ("signature (HMAC, SHA-256)", r"libcrypto|_hashlib"),
    ("JSON (msgspec)", r"^_core\."),
    ("aiohttp, what is in C", r"_http_|multidict|_helpers_c|frozenlist|quoting"),
    ("event loop (uvloop)", r"^loop\.|_asyncio"),
    ("C library: memory", r"^libc\."),
    ("Python", r"python"),
)
"""Each sample counts for the first part that matches the name of its library."""
OTHERS = "others"
_CALLS = re.compile(
    r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE
)
_LINE = re.compile(r":\d+(?=\)$)")
_SHARE = re.compile(r"^\s*([\d.]+)%\s+(\S+)", re.MULTILINE)


def _part(library: str) -> str:
    found = (name for name, pattern in PARTS if re.search(pattern, library))
    return next(found, OTHERS)


def _sampled(pid: int, seconds: int, file: Path) -> dict[str, float]:
    """Return the share of each part in percent."""
    options = ["-q", "-F", RATE, "-o", str(file), "-p", str(pid)]
    command = ["perf", "record", *options, "--", "sleep", str(seconds)]
    subprocess.run(command, check=True, capture_output=True)
    asked = ["--no-children", "--sort", "dso", "--stdio", "-q"]
    report = subprocess.run(
        ["perf", "report", "-i", str(file), *asked],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found: dict[str, float] = {}
    for share, library in _SHARE.findall(report):
        part = _part(library.strip("[]"))
        found[part] = found.get(part, 0.0) + float(share)
    return found


def _in_functions(pid: int, seconds: int, file: Path) -> Counter[str]:
    """Return the samples of each Python function that held the interpreter's lock."""
    options = ["--pid", str(pid), "--duration", str(seconds), "--rate", RATE]
    command = [
        "py-spy",
        "record",
        "--gil",
        "--format",
        "raw",
        *options,
        "-o",
        str(file),
    ]
    subprocess.run(command, check=True, capture_output=True)
    found: Counter[str] = Counter()
    for line in file.read_text("utf-8").splitlines():
        stack, _, samples = line.rpartition(" ")
        found[_LINE.sub("", stack.rpartition(";")[2])] += int(samples)
    return found


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
            began, used = perf_counter(), _processor_seconds(pid)
            before = answered()
            parts = _sampled(pid, seconds, Path(name, "samples"))
            done = answered() - before
            each = (_processor_seconds(pid) - used) / done
            rate = done / (perf_counter() - began)
        typer.echo(
            f"{kind}: {rate:,.0f} requests/s, {each * 1e6:.1f} µs of a core each"
        )
        for part, share in sorted(parts.items(), key=lambda one: -one[1]):
            typer.echo(f"{share:6.1f} %  {each * share * 1e4:6.1f} µs  {part}")
        with _loaded(port, requests):
            functions = _in_functions(pid, seconds, Path(name, "stacks"))
        for function, samples in functions.most_common(15):
            share = samples / functions.total()
            typer.echo(f"{share:6.1%}  {each * share * 1e6:6.1f} µs  {function}")
        with _loaded(port, requests) as answered:
            before = answered()
            calls = _called(pid, seconds)
            done = answered() - before
        for call, number in calls.most_common(12):
            typer.echo(f"{number / max(done, 1):8.3f}  {call} a request")


if __name__ == "__main__":
    typer.run(main)
