"""sql fulfills the connector contracts with a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backhaul_sdk.testing import MemoryHost, PullContract, PushContract
from connectors.late_rows import commits_late
from connectors.sql_benches import FollowedAcross, OutboxAcross, WrittenToPostgres
from connectors.tables import SHIPMENTS, PostgresTables
from scenes.postgres import postgres
from scenes.tcp_relay import tcp_relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from backhaul_sdk.testing import Bench, PushBench
    from scenes.postgres import Postgres
    from scenes.tcp_relay import Relay

pytestmark = pytest.mark.programs


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture
async def relay(server: Postgres) -> AsyncIterator[Relay]:
    async with tcp_relay(server.port) as running:
        yield running


@pytest.fixture
async def tables(server: Postgres, relay: Relay) -> AsyncIterator[PostgresTables]:
    made = PostgresTables(server)
    made.port = relay.port
    yield made
    await made.close()


async def test_times_without_end_hide_no_rows(server: Postgres) -> None:
    tables, host = PostgresTables(server), MemoryHost()
    odd = ("infinity", "-infinity", "20000-01-01", "0044-03-15 BC")
    for first in (1, 11):
        tables.ship(first, 9)
        for number, at in enumerate(odd):
            tables.run(
                f"UPDATE shipments SET changed_at = '{at}' "  # noqa: S608 - our own
                f"WHERE id = {first + 2 * number}"
            )
        connector = tables.connector(fulfillments=SHIPMENTS, batch_rows=2)
        await connector.open()
        await host.pull(connector)
    await tables.close()
    assert {f"fulfillment:{number}" for number in (2, 4, 6, 8, 9)} <= set(host.records)
    assert {f"fulfillment:1{number}" for number in (2, 4, 6, 8, 9)} <= set(host.records)
    assert len(host.records) == 10
    assert len(host.bad) == 8


async def test_a_transaction_that_commits_late_loses_no_row(server: Postgres) -> None:
    tables = PostgresTables(server)
    await commits_late(tables, server.connect(tables.name), "now()")
    await tables.close()


class TestReading(PullContract):
    """By when a row changed, and by whether it was taken."""

    @pytest.fixture(params=[FollowedAcross, OutboxAcross])
    def bench(
        self, tables: PostgresTables, relay: Relay, request: pytest.FixtureRequest
    ) -> Bench:
        made: Bench = request.param(tables, relay)
        return made


class TestWriting(PushContract):
    """Into a table with a row for each change."""

    @pytest.fixture
    def bench(self, tables: PostgresTables, relay: Relay) -> PushBench:
        return WrittenToPostgres(tables, relay)


async def test_a_view_whose_aggregate_finds_no_line_ships_nothing(
    tables: PostgresTables,
) -> None:
    case = Path(__file__).parent / "cases" / "03-empty-lines-postgres.sql"
    tables.run(case.read_text())
    columns = {"order": "order_no", "lines": "lines"}
    source = {"table": "v_ship", "changed_at": "updated_at", "columns": columns}
    connector, host = tables.connector(fulfillments=source), MemoryHost()
    await connector.open()
    await host.pull(connector)
    assert list(host.records) == []
    (bad,) = host.bad.values()
    assert "(lines is empty)" in bad.reason
