"""Local times without a zone in the two nights when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.testing import MemoryHost
from connectors.tables import SHIPMENTS, SqliteTables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ZONE = "Europe/Berlin"
AUTUMN = datetime(2020, 10, 24, 23, tzinfo=UTC)
"""01:00 in Berlin; the times from 02:00 to 03:00 come twice that night."""
SPRING = datetime(2021, 3, 28, 0, tzinfo=UTC)
"""01:00 in Berlin; after 01:59 comes 03:00."""
STEP = timedelta(minutes=10)
LAG = timedelta(minutes=1)


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[SqliteTables]:
    made = SqliteTables(tmp_path / "erp.db")
    yield made
    await made.close()


def wall(moment: datetime) -> str:
    """Return what a clock on the wall shows, as an ERP writes it."""
    return f"{moment.astimezone(ZoneInfo(ZONE)):%Y-%m-%d %H:%M:%S}"


class Night:
    """An ERP that ships now and then, and a daemon that looks as often."""

    def __init__(self, tables: SqliteTables) -> None:
        self._tables = tables
        self._host = MemoryHost()
        self._shipped = 0
        self.taken: list[str] = []

    def ship(self, changed_at: str) -> None:
        self._tables.ship(self._shipped, 1)
        written = (changed_at, self._shipped)
        self._tables.run("UPDATE shipments SET changed_at = ? WHERE id = ?", written)
        self._shipped += 1

    async def look(self, moment: datetime) -> None:
        """Take what has been there for `LAG` at that moment."""
        since = timedelta(seconds=seconds_since_1970() - moment.timestamp())
        connector = self._tables.connector(
            fulfillments=SHIPMENTS,
            timezone=ZONE,
            batch_rows=2,
            lag_seconds=(since + LAG).total_seconds(),
        )
        await connector.open()
        async for batch in connector.pull(self._host.cursor):
            self._host.commit(batch)
            await batch.ack()
            self.taken += [record.key for record in batch.records]
        await connector.close()

    def all(self) -> list[str]:
        return [f"fulfillment:{number}" for number in range(self._shipped)]


@pytest.mark.parametrize("first", [AUTUMN, SPRING], ids=["autumn", "spring"])
async def test_each_row_of_the_night_is_read_once(
    tables: SqliteTables, first: datetime
) -> None:
    night = Night(tables)
    for number in range(24):
        moment = first + number * STEP
        night.ship(wall(moment))
        await night.look(moment + LAG * 2)
    await night.look(first + timedelta(hours=6))
    assert sorted(night.taken) == sorted(night.all())


async def test_a_time_that_is_skipped_in_spring_loses_no_row(
    tables: SqliteTables,
) -> None:
    night = Night(tables)
    for shown in ("01:59:00", "02:30:00", "03:10:00", "03:30:00"):
        night.ship(f"2021-03-28 {shown}")
    await night.look(SPRING + timedelta(hours=1, minutes=15))
    assert night.taken == night.all()[:1]
    night.ship("2021-03-28 03:05:00")
    await night.look(SPRING + timedelta(hours=3))
    assert sorted(night.taken) == sorted(night.all())


async def test_rows_of_the_hour_before_and_after_wait_no_longer(
    tables: SqliteTables,
) -> None:
    night = Night(tables)
    night.ship("2020-10-25 01:59:00")
    await night.look(AUTUMN + timedelta(hours=1, minutes=1))
    assert len(night.taken) == 1
    night.ship("2020-10-25 03:00:00")
    await night.look(AUTUMN + timedelta(hours=3, minutes=2))
    assert len(night.taken) == 2
