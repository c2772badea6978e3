"""The measured fold, a process of its own: `python -m bench.folding`."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import typer
import uvloop

from backhaul.core.clock import SystemClock
from backhaul.store.sqlite.connections import open_writer
from backhaul.store.sqlite.opening import open_store
from bench.draining import Timer, append, fold_all
from bench.orders import bodies

ROWS_A_COMMIT = 32
"""About as many orders as one slice of folding takes."""
TABLES = (
    "delivery_digests",
    "orders",
    "order_items",
    "shipments",
    "changes",
    "event_outcomes",
)
"""What an order's fold writes."""


class Folded(msgspec.Struct):
    """What one run found: seconds are of the clock and of the processor."""

    seconds: float
    cpu_seconds: float
    plain_seconds: float
    plain_cpu_seconds: float
    counts: dict[str, int]


async def _fold(database: Path, count: int) -> tuple[float, float]:
    store = open_store(database, SystemClock())
    store.start()
    try:
        await append(store, "orders/create", bodies(count))
        return await fold_all(store)
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
    timer = Timer()
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
