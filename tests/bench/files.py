"""Row `files`: rows of a CSV file into records, beside a bare reader of that file."""

from __future__ import annotations

import asyncio
import csv
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop import FileDrop
from backhaul_connectors.file_drop.settings import Settings
from bench.results import Rounds, agree

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.results import Scale

ROWS_AN_ORDER = 5
HEADER = "order,tracking_company,tracking_number\n"


def files(scale: Scale) -> Rounds:
    """Read the same file both ways in each round; nothing is stored."""
    rounds = Rounds()
    count = scale.orders * ROWS_AN_ORDER
    for _ in range(scale.rounds):
        with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
            path = Path(folder, "fulfillments.csv")
            path.write_text(
                HEADER + "".join(f"{n},DHL,JJD{n:012}\n" for n in range(count)),
                encoding="utf-8",
            )
            bare, bare_busy = _timed(partial(_bare, path), count + 1)
            ours, busy = _timed(partial(_run, path.parent), count)
        rounds.add("rows into records", "1/s", count / ours)
        rounds.add("rows into records by processor time", "1/s", count / busy)
        rounds.add("bare", "1/s", count / bare)
        rounds.add("ratio to bare", "", bare / ours)
        rounds.add("ratio to bare by processor time", "", bare_busy / busy)
    return rounds


def _timed(read: Callable[[], int], count: int) -> tuple[float, float]:
    """Return seconds, and seconds of the processor."""
    busy, began = process_time(), perf_counter()
    agree("rows", count, read())
    return perf_counter() - began, process_time() - busy


def _bare(path: Path) -> int:
    with path.open(encoding="utf-8", newline="") as stream:
        return sum(1 for _ in csv.reader(stream))


def _run(folder: Path) -> int:
    return asyncio.run(_records(folder))


async def _records(folder: Path) -> int:
    settings = Settings(path=folder, unchanged_seconds=0)
    connector = FileDrop("bench", settings)
    await connector.open()
    return sum([len(batch.records) async for batch in connector.pull(None)])
