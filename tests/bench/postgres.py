"""Rows `…-postgres`: the same work on PostgreSQL and on SQLite, in turns.

Three servers replicate synchronously. They keep to the core of the load, and their
files are where those of SQLite are.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench import servers
from bench.engines import Done, Work
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
        wanted = msgspec.json.encode(work).decode()
        places = (self.file,), (self.url, "--server", str(self.server))
        first, second = (
            servers.run("bench.engines", what, place, wanted, *more)
            for place, *more in places
        )
        return _done(first), _done(second)


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


def _pairs(scale: Scale) -> Iterator[Pair]:
    """Yield places for each round; they are gone after it."""
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        Path(folder).chmod(0o755)  # the servers are another user's
        with postgres_nodes(folder=Path(folder)) as nodes:
            for number in range(scale.rounds):
                with _database(nodes) as url:
                    file = Path(folder, f"{number}.db")
                    yield Pair(str(file), url, nodes.primary.pid)


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
