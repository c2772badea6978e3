"""The measured fold, a process of its own: `python -m bench.folding`."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import msgspec
import typer
import uvloop

from backhaul.core.clock import SystemClock, to_text
from backhaul.ingest.drain import Drain
from backhaul.store.contract import Arrival
from backhaul.store.opening import open_store
from backhaul.store.sqlite.connections import open_writer
from bench.orders import STORE, bodies

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from backhaul.store.contract import FoldOne, FoldReport, Inbox
    from backhaul.store.sqlite.database import SqliteStore

APPENDED_AT_ONCE = 1_000
ROWS_A_COMMIT = 32
"""About as many orders as one slice of folding takes."""
TABLES = ("seen", "orders", "order_items", "shipments", "changes", "event_outcomes")
"""What an order's fold writes."""


class Folded(msgspec.Struct):
    """What one run found: seconds are of the clock and of the processor."""

    seconds: float
    cpu_seconds: float
    plain_seconds: float
    plain_cpu_seconds: float
    counts: dict[str, int]


class _Timer:
    def __init__(self) -> None:
        self._started = perf_counter(), process_time()

    def read(self) -> tuple[float, float]:
        return perf_counter() - self._started[0], process_time() - self._started[1]


async def _append(store: SqliteStore, count: int) -> None:
    now = to_text(SystemClock().now())
    pending = []
    for body in bodies(count):
        arrival = Arrival(STORE, "delivery", "orders/create", now, b"{}", body)
        pending.append(store.inbox.append(arrival))
        if len(pending) == APPENDED_AT_ONCE:
            await asyncio.gather(*pending)
            pending.clear()
    await asyncio.gather(*pending)


class _Watched:
    """The inbox, telling when nothing is left to fold."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.emptied = asyncio.Event()

    def append(self, arrival: Arrival) -> Awaitable[int]:
        return self._inbox.append(arrival)

    async def fold(self, fold_one: FoldOne, slice_seconds: float) -> FoldReport:
        report = await self._inbox.fold(fold_one, slice_seconds)
        if not report.more:
            self.emptied.set()
        return report


async def _fold(database: Path, count: int) -> tuple[float, float]:
    """Fold with the shipped drain until it finds nothing left."""
    clock = SystemClock()
    store = open_store(database, clock)
    store.start()
    try:
        await _append(store, count)
        watched = _Watched(store.inbox)
        timer = _Timer()
        async with asyncio.TaskGroup() as tasks:
            drain = Drain(watched, clock, {}, lambda: None)
            running = tasks.create_task(drain.run())
            await watched.emptied.wait()
            running.cancel()
        return timer.read()
    finally:
        await store.stop()


def _write_plainly(folded: Path, into: Path, count: int) -> tuple[float, float]:
    """Write what the fold wrote by plain `executemany`: same schema, same promises."""
    open_store(into, SystemClock())
    connection, source = open_writer(into), sqlite3.connect(folded)
    # Rows come without their inbox: the baseline reads no events.
    connection.execute("PRAGMA foreign_keys=OFF")
    tables = {name: _rows(source, name) for name in TABLES}
    source.close()
    timer = _Timer()
    for start in range(0, count, ROWS_A_COMMIT):
        connection.execute("BEGIN IMMEDIATE")
        for name, rows in tables.items():
            share = len(rows) // count
            _insert(
                connection, name, rows[start * share : (start + ROWS_A_COMMIT) * share]
            )
        connection.execute("COMMIT")
    taken = timer.read()
    connection.close()
    return taken


def _rows(connection: sqlite3.Connection, table: str) -> list[Any]:
    return connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()  # noqa: S608 - constants


def _insert(connection: sqlite3.Connection, table: str, rows: list[Any]) -> None:
    if rows:
        places = ",".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608 - constants


def _counts(database: Path) -> dict[str, int]:
    connection = sqlite3.connect(database)
    counted = {
        name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608 - constants
        for name in ("inbox", *TABLES)
    }
    connection.close()
    return counted


def main(directory: str, count: int) -> None:
    """Append so many orders, fold them, write the same rows plainly; print JSON."""
    mirror, plain = Path(directory, "mirror.db"), Path(directory, "plain.db")
    taken = uvloop.run(_fold(mirror, count))
    found = Folded(*taken, *_write_plainly(mirror, plain, count), _counts(mirror))
    typer.echo(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    typer.run(main)
