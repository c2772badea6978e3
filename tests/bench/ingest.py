"""Rows `ingest` and `ingest-folding`: our receiver beside a bare aiohttp handler."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import uvloop

from backhaul.core.clock import from_text
from backhaul.store import database_at
from bench import load, machine, orders, servers
from bench.load import Loaded
from bench.results import CountsDisagreeError, Rounds, agree
from bench.serving import Kind
from scenes.stored import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.results import Scale

BURSTS = 10
"""The servers of a round take turns in bursts, so that all meet the same weather."""
WARMING_SHARE = 10
"""One request in so many more is sent before the clock starts."""
POLL_SECONDS = 0.05
STALL_SECONDS = 30


@dataclass(slots=True)
class _Server:
    """A running server, and all it was sent after warming up."""

    kind: Kind
    database: Path
    port: int
    pid: int
    connections: int
    accepted: int = 0
    loaded: Loaded = field(default_factory=Loaded)
    processor_seconds: float = 0.0
    core_seconds: float = 0.0

    def load(self, requests: Sequence[bytes]) -> None:
        before = machine.processor_seconds(self.pid), machine.core_seconds()
        self.loaded.add(self.send(requests))
        self.processor_seconds += machine.processor_seconds(self.pid) - before[0]
        self.core_seconds += machine.core_seconds() - before[1]

    @property
    def foreign_share(self) -> float:
        """Share of the core that other programs took; measure again above 3 percent."""
        others = max(0.0, self.core_seconds - self.processor_seconds)
        return others / self.loaded.seconds

    def send(self, requests: Sequence[bytes]) -> Loaded:
        loaded = load.send(self.port, requests, self.connections)
        agree("answers", {200: len(requests)}, dict(loaded.statuses))
        self.accepted += loaded.statuses[200]
        return loaded


def ingest(scale: Scale) -> Rounds:
    """Accept durably, folding paused."""
    rounds, requests = Rounds(), _requests(scale)
    for _ in range(scale.rounds):
        with _servers(scale, Kind.KEEPING) as trio:
            _warm(trio, requests[scale.requests :])
            for burst in _bursts(requests[: scale.requests]):
                for server in trio:
                    server.load(burst)
        _add(rounds, *trio)
    return rounds


def ingest_at_256(scale: Scale) -> Rounds:
    """The same over 256 connections."""
    return ingest(replace(scale, connections=256))


def ingest_folding(scale: Scale) -> Rounds:
    """Accept durably while what was accepted is folded."""
    rounds, requests = Rounds(), _requests(scale)
    for _ in range(scale.rounds):
        with _servers(scale, Kind.FOLDING) as trio:
            _warm(trio, requests[scale.requests :])
            # In one go: between bursts folding would catch up at the others' cost.
            for server in trio:
                server.load(requests[: scale.requests])
                if server.kind is Kind.FOLDING:
                    behind, seconds = uvloop.run(_until_folded(server.database))
                    lag = _longest_lag(server.database)
        _add(rounds, *trio)
        rounds.add("not folded at the end of the load", "rows", behind)
        rounds.add("until all is folded", "s", seconds)
        rounds.add("longest from arrival to fold", "s", lag)
    return rounds


def _requests(scale: Scale) -> list[bytes]:
    return orders.requests(scale.requests + scale.requests // WARMING_SHARE)


def _bursts(requests: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    size = -(-len(requests) // BURSTS)
    for start in range(0, len(requests), size):
        yield requests[start : start + size]


@contextmanager
def _servers(scale: Scale, kind: Kind) -> Iterator[list[_Server]]:
    """Run ours between two bare ones, and in the end hold ours to its database."""
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        trio = []
        with ExitStack() as running:
            for place, each in enumerate((Kind.BARE, kind, Kind.BARE)):
                database = Path(folder) / f"{place}.db"
                serving = servers.serving(each, database)
                port, pid = running.enter_context(serving)
                trio.append(_Server(each, database, port, pid, scale.connections))
            yield trio
        _check(trio[1])


def _warm(trio: Sequence[_Server], requests: Sequence[bytes]) -> None:
    for server in trio:
        server.send(requests)
        if server.kind is Kind.FOLDING:
            uvloop.run(_until_folded(server.database))


def _add(rounds: Rounds, before: _Server, ours: _Server, after: _Server) -> None:
    bare = Loaded()
    bare.add(before.loaded)
    bare.add(after.loaded)
    rounds.add("ratio to bare", "x", ours.loaded.per_second / bare.per_second)
    control = after.loaded.per_second / before.loaded.per_second
    rounds.add("control, bare to bare", "x", control)
    spent = (before.processor_seconds + after.processor_seconds) / 2
    if ours.kind is Kind.KEEPING and ours.processor_seconds:
        ratio = spent / ours.processor_seconds
        rounds.add("ratio by processor time", "x", ratio)
    foreign = max(server.foreign_share for server in (before, ours, after))
    rounds.add("core taken by other programs", "%", 100 * foreign)
    for whose, loaded in (("ours", ours.loaded), ("bare", bare)):
        rounds.add(whose, "requests/s", loaded.per_second)
        rounds.add(f"{whose}, p50", "ms", loaded.percentile_ms(0.5))
        rounds.add(f"{whose}, p99", "ms", loaded.percentile_ms(0.99))


def _check(ours: _Server) -> None:
    """Hold the database to what was answered; the server has closed it by now."""
    folded = ours.accepted if ours.kind is Kind.FOLDING else 0
    database = database_at(ours.database)
    kept = database.row_counts()
    with database.inbox_export() as inbox:
        outcomes = inbox.outcomes()
    agree("rows in the inbox", ours.accepted, kept["inbox"])
    agree("events folded", folded, outcomes.get("folded", 0))
    agree("orders in the mirror", folded, kept["orders"])


def _longest_lag(database: Path) -> float:
    """Return the most seconds from the arrival of an event to its fold."""
    times = rows_of(database, "events", "received_at", "folded_at")
    lags = (from_text(folded) - from_text(arrived) for arrived, folded in times)
    return max(lags).total_seconds()


def _behind(database: Path) -> int:
    with database_at(database).reader() as reader:
        return reader.counts().to_fold


async def _until_folded(database: Path) -> tuple[int, float]:
    """Return how many rows were not folded, and after how many seconds all are."""
    started = moved_at = perf_counter()
    behind = left = _behind(database)
    while left:
        await asyncio.sleep(POLL_SECONDS)
        before, left = left, _behind(database)
        if left != before:
            moved_at = perf_counter()
        elif perf_counter() - moved_at > STALL_SECONDS:
            raise CountsDisagreeError(f"folding stopped with {left} rows left")
    return behind, perf_counter() - started
