"""Since when the mirror is known to be as the platform."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.store.sql.mirror.sync_progress import sync_states
from backhaul.store.sqlite.connections import open_reader
from backhaul.sync.resource_types import KINDS
from scenes.clock import START, VirtualClock
from scenes.databases import started_store

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store.mirror import SyncState
    from backhaul.store.sqlite.database import SqliteStore


async def walk(store: SqliteStore, **notes: str) -> None:
    for kind in KINDS:
        at = await store.passes.begin("main", "full", kind)
        await store.passes.end(at.pass_id, 0, notes.get(kind, ""))


def proved(path: Path) -> SyncState:
    with closing(open_reader(path)) as connection:
        return sync_states(connection)["main"]


def equal_since(path: Path) -> str | None:
    return proved(path).as_of


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


async def test_when_a_store_was_first_read_is_told_before_anything_is_proved(
    tmp_path: Path,
) -> None:
    """Or nobody would be alerted to a store whose lists never read through."""
    clock = VirtualClock(START)
    async with started_store(tmp_path / "backhaul.db", clock) as store:
        assert await first_read(store) == {}
        begun = clock.now().timestamp()
        await store.passes.begin("main", "backfill", "orders")
        await clock.advance(3600)
        await walk(store)
        await store.passes.begin("other", "incremental", "orders")
        assert await first_read(store) == {"main": begun}


async def first_read(store: SqliteStore) -> dict[str, float]:
    return {
        labels[0]: round(value, 2)
        for name, value, labels in await store.gauges.current([])
        if name == "first_read_timestamp_seconds"
    }


REFUSED = "the platform answered GET /orders with 403 no"


async def test_a_list_that_was_proved_and_is_refused_now_holds_the_time_back(
    tmp_path: Path,
) -> None:
    """What it held then is still in the mirror, and nobody knows whether it is so."""
    clock = VirtualClock(START)
    async with started_store(tmp_path / "backhaul.db", clock) as store:
        await walk(store)
        await clock.advance(86_400)
        await walk(store, orders=REFUSED)
        found = proved(store.path)
        assert found.as_of == "2026-03-01T12:00:00.000Z"
        assert found.kinds["orders"] == REFUSED
        assert found.kinds["products"] == "2026-03-02T12:00:00.000Z"
        assert found.unread == ["orders"]
        await walk(store)
        assert proved(store.path).unread == []
        assert equal_since(store.path) == "2026-03-02T12:00:00.000Z"


async def test_a_list_that_could_never_be_read_has_no_say(tmp_path: Path) -> None:
    async with started_store(tmp_path / "backhaul.db", VirtualClock(START)) as store:
        await walk(store, orders=REFUSED)
        found = proved(store.path)
    assert (found.as_of, found.unread) == ("2026-03-01T12:00:00.000Z", ["orders"])


@pytest.mark.parametrize("job", ["full", "backfill"])
async def test_a_list_that_was_read_and_never_proved_proves_nothing(
    tmp_path: Path, job: str
) -> None:
    async with started_store(tmp_path / "backhaul.db", VirtualClock(START)) as store:
        at = await store.passes.begin("main", job, "orders")
        await store.passes.end(at.pass_id, 1)
        await walk(store, orders=REFUSED)
        assert equal_since(store.path) is None


async def test_a_list_that_was_refused_amid_its_only_walk_proves_nothing(
    tmp_path: Path,
) -> None:
    async with started_store(tmp_path / "backhaul.db", VirtualClock(START)) as store:
        at = await store.passes.begin("main", "backfill", "orders")
        await store.passes.advance(replace(at, page=1, read=100), [], {})
        await store.passes.end(at.pass_id, 0, REFUSED)
        await walk(store, orders=REFUSED)
        assert equal_since(store.path) is None


async def test_a_mirror_is_in_sync_only_once_every_list_was_read(
    tmp_path: Path,
) -> None:
    async with started_store(tmp_path / "backhaul.db", VirtualClock(START)) as store:
        for kind in list(KINDS)[:-1]:
            at = await store.passes.begin("main", "full", kind)
            await store.passes.end(at.pass_id, 0)
        assert equal_since(store.path) is None
        await walk(store)
        assert equal_since(store.path) is not None
