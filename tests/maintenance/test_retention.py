"""Old bodies are pruned; open work and the outcomes of commands are kept."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul.maintenance.database_jobs import REST_SECONDS, Pruner
from backhaul.store import database_at
from backhaul.store.inbox import Arrival
from backhaul.store.operations import Pruned
from scenes import payloads
from scenes.clock import START, VirtualClock, run_ready_tasks
from scenes.damaged_rows import overwrite
from scenes.databases import event_states, fold_all, mirror_of, started_store
from scenes.stored import rows_of, values_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place, Store
    from scenes.stored import Row


DAYS = 30
BEFORE = to_text(START - timedelta(days=DAYS))
OLD, NEW = timedelta(days=31), timedelta(days=29)


@pytest.fixture
async def store(database: Place) -> AsyncIterator[Store]:
    async with started_store(database, VirtualClock()) as started:
        yield started


async def arrive(store: Store, age: timedelta, *bodies: bytes) -> None:
    """Append deliveries with an age, without folding them."""
    at = to_text(START - age)
    for body in bodies:
        await store.inbox.append(Arrival("main", "delivery", "", at, b"{}", body))


def order(number: int) -> bytes:
    document = payloads.order(f"ord_{number}", number=number)
    return payloads.envelope("orders/create", document)


async def prune(store: Store) -> int:
    total = 0
    while (step := await store.retention.prune(BEFORE, 1.0)).more:
        total += step.erased
    return total


def kept(store: Store) -> dict[int, bool]:
    return {
        id_: body != b"" for id_, body in rows_of(store.place, "events", "id", "body")
    }


def outcomes(store: Store) -> list[Row]:
    columns = ("id", "state", "topic", "event_id", "kind", "object_id", "detail")
    return rows_of(store.place, "events", *columns, "folded_at")


async def test_old_rows_are_pruned_and_recent_rows_stay(store: Store) -> None:
    await arrive(store, OLD, order(1), order(1), b"{}")
    await arrive(store, NEW, order(2))
    await fold_all(store)
    before = mirror_of(store.place), outcomes(store)
    # the second is a duplicate, the third has an unknown topic
    assert await prune(store) == 3
    *old, young = rows_of(store.place, "events", "id", "body", "headers", "erased_by")
    assert old == [(id_, b"", b"", "retention") for id_ in (1, 2, 3)]
    assert young[0] == 4
    assert b"ord_2" in young[1]
    assert young[2:] == (b"{}", None)
    assert (mirror_of(store.place), outcomes(store)) == before
    assert await prune(store) == 0


async def test_a_pruned_delivery_that_comes_again_is_known(store: Store) -> None:
    body = order(1)
    await arrive(store, OLD, body)
    await fold_all(store)
    await prune(store)
    await arrive(store, NEW, body)
    await fold_all(store)
    assert event_states(store.place) == ["folded", "duplicate"]


async def test_an_event_that_is_not_folded_is_never_pruned(store: Store) -> None:
    await arrive(store, OLD, *(order(n) for n in range(5)))
    assert await prune(store) == 0
    assert all(kept(store).values())
    await fold_all(store)
    assert await prune(store) == 5


async def test_waiting_work_is_never_pruned(store: Store) -> None:
    await arrive(store, OLD, order(1), order(2), order(3))
    await fold_all(store)
    overwrite(store.place, "event_outcomes", {"state": "waiting"}, id=2)
    assert await prune(store) == 1
    assert kept(store) == {1: False, 2: True, 3: True}


async def test_an_open_quarantine_row_keeps_its_body_until_it_is_decided(
    store: Store,
) -> None:
    await arrive(store, OLD, order(1), b"no json", *(order(n) for n in range(2, 200)))
    await fold_all(store)
    assert await prune(store) == 199
    assert [id_ for id_, there in kept(store).items() if there] == [2]
    assert values_of(store.place, "quarantine", "raw") == [b"no json"]
    await store.quarantine.discard(1, "kim", "a test of the platform")
    assert await prune(store) == 1
    assert not any(kept(store).values())
    assert values_of(store.place, "quarantine", "raw") == [b""]


async def test_a_run_of_rows_that_must_stay_does_not_end_the_pruning(
    store: Store,
) -> None:
    await arrive(store, OLD, *(b"no json %d" % n for n in range(150)), order(1))
    await fold_all(store)
    assert await prune(store) == 1


AHEAD = timedelta(days=-365)


async def test_events_from_a_clock_that_was_ahead_are_as_old_as_their_neighbours(
    store: Store,
) -> None:
    await arrive(store, OLD, order(1))
    await arrive(store, AHEAD, order(2), order(3))
    await arrive(store, OLD, order(4))
    await arrive(store, AHEAD, order(5))
    await arrive(store, NEW, order(6))
    await fold_all(store)
    assert await prune(store) == 4
    assert [id_ for id_, there in kept(store).items() if there] == [5, 6]


async def test_a_last_event_ahead_of_the_clock_stays(store: Store) -> None:
    await arrive(store, OLD, order(1))
    await arrive(store, AHEAD, order(2))
    await fold_all(store)
    assert await prune(store) == 1
    assert [id_ for id_, there in kept(store).items() if there] == [2]


async def test_why_still_explains_and_says_that_the_body_went(
    store: Store,
) -> None:
    await arrive(store, OLD, order(1))
    await fold_all(store)
    await prune(store)
    with database_at(store.place).reader() as known:
        (found,) = known.find_objects("order", "1")
        (event,) = known.timeline("order", found)
    assert (event.what, event.state) == ("event 1", "folded")
    assert event.detail == f"body pruned on {to_text(START)[:10]}"


class Slices:
    """Has rows to prune for a number of slices."""

    def __init__(self, slices: int) -> None:
        self.left = slices

    async def prune(self, before: str, slice_seconds: float) -> Pruned:
        assert before == BEFORE
        assert slice_seconds <= 0.005
        self.left -= 1
        return Pruned(1, self.left > 0)


async def test_pruning_pauses_after_each_slice_for_other_writers() -> None:
    clock, work = VirtualClock(), Slices(3)
    pruner = Pruner(work, DAYS, clock)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(pruner.run())
        for left in (2, 1, 0):
            await run_ready_tasks()
            assert work.left == left
            await clock.advance(REST_SECONDS)
        running.cancel()
