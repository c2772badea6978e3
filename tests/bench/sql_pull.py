"""Row `sql-pull`: rows of a table as records, beside a reader that only reads them."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import uvloop

from backhaul_connectors.sql import Sql
from backhaul_connectors.sql.settings import Settings
from bench import machine
from bench.results import Rounds, agree

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.results import Scale

FEWEST = 1_000
FOLLOWED = {"changed_at": "changed_at"}
MAKE = """CREATE TABLE shipments (id integer PRIMARY KEY, order_number text,
    tracking_company text, tracking_number text, changed_at text)"""
PAGE = """SELECT id, changed_at, order_number, tracking_company, tracking_number
    FROM shipments WHERE (changed_at, id) > (?, ?) ORDER BY changed_at, id LIMIT 1000"""


def sql_pull(scale: Scale) -> Rounds:
    """Pull a table of shipments through the connector, and read the same pages."""
    rounds = Rounds()
    count = max(scale.orders, FEWEST)
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        file = Path(folder, "erp.db")
        _fill(file, count)
        for _ in range(scale.rounds):
            with machine.measured_core():
                ours = _timed(lambda: uvloop.run(_pulled(file)), count)
                bare = _timed(lambda: _read(file), count)
            rounds.add("ours, rows", "1/s", ours)
            rounds.add("bare, rows", "1/s", bare)
            rounds.add("ratio to bare", "", ours / bare)
    return rounds


def _fill(file: Path, count: int) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(MAKE)
        connection.execute("CREATE INDEX by_change ON shipments (changed_at, id)")
        rows = (
            (number, f"A-{number}", "BlueDart", f"BD{number}", _moment(number))
            for number in range(count)
        )
        connection.executemany("INSERT INTO shipments VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()


def _timed(work: Callable[[], int], count: int) -> float:
    """Return the rows a second; the work says how many it had."""
    began = perf_counter()
    agree("rows read", count, work())
    return count / (perf_counter() - began)


async def _pulled(file: Path) -> int:
    settings = Settings.model_validate(
        {"url": f"sqlite:///{file}", "fulfillments": {"table": "shipments", **FOLLOWED}}
    )
    connector = Sql("bench", settings)
    await connector.open()
    try:
        return sum([len(batch.records) async for batch in connector.pull(None)])
    finally:
        await connector.close()


def _read(file: Path) -> int:
    """Read the same pages with the driver alone, and make nothing of them."""
    found, place = 0, ("", 0)
    with closing(sqlite3.connect(file)) as connection:
        while rows := connection.execute(PAGE, place).fetchall():
            found += len(rows)
            place = (rows[-1][1], rows[-1][0])
    return found


def _moment(number: int) -> str:
    day = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    return day.isoformat(" ", "seconds")
