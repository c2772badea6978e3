"""The benches of the SQL connector: what reads, what writes, and what goes wrong."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from backhaul_sdk.testing import Bench, Failure, PushBench
from connectors.examples import documented
from connectors.tables import (
    MOVEMENTS,
    NEWS,
    SHIPMENTS,
    PostgresTables,
    SqliteTables,
)
from scenes.postgres import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul_connectors.sql import Sql
    from backhaul_sdk.testing import MemoryHost
    from connectors.tables import Tables
    from scenes.tcp_relay import Relay


class Followed(Bench):
    """Shipments, read by when they changed."""

    secrets = (PASSWORD,)
    unpluggings = 5  # a file has no line that could break

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.batch_rows = 10

    def connector(self) -> Sql:
        return self.tables.connector(fulfillments=SHIPMENTS, batch_rows=self.batch_rows)

    def offer(self, first: int, number: int) -> None:
        self.batch_rows = 1_000 if number > 1_000 else 10
        self.tables.ship(first, number)

    def offer_a_bad_one_among(self, good: int) -> None:
        self.tables.ship(0, good + 1)
        self.tables.run(f"UPDATE shipments SET order_no = ' ' WHERE id = {good // 2}")  # noqa: S608 - a number

    def offer_with_unknown_field(self, number: int) -> None:
        self.tables.run("ALTER TABLE shipments ADD COLUMN colour text")
        self.tables.ship(number, 1)

    def state(self) -> object:
        return self.tables.content()

    def example(self) -> Mapping[str, object]:
        return documented("sql")

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    async def provoke(self) -> Sequence[str]:
        return await provoked(self)

    async def unplug(self) -> None:
        await unplug(self.tables)

    async def plug_in(self) -> None:
        await plug_in(self.tables)


class Outbox(Followed):
    """Movements of stock, marked as taken by the connector."""

    def connector(self) -> Sql:
        return self.tables.connector(stock_deltas=MOVEMENTS, batch_rows=self.batch_rows)

    def offer(self, first: int, number: int) -> None:
        self.batch_rows = 1_000 if number > 1_000 else 10
        self.tables.move(first, number)

    def offer_a_bad_one_among(self, good: int) -> None:
        self.tables.move(0, good + 1)
        self.tables.run(f"UPDATE movements SET units = 0 WHERE number = {good // 2}")  # noqa: S608 - a number

    def offer_with_unknown_field(self, number: int) -> None:
        self.tables.run("ALTER TABLE movements ADD COLUMN colour text")
        self.tables.move(number, 1)


class Written(PushBench):
    """News, one row each."""

    secrets = (PASSWORD,)

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.blocking: Any = None

    def connector(self) -> Sql:
        return self.tables.connector(write=[NEWS], statement_seconds=0.3)

    def state(self) -> object:
        return self.tables.content()

    def example(self) -> Mapping[str, object]:
        return documented("sql")

    async def effects(self) -> Sequence[int]:
        rows = self.tables.rows("SELECT change_id FROM news")
        return [int(text(row[0]).rpartition(":")[2]) for row in rows]

    async def provoke(self) -> Sequence[str]:
        return await provoked(self)

    async def unplug(self) -> None:
        await unplug(self.tables)

    async def plug_in(self) -> None:
        await plug_in(self.tables)


class WrittenToSqlite(Written):
    """A file, which somebody else may be writing to."""

    unpluggings = 5  # a file has no line that could break
    failures = (Failure.REFUSES, Failure.BUSY)
    tables: SqliteTables

    def tries(self) -> int:
        return 0  # what is rolled back leaves nothing to count

    async def fail(self, failure: Failure) -> None:
        if failure is Failure.REFUSES:
            self.tables.run(
                "CREATE TRIGGER refuse BEFORE INSERT ON news "
                "BEGIN SELECT RAISE(ABORT, 'the year is closed'); END"
            )
        else:
            self.blocking = sqlite3.connect(self.tables.path)
            self.blocking.execute("BEGIN IMMEDIATE")

    async def recover(self) -> None:
        if self.blocking is not None:
            self.blocking.close()
            self.blocking = None
        self.tables.run("DROP TRIGGER IF EXISTS refuse")


class WrittenToPostgres(Written):
    """A server behind a relay, which breaks the line at the worst moments."""

    failures = (
        Failure.REFUSES,
        Failure.BUSY,
        Failure.BREAKS,
        Failure.LOSES_ANSWER,
    )

    def __init__(self, tables: PostgresTables, relay: Relay) -> None:
        super().__init__(tables)
        self.relay = relay
        relay.counted = b"INSERT INTO"

    def tries(self) -> int:
        return self.relay.seen

    async def fail(self, failure: Failure) -> None:
        if failure is Failure.REFUSES:
            self.tables.run(
                "ALTER TABLE news ADD CONSTRAINT closed CHECK (topic = '') NOT VALID"
            )
        elif failure is Failure.BUSY:
            assert isinstance(self.tables, PostgresTables)
            self.blocking = self.tables.server.connect(self.tables.name)
            self.blocking.execute("BEGIN")
            self.blocking.execute("LOCK TABLE news")
        elif failure is Failure.BREAKS:
            self.relay.cut_before = b"INSERT INTO"
        else:
            self.relay.cut_after = b"COMMIT"

    async def recover(self) -> None:
        self.relay.cut_before = self.relay.cut_after = None
        if self.blocking is not None:
            self.blocking.close()
            self.blocking = None
        self.tables.run("ALTER TABLE news DROP CONSTRAINT IF EXISTS closed")

    async def unplug(self) -> None:
        await self.relay.down()

    async def plug_in(self) -> None:
        await self.relay.up()


class FollowedAcross(Followed):
    """Shipments on a server behind a relay."""

    unpluggings = 50

    def __init__(self, tables: PostgresTables, relay: Relay) -> None:
        super().__init__(tables)
        self.relay = relay

    async def unplug(self) -> None:
        await self.relay.down()

    async def plug_in(self) -> None:
        await self.relay.up()


class OutboxAcross(FollowedAcross, Outbox):
    """Movements on a server behind a relay."""


def text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


async def provoked(bench: Followed | Written) -> Sequence[str]:
    """Return what is said of a table that is not there, and of a wrong password."""
    said: list[str] = []
    gone = {**SHIPMENTS, "table": "nowhere"}
    for options in ({"fulfillments": gone}, {"fulfillments": gone, "password": "x"}):
        connector = bench.tables.connector(**options)
        await connector.open()
        try:
            await connector.check()
        except Exception as error:  # noqa: BLE001 - whatever is raised is shown
            said += [str(error), repr(error), repr(error.__cause__)]
    return said


async def unplug(tables: Tables) -> None:
    assert isinstance(tables, SqliteTables)
    tables.path.rename(tables.path.with_suffix(".away"))


async def plug_in(tables: Tables) -> None:
    assert isinstance(tables, SqliteTables)
    tables.path.with_suffix(".away").rename(tables.path)
