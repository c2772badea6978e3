"""Since when the mirror is known to be as the platform."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from backhaul.reconcile.kinds import KINDS
from backhaul.store.sqlite.connections import open_reader
from backhaul.store.sqlite.consistency import consistency
from support.clock import START, VirtualClock
from support.databases import started_store

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store.sqlite.database import SqliteStore


async def walk(store: SqliteStore) -> None:
    for kind in KINDS:
        at = await store.sweeps.begin("main", "full", kind)
        await store.sweeps.end(at.sweep, 0)


def equal_since(path: Path) -> str | None:
    with closing(open_reader(path)) as connection:
        found: str | None = consistency(connection)["main"]["as_of"]
        return found


async def test_a_walk_that_a_clock_ahead_has_dated_gives_way_to_the_next(
    tmp_path: Path,
) -> None:
    """Or the mirror would be called equal as of a time that has not come."""
    clock = VirtualClock(START)
    async with started_store(tmp_path / "backhaul.db", clock) as store:
        clock.set_back(-86_400)
        await walk(store)
        assert equal_since(store.path) == "2026-03-02T12:00:00.000Z"
        clock.set_back(86_400)
        await clock.advance(60)
        await walk(store)
        assert equal_since(store.path) == "2026-03-01T12:01:00.000Z"
