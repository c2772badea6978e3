"""Rows that a long transaction commits late are read; other rows are not repeated."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_connectors.sql.cursor import (
    DIGEST_BYTES,
    MOST_KEPT,
    MOST_REMEMBERED,
    OverlapWindow,
    RowPosition,
    SqlCursor,
)
from backhaul_connectors.sql.values import earlier
from backhaul_sdk import Bad
from connectors.late_rows import Follower
from connectors.tables import SqliteTables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOON = datetime(2026, 3, 31, 12, tzinfo=UTC)


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[SqliteTables]:
    made = SqliteTables(tmp_path / "erp.db")
    yield made
    await made.close()


def ship(tables: SqliteTables, number: int, at: object) -> None:
    tables.run(
        "INSERT INTO shipments VALUES (?, ?, 'BlueDart', 'BD1', ?)",
        (number, f"A-{number}", at),
    )


def spelled(seconds: float, form: str) -> object:
    moment = NOON + timedelta(seconds=seconds)
    if form == "seconds":
        return moment.timestamp()
    if form == "milliseconds":
        return int(moment.timestamp() * 1000)
    return moment.strftime(form)


FORMS: tuple[str, ...] = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%SZ",
)
FORMS += ("%Y-%m-%d %H:%M", "seconds", "milliseconds")


@pytest.mark.parametrize("form", FORMS)
async def test_a_row_that_is_committed_late_is_read(
    tables: SqliteTables, form: str
) -> None:
    follower = Follower(tables)
    ship(tables, 5, spelled(0, form))
    assert await follower.pull() == ["5"]
    ship(tables, 6, spelled(-240, form))
    ship(tables, 4, spelled(0, form))
    assert await follower.pull() == ["4", "5", "6"]
    assert follower.host.handed_over == 3


async def test_a_row_that_is_later_than_the_window_is_missed_as_documented(
    tables: SqliteTables,
) -> None:
    follower = Follower(tables, overlap_seconds=100)
    ship(tables, 5, spelled(0, FORMS[0]))
    await follower.pull()
    ship(tables, 6, spelled(-102, FORMS[0]))
    assert await follower.pull() == ["5"]


async def test_a_restart_returns_late_rows_and_repeats_none(
    tables: SqliteTables,
) -> None:
    follower = Follower(tables, batch_rows=10)
    tables.ship(100, 200)
    await follower.pull()
    tables.ship(99, 1)
    follower.restart()
    assert len(await follower.pull()) == 201
    follower.restart()
    await follower.pull()
    assert follower.host.handed_over == 201


async def test_the_cursor_is_bounded_and_older_rows_are_known_by_their_keys(
    tables: SqliteTables,
) -> None:
    follower = Follower(tables, overlap_seconds=86_400)
    tables.ship(100, MOST_KEPT + 500)
    await follower.pull()
    assert len(follower.host.cursor or "") < 30_000
    follower.restart()
    assert len(await follower.pull()) == MOST_KEPT + 500
    assert follower.host.handed_over == MOST_KEPT + 1_000


def test_a_cursor_of_an_earlier_version_is_read() -> None:
    read = SqlCursor.from_text('{"fulfillments":["2020-01-01 00:00:05",5]}')
    assert read.places == {"fulfillments": RowPosition("2020-01-01 00:00:05", 5)}


async def test_a_window_that_is_long_ago_is_read_one_last_time(
    tables: SqliteTables,
) -> None:
    follower = Follower(tables)
    ship(tables, 5, spelled(0, FORMS[0]))
    await follower.pull()
    ship(tables, 6, spelled(-10, FORMS[0]))
    assert await follower.pull() == ["5", "6"]
    # By the clock of the database nothing can be added any more within the window.
    ship(tables, 7, spelled(-20, FORMS[0]))
    assert await follower.pull() == ["5", "6"]


async def test_a_row_that_changed_without_its_time_is_returned(
    tables: SqliteTables,
) -> None:
    follower = Follower(tables)
    now = datetime.now(UTC)
    ship(tables, 5, now.strftime(FORMS[0]))
    await follower.pull()
    tables.run("UPDATE shipments SET tracking_number = 'BD2'")
    await follower.pull()
    await follower.pull()
    assert follower.host.handed_over == 2


def test_the_window_rests_between_two_readings() -> None:
    seconds = 0.0
    overlap = OverlapWindow(300.0, lambda: seconds)
    place = RowPosition(NOON, 1)
    assert overlap.is_due(place)
    overlap.was_read(place, is_past=False)
    assert not overlap.is_due(place)
    seconds = 10.0
    assert overlap.is_due(place)
    overlap.was_read(place, is_past=True)
    seconds = 1e9
    assert not overlap.is_due(place)
    assert overlap.is_due(RowPosition(NOON, 2))
    assert not OverlapWindow(0.0, lambda: seconds).is_due(place)


def test_the_remembered_rows_are_bounded() -> None:
    overlap = OverlapWindow(300.0, lambda: 0.0)
    count = MOST_REMEMBERED + 9
    rows = [(NOON, Bad(key=str(n), raw="", reason="")) for n in range(count)]
    place = overlap.remember(rows, RowPosition(NOON, count))
    assert [row.key for row in overlap.new(rows)] == [str(n) for n in range(9)]
    assert len(place.recent) == MOST_KEPT * DIGEST_BYTES
    overlap.remember([], RowPosition(NOON + timedelta(seconds=301), count))
    assert len(overlap.new(rows)) == count


@pytest.mark.parametrize(
    ("value", "before"),
    [
        ("2026-03-31 00:02:00", "2026-03-30 23:57:00"),
        ("2026-03-31T12:00:00.5+00:00", "2026-03-31T11:55:00"),
        ("2026-03-31", "2026-03-30"),
        (1_775_000_000, 1_774_999_700),
        (1_775_000_000_000, 1_774_999_700_000),
        (Decimal("1775000000.25"), Decimal("1774999700.25")),
        (date(2026, 3, 31), date(2026, 3, 30)),
        ("infinity", None),
        ("20260331T120000", None),
        (datetime.min.replace(tzinfo=UTC), None),
        (None, None),
        (b"2026", None),
    ],
)
def test_an_earlier_time_has_the_spelling_of_its_column(
    value: object, before: object
) -> None:
    assert earlier(value, 300) == before


@given(
    st.integers(-30_000_000_000, 250_000_000_000).map(
        lambda seconds: NOON + timedelta(seconds=seconds)
    ),
    st.integers(0, 86_400),
    st.sampled_from(FORMS[:4]),
)
def test_no_text_within_the_window_sorts_before_its_start(
    moment: datetime, seconds: int, form: str
) -> None:
    start: Any = earlier(moment.strftime(form), seconds)
    assert start <= (moment - timedelta(seconds=seconds)).strftime(form)
