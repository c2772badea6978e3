"""sql fulfills the connector contracts with a SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul_sdk.testing import PullContract, PushContract
from connectors.sql_benches import Followed, Outbox, WrittenToSqlite
from connectors.tables import SqliteTables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul_sdk.testing import Bench, PushBench


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[SqliteTables]:
    made = SqliteTables(tmp_path / "erp.db")
    yield made
    await made.close()


class TestReading(PullContract):
    """By when a row changed, and by whether it was taken."""

    @pytest.fixture(params=[Followed, Outbox])
    def bench(self, tables: SqliteTables, request: pytest.FixtureRequest) -> Bench:
        made: Bench = request.param(tables)
        return made

    @pytest.mark.programs  # it takes seconds
    async def test_many_records_need_little_memory(self, bench: Bench) -> None:
        await super().test_many_records_need_little_memory(bench)


class TestWriting(PushContract):
    """Into a table with a row for each change."""

    @pytest.fixture
    def bench(self, tables: SqliteTables) -> PushBench:
        return WrittenToSqlite(tables)
