"""Rows with an invalid or future `changed_at` are reported and block no other row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.testing import MemoryHost
from connectors.tables import SHIPMENTS, SqliteTables
from scenes.back_office import host_of
from scenes.clock import VirtualClock
from scenes.databases import started_store
from scenes.stored import rows_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


ZONE = "America/New_York"
"""The last second that there is comes later in UTC, and there is no later year."""
SAID = "is not a time: 'unknown', so the row is not read; set it to the present time"


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[SqliteTables]:
    made = SqliteTables(tmp_path / "erp.db")
    yield made
    await made.close()


async def pull(
    tables: SqliteTables, host: MemoryHost, **options: Any
) -> dict[str, str]:
    """Take everything with a new connector; return why rows are not read, by id."""
    connector = tables.connector(fulfillments=SHIPMENTS, timezone=ZONE, **options)
    await connector.open()
    await host.pull(connector)
    return {each.locator.split()[1]: each.reason for each in host.bad.values()}


def stamp(tables: SqliteTables, first: int, last: int, changed_at: object) -> None:
    statement = "UPDATE shipments SET changed_at = ? WHERE id BETWEEN ? AND ?"
    tables.run(statement, (changed_at, first, last))


def taken(host: MemoryHost) -> list[int]:
    return sorted(int(key.split(":")[1]) for key in host.records)


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("unknown", "changed_at is not a time: 'unknown', so the row is not read"),
        ("infinity", "changed_at is not a time: 'infinity', so the row is not read"),
        ("9999-12-31 23:59:59", "so the row is not read; set it to the present time"),
        ("9999-12-30 12:00:00", "changed_at lies ahead: '9999-12-30 12:00:00', so the"),
        ("", "changed_at is not a time: '', so the row is not read"),
    ],
)
async def test_an_odd_row_hides_no_later_ones(
    tables: SqliteTables, odd: str, said: str
) -> None:
    host = MemoryHost()
    tables.ship(1, 3)
    stamp(tables, 2, 2, odd)
    told = await pull(tables, host)
    assert told.keys() == {"2"}
    assert said in told["2"]
    tables.ship(10, 3)
    assert await pull(tables, host) == told
    assert taken(host) == [1, 3, 10, 11, 12]


async def count(
    tables: SqliteTables, host: MemoryHost, *times: object, lag_seconds: int
) -> None:
    """Take rows with times of whatever type, which are written one by one."""
    tables.run("CREATE TABLE counted (id, order_no, carrier, tracking_number, at)")
    source = {**SHIPMENTS, "table": "counted", "changed_at": "at"}
    for number, at in enumerate(times):
        tables.run("INSERT INTO counted VALUES (?, 'A-1', '', '', ?)", (number, at))
        connector = tables.connector(fulfillments=source, lag_seconds=lag_seconds)
        await connector.open()
        await host.pull(connector)


async def test_a_text_among_numbers_hides_no_row(tables: SqliteTables) -> None:
    host = MemoryHost()
    await count(tables, host, 1_600_000_000, "", 1_600_000_100, lag_seconds=0)
    assert taken(host) == [0, 2]
    assert [each.locator for each in host.bad.values()] == ["counted 1"]


async def test_no_row_is_read_behind_a_waiting_row(tables: SqliteTables) -> None:
    host = MemoryHost()
    young = int(seconds_since_1970()) - 60
    # Numbers stand before texts, whatever time they are.
    await count(tables, host, 1_600_000_000, young, "2020-01-01", lag_seconds=3600)
    assert taken(host) == [0]


@pytest.mark.parametrize("odd", ["", "2019-13-45", "2020-01-01 00:00:99", "unknown"])
@pytest.mark.parametrize("number", [4, 5, 11])
async def test_pages_full_of_odd_rows_hide_no_other_rows(
    tables: SqliteTables, odd: str, number: int
) -> None:
    tables.ship(1, number)
    stamp(tables, 1, number, odd)
    tables.ship(101, 6)
    host = MemoryHost()
    told = await pull(tables, host, batch_rows=4)
    assert taken(host) == list(range(101, 107))
    assert told.keys() == {str(id_) for id_ in range(1, number + 1)}
    tables.ship(201, 6)
    assert await pull(tables, host, batch_rows=4) == told
    assert len(taken(host)) == 12


async def test_an_odd_row_lets_no_younger_rows_pass(tables: SqliteTables) -> None:
    host = MemoryHost()
    tables.ship(1, 2)
    tables.run("UPDATE shipments SET changed_at = datetime('now') WHERE id = 1")
    stamp(tables, 2, 2, "unknown")
    zone = {"timezone": "UTC", "fulfillments": SHIPMENTS, "lag_seconds": 3600}
    connector = tables.connector(**zone)
    await connector.open()
    await host.pull(connector)
    assert host.records == {}
    assert len(host.bad) == 1, "it is told of, although a row before it has to wait"


async def test_an_odd_row_is_reported_once(tables: SqliteTables) -> None:
    connector = tables.connector(fulfillments=SHIPMENTS)
    await connector.open()
    host = MemoryHost()
    await host.pull(connector)
    tables.ship(1, 2)
    stamp(tables, 2, 2, "unknown")
    await host.pull(connector)
    assert len(host.bad) == 1
    assert [batch async for batch in connector.pull(host.cursor)] == []
    stamp(tables, 2, 2, "never")
    await host.pull(connector)
    assert len(host.bad) == 2, "it is wrong in another way now"


async def test_an_odd_row_that_was_not_stored_is_reported_again(
    tables: SqliteTables,
) -> None:
    tables.ship(1, 1)
    stamp(tables, 1, 1, "unknown")
    connector = tables.connector(fulfillments=SHIPMENTS)
    await connector.open()
    async for _ in connector.pull(None):
        break  # as a host does that cannot commit
    host = MemoryHost()
    await host.pull(connector)
    assert len(host.bad) == 1


async def test_an_odd_row_that_became_the_first_is_reported_after_a_start(
    tables: SqliteTables,
) -> None:
    host = MemoryHost()
    tables.ship(1, 1)
    await pull(tables, host)
    tables.ship(2, 1)
    stamp(tables, 2, 2, "")
    assert (await pull(tables, host)).keys() == {"2"}


async def test_a_corrected_row_is_read(tables: SqliteTables) -> None:
    host = MemoryHost()
    tables.ship(1, 2)
    stamp(tables, 1, 1, "unknown")
    await pull(tables, host)
    stamp(tables, 1, 1, "2020-01-02 00:00:00")
    await pull(tables, host)
    assert taken(host) == [1, 2]


@pytest.mark.parametrize("at", ["unknown", "9999-12-31 23:59:59", "2999-01-01"])
async def test_a_place_where_no_row_can_have_stood_is_left(
    tables: SqliteTables, at: str
) -> None:
    tables.ship(1, 5)
    host = MemoryHost(cursor=json.dumps({"fulfillments": [at, 50]}))
    await pull(tables, host, batch_rows=2)
    assert taken(host) == [1, 2, 3, 4, 5]
    found = json.loads(host.cursor or "")["fulfillments"]
    assert found[:2] == ["2020-01-01 00:00:05", 5]


async def test_an_operator_sees_it_and_the_next_row(
    tables: SqliteTables, tmp_path: Path
) -> None:
    tables.ship(1, 1)
    stamp(tables, 1, 1, "unknown")
    async with started_store(tmp_path / "backhaul.db", VirtualClock()) as store:
        host = host_of(tables.connector(fulfillments=SHIPMENTS), store)
        assert await host.once() == {"quarantined": 1}
        tables.ship(2, 1)
        assert sum((await host.once()).values()) == 1
        assert await host.once() == {}
    assert rows_of(tmp_path / "backhaul.db", "quarantine", "locator", "reason") == [
        ("shipments 1", f"changed_at {SAID}")
    ]
