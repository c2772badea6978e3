"""Rows `sustained`, `storm-of-changes` and `burst`: a whole daemon under load.

Server and load share all cores. In the first two the load pauses while the fold is
late, so the figures are what the daemon receives and folds for as long as one likes. In
a burst the load does not pause, and the fold catches up afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

import uvloop
from msgspec import Struct

from backhaul.core.clock import SystemClock
from backhaul.store import open_store
from bench import load, machine, orders, servers
from bench.daemon import STORE_ID, Daemon
from bench.load import Gate, Loaded
from bench.peers import MissingError
from bench.results import CountsDisagreeError, Rounds, agree
from bench.serving import Kind
from bench.webhook_peers import FastapiFolding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.results import Scale

SHAPES = (0, 1, 2)
"""The numbers of receiver processes."""
LATE_SECONDS = 0.5
"""The load pauses while the fold is as late as that."""
LOOK_SECONDS = 0.02
STALL_SECONDS = 300
LONGER = 5
"""How many times as long as a server of other rows each is loaded."""
BURST = 30
"""The same for a burst; its load is a share of what is received without a fold."""
BURST_SHARE = 0.9
CHANGED = 10_000
"""How many orders change again and again."""
_FOLDED = "SELECT coalesce((SELECT value FROM kv WHERE name = 'fold_cursor'), 0)"
_LAG = """
    SELECT max(julianday(folded_at) - julianday(received_at)) * 86400, count(*)
    FROM events WHERE source = 'delivery'
"""
_OUTCOMES = "SELECT state, count(*) FROM event_outcomes GROUP BY state"


Pace: TypeAlias = "Callable[[float, int, int], bool]"
"""Whether the load goes on, by the elapsed seconds, and the events sent and folded."""


class _Kept(Struct):
    """What a daemon did with one load: events a second, and seconds.

    `received` is the rate during the load; `drained` the seconds to fold what was left.
    """

    per_second: float
    lag: float
    p99_ms: float
    processor_ms: float
    received: float
    drained: float


class _Target(Struct):
    """A server that receives and folds."""

    port: int
    pid: int
    database: Path


class _Sent(Struct):
    """A load, the seconds until all of it was folded, and those of processors."""

    loaded: Loaded
    elapsed: float
    processor_seconds: float


def sustained(scale: Scale) -> Rounds:
    """Receive and fold new orders, without and with receiver processes."""
    rounds = Rounds()
    peer = _peer(scale, rounds)
    for _ in range(scale.rounds):
        with _folder(scale) as folder:
            bare = _served(scale, Kind.BARE, folder / "bare.db")
            rounds.add("bare", "requests/s", bare)
            best = 0.0
            for number in SHAPES:
                kept = _load(scale, folder / f"{number}", number, _new_orders())
                _add(rounds, f"receivers = {number}", kept, bare)
                best = max(best, kept.per_second)
            if peer is not None:
                kept = _load_peer(peer, scale, folder / "peer")
                _add(rounds, peer.name, kept, bare)
                rounds.add("the best to that peer", "x", best / kept.per_second)
            again = _served(scale, Kind.BARE, folder / "again.db")
            rounds.add("control, bare to bare", "x", again / bare)
    return rounds


def _peer(scale: Scale, rounds: Rounds) -> FastapiFolding | None:
    try:
        return FastapiFolding(scale.directory / "peers") if scale.peers else None
    except MissingError as error:
        rounds.remarks.append(str(error))
        return None


def _add(rounds: Rounds, name: str, kept: _Kept, bare: float) -> None:
    rounds.add(f"{name}, ratio to bare", "x", kept.per_second / bare)
    rounds.add(f"{name}, folded", "events/s", kept.per_second)
    rounds.add(f"{name}, longest from arrival to fold", "s", kept.lag)
    rounds.add(f"{name}, p99", "ms", kept.p99_ms)
    rounds.add(f"{name}, processor time", "ms/event", kept.processor_ms)


def storm_of_changes(scale: Scale) -> Rounds:
    """Receive and fold changes of the same orders all the time, beside new orders."""
    rounds = Rounds()
    for _ in range(scale.rounds):
        with _folder(scale) as folder:
            for number in SHAPES:
                name = f"receivers = {number}"
                new = _load(scale, folder / f"new{number}", number, _new_orders())
                same = _load(scale, folder / f"same{number}", number, _changes())
                ratio = same.per_second / new.per_second
                rounds.add(f"{name}, ratio to new orders", "x", ratio)
                rounds.add(f"{name}, folded", "events/s", same.per_second)
                rounds.add(f"{name}, longest from arrival to fold", "s", same.lag)
    return rounds


def burst(scale: Scale) -> Rounds:
    """Receive nearly as fast as a server that does not fold, and fold all of it."""
    rounds = Rounds()
    for _ in range(scale.rounds):
        with _folder(scale) as folder:
            received = _served(scale, Kind.KEEPING, folder / "kept.db")
            rounds.add("received without a fold", "requests/s", received)
            asked = received * BURST_SHARE
            for number in SHAPES[:2]:
                kept = _load(
                    scale, folder / f"{number}", number, _new_orders(), BURST, asked
                )
                name = f"receivers = {number}"
                rounds.add(f"{name}, ratio to that rate", "x", kept.received / received)
                rounds.add(f"{name}, received", "events/s", kept.received)
                rounds.add(f"{name}, p99", "ms", kept.p99_ms)
                rounds.add(f"{name}, all folded after", "s", kept.drained)
    return rounds


@contextmanager
def _folder(scale: Scale) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=scale.directory) as name:
        yield Path(name)


def _new_orders() -> Iterator[bytes]:
    return map(orders.request, orders.bodies(10**9))


def _changes() -> Iterator[bytes]:
    """Yield changes without end; each order's versions follow one another."""
    for version in itertools.count(2):
        yield from map(orders.request, orders.versions(CHANGED, version))


def _served(scale: Scale, kind: Kind, database: Path) -> float:
    """Return how many requests a second a server without a fold answers."""
    with servers.serving(kind, database, machine.all_cores) as (port, _):
        requests = load.until(perf_counter() + scale.seconds, _new_orders())
        return load.send(port, requests, scale.connections).per_second


def _load(
    scale: Scale,
    folder: Path,
    number: int,
    requests: Iterator[bytes],
    longer: int = LONGER,
    rate: float | None = None,
) -> _Kept:
    """Load a new daemon, wait until all is folded, and hold it to its database.

    The load has at most this rate; without one it pauses while the fold is late.
    """
    with _running(folder, number) as target:
        loaded = _sent(target, scale, requests, longer, rate)
    return _counted(target, loaded)


def _load_peer(peer: FastapiFolding, scale: Scale, folder: Path) -> _Kept:
    """Do the same with a peer that receives otherwise, and folds the same."""
    folder.mkdir()
    database = folder / "backhaul.db"
    open_store(database, SystemClock())
    with peer.run(database, STORE_ID) as (port, pid):
        target = _Target(port, pid, database)
        loaded = _sent(target, scale, _new_orders(), LONGER, None)
    return _counted(target, loaded)


@contextmanager
def _running(folder: Path, number: int) -> Iterator[_Target]:
    daemon = Daemon(folder, receivers=number)
    _, pid = daemon.start(on_all_cores=True)
    yield _Target(daemon.public_port, pid, daemon.database)
    daemon.stop()


def _sent(
    target: _Target,
    scale: Scale,
    requests: Iterator[bytes],
    longer: int,
    rate: float | None,
) -> _Sent:
    """Send requests, and wait until all are folded."""
    processor = partial(machine.family_seconds, target.pid)
    began, used = perf_counter(), processor()
    requests = load.until(began + scale.seconds * longer, requests)
    pace = _while_folded(scale.connections) if rate is None else _at(rate)
    loaded, elapsed = uvloop.run(_paced(target, requests, scale.connections, pace))
    return _Sent(loaded, elapsed, processor() - used)


def _counted(target: _Target, sent: _Sent) -> _Kept:
    """Hold what was answered to the database."""
    loaded, elapsed = sent.loaded, sent.elapsed
    events = loaded.statuses[200]
    agree("answers", {200: len(loaded.latencies)}, dict(loaded.statuses))
    with closing(sqlite3.connect(target.database)) as connection:
        lag, stored = connection.execute(_LAG).fetchone()
        outcomes = dict(connection.execute(_OUTCOMES))
    agree("webhooks in the database", events, stored)
    agree("webhooks folded", {"folded": events}, outcomes)
    shutil.rmtree(target.database.parent)  # ten minutes are many gigabytes
    return _Kept(
        events / elapsed,
        lag,
        loaded.percentile_ms(0.99),
        1_000 * sent.processor_seconds / events,
        loaded.per_second,
        elapsed - loaded.seconds,
    )


def _while_folded(connections: int) -> Pace:
    """Go on while the fold is late by less than `LATE_SECONDS` at its own rate."""

    def goes_on(elapsed: float, sent: int, folded: int) -> bool:
        return sent - folded <= max(folded / elapsed * LATE_SECONDS, connections)

    return goes_on


def _at(rate: float) -> Pace:
    """Go on at a rate, whatever is folded."""
    return lambda elapsed, sent, _: sent <= rate * elapsed


async def _paced(
    target: _Target, requests: Iterator[bytes], connections: int, pace: Pace
) -> tuple[Loaded, float]:
    """Send at a pace; return when all is folded, after how long."""
    gate, began = Gate(), perf_counter()
    sent = 0

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for request in requests:
            sent += 1
            yield request

    with closing(sqlite3.connect(target.database)) as connection:
        folded = partial(_folded, connection)
        work = load.send_through(gate, target.port, counted(), connections)
        sending = asyncio.create_task(work)
        while not sending.done():
            gate.turn(is_open=pace(perf_counter() - began, sent, folded()))
            await asyncio.sleep(LOOK_SECONDS)
        await _until(lambda: folded() >= sent)
        return await sending, perf_counter() - began


def _folded(connection: sqlite3.Connection) -> int:
    """Return how many events are folded: their ids begin at 1 and have no gap."""
    return int(connection.execute(_FOLDED).fetchone()[0])


async def _until(is_done: Callable[[], bool]) -> None:
    began = perf_counter()
    while not is_done():
        if perf_counter() > began + STALL_SECONDS:
            raise CountsDisagreeError("not every event was folded")
        await asyncio.sleep(LOOK_SECONDS)
