"""Rows `fold-large` and `start`: what a mirror of a million orders changes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench import large, machine, servers
from bench.daemon import Daemon
from bench.folding_more import FoldedMore
from bench.results import Rounds, agree

if TYPE_CHECKING:
    from bench.results import Scale

FEWER = 100
"""The small mirror holds the large one's orders divided by this."""


def fold_large(scale: Scale) -> Rounds:
    """Fold new and changed orders into a large mirror and a small one, in turns."""
    rounds = Rounds()
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        small, held = Path(folder, "small.db"), Path(folder, "large.db")
        few = scale.mirrored // FEWER
        large.fill(small, few)
        large.fill(held, scale.mirrored)
        for turn in range(scale.rounds):
            # A fresh copy: a small mirror must not grow from round to round.
            copy = Path(folder, "copy.db")
            shutil.copyfile(small, copy)
            count = few // 2
            at_few = _run(copy, count, turn, few // count)
            at_many = _run(held, count, turn, scale.mirrored // count)
            _add(rounds, count, at_few, at_many)
            copy.unlink()
    return rounds


def _run(database: Path, count: int, first: int, step: int) -> FoldedMore:
    """Fold new orders, and changes of orders from all over what is mirrored."""
    counts = map(str, (count, first, step))
    output = servers.run("bench.folding_more", str(database), *counts)
    found = msgspec.json.decode(output, type=FoldedMore)
    agree("new orders in the mirror", count, found.orders)
    agree("changes noted", 2 * count, found.noted)
    return found


def _add(rounds: Rounds, count: int, small: FoldedMore, held: FoldedMore) -> None:
    for name, one, many in (
        ("new", small.new, held.new),
        ("changed", small.changed, held.changed),
    ):
        rounds.add(f"{name}, rate at many to rate at few", "x", one[0] / many[0])
        ratio = one[1] / many[1]
        rounds.add(f"{name}, the same by processor time", "x", ratio)
        rate, busy = (count / seconds for seconds in many)
        rounds.add(f"{name} folded, at many", "orders/s", rate)
        rounds.add(f"{name} folded, at many, by processor time", "orders/s", busy)
        rounds.add(f"{name} folded, at few", "orders/s", count / one[0])
    rounds.add("orders mirrored, many", "", held.held)
    rounds.add("orders mirrored, few", "", small.held)
    rounds.add("memory at its most, at many", "MB", held.resident_bytes / 1e6)


def start(scale: Scale) -> Rounds:
    """Start the daemon on a large mirror until it says that it is ready."""
    rounds = Rounds()
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        many, none = Daemon(Path(folder, "many")), Daemon(Path(folder, "none"))
        large.fill(none.database, 1)
        large.fill(many.database, scale.mirrored)
        for _ in range(scale.rounds):
            for name, daemon in (("", many), (", one order", none)):
                seconds, pid = daemon.start()
                rounds.add(f"start to ready{name}", "s", seconds)
                resident = machine.resident_bytes(pid)
                rounds.add(f"memory when ready{name}", "MB", resident / 1e6)
                daemon.stop()
    return rounds
