"""A pass over a list that changes between two pages skips no row."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from dataclasses import dataclass, field

import pytest
from loguru import logger
from msgspec.structs import replace

from backhaul.store.mirror import Pass
from backhaul.sync.full_sync import log_result
from backhaul.sync.list_pass import ListPage, ListPass, SeenIds
from backhaul.sync.resource_types import BACKFILL, ListRow


@dataclass(slots=True)
class List:
    """A list, newest row first, that changes between two responses."""

    rows: list[int]
    size: int = 100
    told: bool = True
    ends: bool = False
    ignores_page: bool = False
    moves: list[tuple[str, int]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - repeats

    async def fetch(self, number: int) -> ListPage:
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(0)
        self.asked.append(number)
        start = 0 if self.ignores_page else (number - 1) * self.size
        end = len(self.rows) if self.ignores_page else start + self.size
        shown = self.rows[start:end]
        total = len(self.rows) if self.told else None
        more = end < len(self.rows) if self.told or self.ends else None
        self.move()
        rows = tuple(ListRow(str(id_), "", b"") for id_ in shown)
        return ListPage(number, rows, len(rows), "", total, more)

    def move(self) -> None:
        if self.moves:
            what, where = self.moves.pop(0)
            if what == "new":
                self.rows.insert(0, max(self.rows, default=0) + 1)
            elif what == "gone" and self.rows:
                self.rows.pop(where % len(self.rows))


def list_pass(moving: List, deletable: bool = True) -> ListPass:
    return ListPass(moving.fetch, deletable, lambda: None)


async def ids(one: ListPass) -> list[int]:
    return [int(row.id) async for page in one.pages() for row in page.rows]


SIZES = [0, 1, 99, 100, 101, 250, 1000]


@pytest.mark.parametrize("told", [True, False], ids=["totals", "no-totals"])
@pytest.mark.parametrize("deletable", [True, False])
@pytest.mark.parametrize("count", SIZES)
async def test_a_list_at_rest_is_read(count: int, deletable: bool, told: bool) -> None:
    moving = List(list(range(count, 0, -1)), told=told)
    found = await ids(list_pass(moving, deletable))
    assert list(dict.fromkeys(found)) == moving.rows


@pytest.mark.parametrize("ends", [True, False], ids=["end", "no-end"])
@pytest.mark.parametrize("told", [True, False], ids=["totals", "no-totals"])
@pytest.mark.parametrize("seed", range(40))
async def test_deletions_and_new_rows_hide_no_row(
    seed: int, told: bool, ends: bool
) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeats
    moves = [(chance.choice(["new", "gone", "gone", ""]), chance.randrange(700))]
    moves += [
        (chance.choice(["new", "gone", "gone", ""]), chance.randrange(700))
        for _ in range(12)
    ]
    moving = List(list(range(700, 0, -1)), told=told, ends=ends, moves=moves)
    before = set(moving.rows)
    found = await ids(list_pass(moving))
    assert before & set(moving.rows) <= set(found), f"seed {seed}"


@pytest.mark.parametrize("told", [True, False], ids=["totals", "no-totals"])
@pytest.mark.parametrize("seed", range(20))
async def test_new_rows_hide_no_row_from_a_read_ahead(seed: int, told: bool) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeats
    moves = [(chance.choice(["new", ""]), 0) for _ in range(60)]
    moving = List(list(range(1500, 0, -1)), told=told, moves=moves, chance=chance)
    before = set(moving.rows)
    found = await ids(list_pass(moving, deletable=False))
    assert before <= set(found), f"seed {seed}"


async def test_a_platform_that_ignores_the_page_is_left_and_reported() -> None:
    told: list[None] = []
    moving = List(list(range(30, 0, -1)), told=False, ignores_page=True)
    one = ListPass(moving.fetch, False, lambda: told.append(None))
    assert await ids(one) == moving.rows
    assert (moving.asked, len(told)) == ([1, 2], 1)


async def test_more_new_rows_than_a_page_do_not_end_the_full_sync() -> None:
    moving = List(list(range(500, 0, -1)))
    before = set(moving.rows)

    async def fetch(number: int) -> ListPage:
        shown = await moving.fetch(number)
        if number == 2 and len(moving.rows) == 500:
            moving.rows[:0] = range(700, 500, -1)
        return shown

    assert before <= set(await ids(ListPass(fetch, False, lambda: None)))


async def test_a_full_sync_continues_where_it_was_stopped() -> None:
    moving = List(list(range(1000, 0, -1)))
    one = ListPass(moving.fetch, False, lambda: None, done=6, total=1000)
    assert await ids(one) == list(range(500, 0, -1))


@pytest.mark.parametrize(
    ("size", "done", "deleted"),
    [(100, 6, 250), (20, 6, 45), (20, 49, 150)],
    ids=["full-pages", "small-pages", "beyond-the-end"],
)
@pytest.mark.parametrize("told", [True, False], ids=["more", "only-totals"])
async def test_a_deletion_during_the_full_sync_is_made_up_for(
    size: int, done: int, deleted: int, told: bool
) -> None:
    moving = List(list(range(1000, 0, -1)), size=size)
    del moving.rows[:deleted]

    async def fetch(number: int) -> ListPage:
        shown = await moving.fetch(number)
        return shown if told else replace(shown, has_more=None)

    one = ListPass(fetch, True, lambda: None, done=done, total=1000)
    found = await ids(one)
    assert set(range(1000 - done * size, 0, -1)) <= set(found)


IDS = [f"prod_{number}" for number in range(50_000)]


def test_known_ids_are_distinguished_from_new_ones() -> None:
    known = SeenIds()
    for start in range(0, len(IDS), 100):
        page = IDS[start : start + 100]
        assert known.add(page) == set(page)
    assert all(id_ in known for id_ in IDS)
    assert "prod_new" not in known
    assert known.add([IDS[0], "prod_new", IDS[-1]]) == {"prod_new"}
    assert known.add(["prod_new"]) == set()


def test_ids_need_a_few_bytes_each() -> None:
    """A list without totals is read again until no new id appears; all are stored."""
    known = SeenIds()
    tracemalloc.start()
    try:
        for id_ in IDS:
            known.add([id_])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 16 * len(IDS)


@pytest.mark.parametrize(
    ("job", "level", "said"),
    [
        (BACKFILL, "INFO", "store main: 57 levels read, 55 added, 2 updated"),
        ("incremental", "WARNING", "store main: 57 levels read, 55 missed, 2 stale"),
    ],
)
def test_only_a_later_read_calls_what_the_mirror_lacked_missed(
    job: str, level: str, said: str
) -> None:
    found: list[tuple[str, str]] = []
    sink = logger.add(
        lambda line: found.append((line.record["level"].name, line.record["message"]))
    )
    try:
        log_result(Pass(1, "main", job, "levels", "", "", 57, 55, 2, 0, 0, 0, ""))
    finally:
        logger.remove(sink)
    assert found == [(level, said)]
