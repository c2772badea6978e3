"""Rows `…-postgres`: the same work on PostgreSQL and on SQLite, in turns.

Three servers replicate synchronously. They keep to the core of the load, and their
files are where those of SQLite are.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_IXOTH
from typing import TYPE_CHECKING

import msgspec

from bench import large_postgres, servers
from bench.engines import Done, Taken, Work
from bench.fold_large import FEWER
from bench.orders import ITEMS
from bench.results import Rounds, agree
from scenes.postgres_nodes import postgres_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.results import Scale
    from scenes.postgres_nodes import Nodes


@dataclass(frozen=True, slots=True)
class Pair:
    """A file for SQLite, and a database of the servers; both are empty."""

    file: str
    url: str
    server: int

    def run(self, what: str, work: Work) -> tuple[Done, Done]:
        """Do the work on SQLite, then on PostgreSQL."""
        wanted = _encoded(work)
        places = (self.file,), (self.url, "--server", str(self.server))
        first, second = (
            servers.run("bench.engines", what, place, wanted, *more)
            for place, *more in places
        )
        return _done(first), _done(second)


def _encoded(work: Work) -> str:
    return msgspec.json.encode(work).decode()


def _of(nodes: Nodes) -> tuple[str, str]:
    """Return the arguments that name the server."""
    return "--server", str(nodes.primary.pid)


def _done(printed: str) -> Done:
    return msgspec.json.decode(printed, type=Done)


def append_postgres(scale: Scale) -> Rounds:
    """Append events from as many producers as there are connections."""
    rounds, work = Rounds(), Work(scale.requests, scale.connections)
    for pair in _pairs(scale):
        on_file, on_server = pair.run("append", work)
        for each in (on_file, on_server):
            agree("events in the inbox", work.count + 1, each.rows["inbox"])
        _add(rounds, work.count, "events", on_file, on_server)
    return rounds


def fold_postgres(scale: Scale) -> Rounds:
    """Fold so many distinct orders."""
    rounds, work = Rounds(), Work(scale.orders)
    once = ("inbox", "delivery_digests", "orders", "changes", "event_outcomes")
    expected = dict.fromkeys(once, work.count) | {"order_items": work.count * ITEMS}
    for pair in _pairs(scale):
        on_file, on_server = pair.run("fold", work)
        for each in (on_file, on_server):
            agree("rows", expected, {name: each.rows[name] for name in expected})
        _add(rounds, work.count, "orders", on_file, on_server)
    return rounds


def fold_large_postgres(scale: Scale) -> Rounds:
    """Fold new orders, then changes, into a large mirror and a small one, in turns."""
    rounds, few = Rounds(), max(scale.mirrored // FEWER, 2)
    count = few // max(scale.rounds, 2)  # no order is changed in two rounds
    with _nodes(scale) as nodes, _database(nodes) as small, _database(nodes) as held:
        sizes = {small: few, held: scale.mirrored}
        for url, size in sizes.items():
            large_postgres.fill(url, size)
        for turn in range(scale.rounds):
            taken = {
                url: _fold_more(nodes, url, size, count, turn)
                for url, size in sizes.items()
            }
            for name, one, many in zip(
                ("new", "changed"), taken[small], taken[held], strict=True
            ):
                _add_large(rounds, name, count, one, many)
    rounds.add("orders mirrored, many", "", scale.mirrored)
    return rounds


def _fold_more(
    nodes: Nodes, url: str, size: int, count: int, turn: int
) -> tuple[Taken, Taken]:
    """Fold new orders, and changes of orders from all over what is mirrored."""
    new = Work(count, first=size + turn * count)
    step = size // count
    changed = Work(count, first=turn % step, step=step)
    before = _done(servers.run("bench.engines", "none", url, _encoded(Work(0)))).rows
    done = [
        _done(servers.run("bench.engines", what, url, _encoded(work), *_of(nodes)))
        for what, work in (("fold", new), ("change", changed))
    ]
    after = done[-1].rows
    agree("new orders in the mirror", count, after["orders"] - before["orders"])
    agree("changes noted", 2 * count, after["changes"] - before["changes"])
    return done[0].taken, done[1].taken


def _add_large(rounds: Rounds, name: str, count: int, one: Taken, many: Taken) -> None:
    ratio = one.seconds / many.seconds
    rounds.add(f"{name}, rate at many to rate at few", "x", ratio)
    ratio = one.busy_seconds / many.busy_seconds
    rounds.add(f"{name}, the same by processor time", "x", ratio)
    rounds.add(f"{name} folded, at many", "orders/s", count / many.seconds)


@contextmanager
def _nodes(scale: Scale) -> Iterator[Nodes]:
    """Run the servers in the folder of the scale."""
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        Path(folder).chmod(0o755)
        place = Path(folder).resolve()
        # For root the servers are another user's, who may not reach a private folder.
        is_open = all(each.stat().st_mode & S_IXOTH for each in (place, *place.parents))
        with postgres_nodes(folder=place if is_open else None) as nodes:
            yield nodes


def _pairs(scale: Scale) -> Iterator[Pair]:
    """Yield places for each round; they are gone after it."""
    with (
        tempfile.TemporaryDirectory(dir=scale.directory) as folder,
        _nodes(scale) as nodes,
    ):
        for number in range(scale.rounds):
            with _database(nodes) as url:
                yield Pair(str(Path(folder, f"{number}.db")), url, nodes.primary.pid)


@contextmanager
def _database(nodes: Nodes) -> Iterator[str]:
    url = nodes.primary.new_database()
    yield url
    name = url.rpartition("/")[2]
    nodes.primary.run("CHECKPOINT", f"DROP DATABASE {name} WITH (FORCE)")


def _add(rounds: Rounds, count: int, unit: str, on_file: Done, on_server: Done) -> None:
    one, other = on_file.taken, on_server.taken
    rounds.add("ratio to SQLite", "x", one.seconds / other.seconds)
    ratio = one.client_seconds / other.busy_seconds
    rounds.add("ratio to SQLite, by processor time of client and servers", "x", ratio)
    ratio = one.client_seconds / other.client_seconds
    rounds.add("ratio to SQLite, by processor time of the client", "x", ratio)
    for name, taken in (("SQLite", one), ("PostgreSQL", other)):
        rounds.add(name, f"{unit}/s", count / taken.seconds)
    rounds.add("of PostgreSQL, client", "us each", other.client_seconds / count * 1e6)
    rounds.add("of PostgreSQL, servers", "us each", other.server_seconds / count * 1e6)
