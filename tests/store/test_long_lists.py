"""A filter of a long list uses an index, or searches some rows for each page."""

# ruff: noqa: S608 - the statements are constants

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import to_text
from backhaul.store import database_at
from backhaul.store.filters import Filter, Sort
from backhaul.store.sql.read_models.lists import SqlLists
from backhaul.store.sql.selection import SCANNED
from scenes.databases import make_database, open_for_reading, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.store import Place
    from backhaul.store.read_models import Reader

ROWS = 3 * SCANNED - 1
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_N = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
# the first row of each list is the only one with its topic, kind and reason
_FILL = (
    f"""
    INSERT INTO inbox (id, store, kind, topic, received_at, headers, body)
    {_N} SELECT i, 'main', 'delivery', CASE WHEN i = 1 THEN 'rare' ELSE 'usual' END,
      '2026-01-' || substr('0' || CAST(1 + i / 3000 AS TEXT), -2)
      || 'T12:00:00.000Z', '', '' FROM n
    """,
    f"""
    INSERT INTO event_outcomes (id, state, topic, object_id, folded_at)
    {_N} SELECT i, CASE WHEN i = 2 THEN 'unhandled' ELSE 'folded' END,
      CASE WHEN i = 1 THEN 'rare' ELSE 'usual' END, 'ord_' || i, '' FROM n
    """,
    f"""
    INSERT INTO commands (seq, id, store, kind, target, lane, state, payload, cause,
      instance, created_at, due_at)
    {_N} SELECT i, 'c' || i, 'main', CASE WHEN i = 1 THEN 'cancel' ELSE 'fulfill' END,
      'ord_' || i, 'order:ord_' || i, CASE i WHEN 2 THEN 'rejected' WHEN 3 THEN
      'parked' ELSE 'applied' END, '{{}}', '', 'courier',
      '2026-01-01T12:00:00.000Z', '' FROM n
    """,
    f"""
    INSERT INTO deliveries (seq, id, instance, store, topic, object_id, change_id,
      state, created_at, due_at)
    {_N} SELECT i, 'd' || i, 'books', 'main', CASE WHEN i = 1 THEN 'rare' ELSE 'usual'
      END, 'ord_' || i, i, CASE WHEN i = 2 THEN 'parked' ELSE 'applied' END,
      '2026-01-01T12:00:00.000Z', '' FROM n
    """,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("long") / "backhaul.db"


@pytest.fixture(scope="module", autouse=True)
def filled(place: Path) -> None:
    make_database(place)
    for statement in _FILL:
        write(place, statement)


def pages(
    place: Place, rows: str, read: Callable[..., list[int]], **terms: Any
) -> list[list[int]]:
    """Return the rows of each page, until a page reached the end of the list."""
    wanted, after = Filter(**terms), None
    found: list[list[int]] = []
    with database_at(place).reader() as reader:
        while True:
            within = reader.searched(rows, wanted, after, Sort.USUAL)
            found.append(read(reader, wanted, 9, after, Sort.USUAL, within))
            if not within.more:
                return found
            after = str(within.continues(Sort.USUAL))


def events(reader: Reader, wanted: Filter, limit: int, *more: object) -> list[int]:
    return [row.id for row in reader.events(wanted, limit, None, *more[1:])]  # type: ignore[arg-type]


def deliveries(reader: Reader, wanted: Filter, limit: int, *more: object) -> list[int]:
    return [row.seq for row in reader.deliveries(wanted, limit, None, *more[1:])]  # type: ignore[arg-type]


def commands(reader: Reader, wanted: Filter, limit: int, *more: object) -> list[int]:
    rows = reader.commands(wanted, limit, *more)  # type: ignore[arg-type]
    return [int(row.id[1:]) for row in rows]


LISTS = {"events": events, "commands": commands, "deliveries": deliveries}


@pytest.mark.parametrize(
    ("rows", "terms"),
    [
        ("events", {"topic": "rare"}),
        ("events", {"words": ("rare",)}),
        ("commands", {"kind": "cancel"}),
        ("deliveries", {"topic": "rare"}),
    ],
)
def test_a_term_without_index_searches_page_by_page(
    rows: str, terms: dict[str, str], place: Path
) -> None:
    assert pages(place, rows, LISTS[rows], **terms) == [[], [], [1]]


@pytest.mark.parametrize(
    ("rows", "terms", "expected"),
    [
        ("events", {"state": "unhandled"}, 2),
        ("events", {"object": "ord_7"}, 7),
        ("events", {"order": "ord_7"}, 7),
        ("commands", {"state": "rejected"}, 2),
        ("commands", {"state": "parked"}, 3),
        ("commands", {"order": "ord_7"}, 7),
        ("deliveries", {"state": "parked"}, 2),
        ("deliveries", {"order": "ord_7"}, 7),
    ],
)
def test_a_term_with_an_index_is_found_on_the_first_page(
    rows: str, terms: dict[str, str], expected: int, place: Path
) -> None:
    assert pages(place, rows, LISTS[rows], **terms) == [[expected]]


def test_times_bound_the_search(place: Path) -> None:
    noon = to_text(BEGIN + timedelta(days=5, hours=12))
    later = to_text(BEGIN + timedelta(days=5, hours=13))
    with database_at(place).reader() as reader:
        wanted = Filter(since=noon, until=later, topic="rare")
        within = reader.searched("events", wanted, None, Sort.USUAL)
    assert not within.more
    day = 3_000
    assert 4 * day - 1 <= within.first
    assert within.last <= 7 * day


class Explained:
    """Runs each statement, and records the steps of its plan."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.steps: list[str] = []

    def execute(self, sql: str, values: Any) -> Any:
        plan = self._connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)
        self.steps += [row[3] for row in plan]
        return self._connection.execute(sql, values)


@pytest.mark.parametrize(
    ("rows", "terms", "index"),
    [
        ("events", {"object": "ord_7"}, "outcomes_object"),
        ("events", {"state": "unhandled"}, "outcomes_failed"),
        ("commands", {"state": "rejected"}, "commands_rejected"),
        ("commands", {"state": "parked"}, "commands_parked"),
        ("commands", {"order": "ord_7"}, "commands_target"),
        ("deliveries", {"state": "parked"}, "deliveries_stopped"),
        ("deliveries", {"order": "ord_7"}, "deliveries_object"),
    ],
)
def test_an_index_finds_the_rows(
    rows: str, terms: dict[str, str], index: str, place: Path
) -> None:
    with closing(open_for_reading(place)) as connection:
        explained = Explained(connection)
        reader = SqlLists(explained)  # type: ignore[arg-type]
        LISTS[rows](reader, Filter(**terms), 9, None, Sort.NEWEST, None)  # type: ignore[arg-type]
    assert any(index in step for step in explained.steps), explained.steps
    scanned = [each for each in explained.steps if each.startswith("SCAN")]
    assert [each for each in scanned if "INDEX" not in each] == []
