"""What a source does with rows that a long transaction commits late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul_connectors.sql import Sql
from backhaul_connectors.sql.settings import Settings
from backhaul_sdk.testing import MemoryHost
from connectors.tables import SHIPMENTS
from scenes.loop_guard import on_purpose
from scenes.postgres import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_sdk import Batch
    from connectors.tables import Tables


class Counting(MemoryHost):
    """A host that counts what is handed over to it, known or not."""

    handed_over: int = 0

    def commit(self, batch: Batch) -> None:
        self.handed_over += len(batch.records)
        super().commit(batch)


class Follower:
    """A connector over tables, its host, and a clock that tests set."""

    def __init__(self, tables: Tables, **options: Any) -> None:
        self.tables = tables
        self.options = options
        self.host = Counting()
        self.seconds = 0.0
        self.restart()

    def restart(self) -> None:
        """Begin again with a connector that remembers nothing; the host does."""
        settings = Settings.model_validate(
            {
                "url": self.tables.url(),
                "password": PASSWORD,
                "lag_seconds": 0,
                "fulfillments": SHIPMENTS,
                **self.options,
            }
        )
        self._connector = Sql("erp", settings, clock=lambda: self.seconds)
        self.tables.connectors.append(self._connector)

    async def pull(self) -> Sequence[str]:
        """Pull a minute later; return the orders that the host has so far, sorted."""
        self.seconds += 60.0
        await self._connector.open()
        await self.host.pull(self._connector)
        return sorted(key.removeprefix("fulfillment:") for key in self.host.records)


async def commits_late(tables: Tables, session: Any, now: str) -> None:
    """Let a session begin first and commit last, twice; no row may be missing."""
    follower = Follower(tables)

    def insert(number: int) -> str:
        values = f"({number}, 'A-{number}', 'DHL', 'JD{number}', {now})"
        return f"INSERT INTO shipments VALUES {values}"  # noqa: S608 - numbers

    def do(statement: str) -> None:
        with on_purpose():
            session.execute(statement)

    do("BEGIN")
    do(insert(1))
    tables.run(insert(2))
    assert await follower.pull() == ["2"]
    do("COMMIT")
    assert await follower.pull() == ["1", "2"]
    do("BEGIN")
    do(insert(3))
    tables.run(insert(4))
    assert await follower.pull() == ["1", "2", "4"]
    do("COMMIT")
    follower.restart()
    assert await follower.pull() == ["1", "2", "3", "4"]
    with on_purpose():
        session.close()
