"""More folded into a mirror, a process of its own: `python -m bench.folding_more`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer
import uvloop

from backhaul.core.clock import SystemClock
from backhaul.store import database_at
from backhaul.store.sqlite.opening import open_store
from bench import machine, orders
from bench.draining import append, fold_all

if TYPE_CHECKING:
    from collections.abc import Iterable


class FoldedMore(msgspec.Struct):
    """Seconds of the clock and of the processor; what was noted; memory at its most."""

    held: int
    new: tuple[float, float]
    changed: tuple[float, float]
    noted: int
    orders: int
    resident_bytes: int


async def _fold(database: Path, count: int, changed: Iterable[int]) -> FoldedMore:
    before = database_at(database).row_counts()
    held = before["orders"]
    store = open_store(database, SystemClock())
    store.start()
    try:
        await append(store, "orders/create", orders.bodies(count, orders.FIRST + held))
        new = await fold_all(store)
        await append(store, "orders/updated", orders.changes(changed))
        old = await fold_all(store)
    finally:
        await store.stop()
    after = database_at(database).row_counts()
    return FoldedMore(
        held,
        new,
        old,
        after["changes"] - before["changes"],
        after["orders"] - held,
        machine.peak_resident_bytes(os.getpid()),
    )


def main(database: str, count: int, first: int, step: int) -> None:
    """Fold so many new orders, then a change of every `step`th; print JSON."""
    changed = (orders.FIRST + first + step * index for index in range(count))
    found = uvloop.run(_fold(Path(database), count, changed))
    typer.echo(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    typer.run(main)
