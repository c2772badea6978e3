"""Every webhook up to fifty times, at once and a day apart, has one effect."""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul.ingest.topics import decode_event
from backhaul.store import database_at
from backhaul.store.inbox import Arrival
from scenes.captures import captured
from scenes.clock import RunningClock
from scenes.databases import dump, started_store
from scenes.receiver import served

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backhaul.store.inbox import Decoded, StoredEvent
    from backhaul.store.sqlite.database import SqliteStore

LONG = os.environ.get("FAULTS") == "long"
SEEDS = range(1, 21 if LONG else 3)
MOST = 50
DAY_SECONDS = 86_400.0
EFFECTS = ("changes", "stock_ledger", "delivery_digests")


def fold(event: StoredEvent) -> Decoded:
    return decode_event(event, store_id=None, currency="INR")


async def fold_all(store: SqliteStore) -> None:
    while (await store.inbox.fold(fold, 0.05)).more:
        pass


def effects(path: Path) -> tuple[list[int], list[bytes]]:
    rows = database_at(path).row_counts()
    return [rows[table] for table in EFFECTS], list(dump(path))


def times(bodies: Sequence[bytes], seed: int) -> list[int]:
    """Return how often each is sent: anything from once to `MOST` times."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, and nothing secret
    return [chance.randint(1, MOST) for _ in bodies]


@pytest.fixture(scope="module")
def bodies() -> tuple[bytes, ...]:
    """The deliveries of a real shop, all nine topics."""
    return captured().bodies


@pytest.fixture(scope="module")
def once(
    bodies: tuple[bytes, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[int], list[bytes]]:
    path = tmp_path_factory.mktemp("once") / "b.db"
    asyncio.run(_deliver(path, bodies, [1] * len(bodies), days=1))
    return effects(path)


async def _deliver(
    path: Path, bodies: Sequence[bytes], numbers: Sequence[int], days: int
) -> None:
    clock = RunningClock()
    async with started_store(path, clock) as store:
        for _ in range(days):
            at = to_text(clock.now())
            for body, number in zip(bodies, numbers, strict=True):
                one = Arrival("main", "delivery", "", at, b"{}", body)
                await asyncio.gather(*(store.inbox.append(one) for _ in range(number)))
                await fold_all(store)
            await clock.sleep(DAY_SECONDS)


@pytest.mark.faults
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_day_apart_they_have_one_effect(
    seed: int,
    bodies: tuple[bytes, ...],
    once: tuple[list[int], list[bytes]],
    tmp_path: Path,
) -> None:
    await _deliver(tmp_path / "b.db", bodies, times(bodies, seed), days=3)
    assert effects(tmp_path / "b.db") == once, f"seed {seed}"


@pytest.mark.faults
@pytest.mark.parametrize("seed", SEEDS)
async def test_at_once_they_have_one_effect(
    seed: int,
    bodies: tuple[bytes, ...],
    once: tuple[list[int], list[bytes]],
    tmp_path: Path,
) -> None:
    """Over the wire, folded while they come; each one in its turn, but not alone."""
    async with (
        started_store(tmp_path / "b.db") as store,
        served(store.inbox) as receiver,
    ):
        for body, number in zip(bodies, times(bodies, seed), strict=True):
            sent = [receiver.post(body) for _ in range(number)]
            replies, _ = await asyncio.gather(asyncio.gather(*sent), fold_all(store))
            assert {reply.status for reply in replies} == {200}
        await fold_all(store)
    assert effects(tmp_path / "b.db") == once, f"seed {seed}"
    with database_at(tmp_path / "b.db").inbox_export() as inbox:
        repeated = inbox.outcomes()["duplicate"]
    assert repeated >= sum(times(bodies, seed)) - len(bodies)
