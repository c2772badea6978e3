"""A source database is killed while its rows are read; each row counts once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.sql.cursor import SqlCursor
from backhaul_sdk.testing import MemoryHost
from connectors.tables import MOVEMENTS, SHIPMENTS, PostgresTables
from faults.trials import LONG, chances, tell
from scenes.postgres import postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul_connectors.sql import Sql
    from scenes.postgres import Postgres

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900 if LONG else 600)]

TRIALS = 50 if LONG else 2
ROWS = 60
SOURCES = {
    "changed_at": {"fulfillments": SHIPMENTS},
    "marked": {"stock_deltas": MOVEMENTS},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.mark.parametrize("moment", ["in a batch", "in an ack"])
@pytest.mark.parametrize("how", SOURCES)
async def test_a_killed_database_loses_and_doubles_nothing(
    server: Postgres, how: str, moment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    random = chances()
    for _ in range(TRIALS):
        tables = await asyncio.to_thread(PostgresTables, server)
        tables.ship(0, ROWS)
        tables.move(0, ROWS)
        host = MemoryHost()
        connector = tables.connector(**SOURCES[how], batch_rows=10)
        await connector.open()
        batch = random.randrange(ROWS // 10)
        await pull_and_kill(server, connector, host, batch, moment)
        await asyncio.to_thread(server.start)
        assert_not_ahead(tables, host)
        await host.pull(connector)
        assert_not_ahead(tables, host)
        assert len(host.records) == ROWS
        await tables.close()
    tell(capsys, 0, TRIALS)


async def pull_and_kill(
    server: Postgres, connector: Sql, host: MemoryHost, number: int, moment: str
) -> None:
    """Pull, and kill the database at batch `number`."""
    try:
        async for batch in connector.pull(None):
            number -= 1
            host.commit(batch)
            if number >= 0:
                await batch.ack()
            elif moment == "in an ack":
                killing = asyncio.to_thread(server.kill)
                await asyncio.gather(killing, batch.ack(), return_exceptions=True)
            else:
                await asyncio.to_thread(server.kill)
    except Exception:  # noqa: BLE001 - what is raised is the host's to tell
        return


def assert_not_ahead(tables: PostgresTables, host: MemoryHost) -> None:
    """Compare the cursor and the marks with the committed rows."""
    marked = {f"stock-delta:{number}" for number in tables.taken()}
    assert marked <= host.records.keys()
    place = SqlCursor.from_text(host.cursor).places.get("fulfillments")
    for number in range(place.id + 1 if place else 0):
        assert f"fulfillment:{number}" in host.records
