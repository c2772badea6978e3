"""sql fulfills the connector contracts with a MariaDB server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.sql.database import CLOCKS, MARIADB
from backhaul_sdk import CheckFailed
from backhaul_sdk.testing import Failure, PullContract, PushContract
from connectors.late_rows import commits_late
from connectors.sql_benches import FollowedAcross, OutboxAcross, Written
from connectors.tables import SHIPMENTS, Tables
from scenes.loop_guard import on_purpose
from scenes.mariadb import mariadb
from scenes.postgres import USER
from scenes.tcp_relay import tcp_relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from backhaul_sdk.testing import Bench, PushBench
    from scenes.mariadb import MariaDb
    from scenes.tcp_relay import Relay

pytestmark = [
    pytest.mark.programs,
    pytest.mark.faults,
    pytest.mark.long,
]


class MariaTables(Tables):
    """A database of a server; reached through `port`, which may be a relay's."""

    moment_type = "datetime(6) NULL"
    key_type = "varchar(200)"
    at = "timestamp '2020-01-01 00:00:00' + interval x second"

    def __init__(self, server: MariaDb) -> None:
        super().__init__()
        self.server = server
        self.port = server.port
        self.name = server.new_schema()
        self.make()

    def url(self) -> str:
        return f"mariadb://{USER}@127.0.0.1:{self.port}/{self.name}"

    def run(self, statement: str) -> None:
        self._ask(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._ask(query)

    def write(self, into: str, values: str, conflict: str, numbers: range) -> None:
        new = "id = shipments.id" if "NOTHING" in conflict else "taken_at = NULL"
        super().write(into, values, f"DUPLICATE KEY UPDATE {new}", numbers)

    def _ask(self, statement: str) -> list[tuple[Any, ...]]:
        with on_purpose(), self.server.connect(self.name) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            return list(cursor.fetchall())


class WrittenToMaria(Written):
    """A server behind a relay, which breaks the line at the worst moments."""

    failures = (
        Failure.REFUSES,
        Failure.BUSY,
        Failure.BREAKS,
        Failure.LOSES_ANSWER,
    )
    tables: MariaTables

    def __init__(self, tables: MariaTables, relay: Relay) -> None:
        super().__init__(tables)
        self.relay = relay
        relay.counted = b"INSERT INTO"

    def tries(self) -> int:
        return self.relay.seen

    async def fail(self, failure: Failure) -> None:
        if failure is Failure.REFUSES:
            # What was written before is not looked at: only what comes is refused.
            self.tables.run(
                "SET STATEMENT check_constraint_checks = 0 FOR "
                "ALTER TABLE news ADD CONSTRAINT closed CHECK (topic = '')"
            )
        elif failure is Failure.BUSY:
            self.blocking = self.tables.server.connect(self.tables.name)
            self.blocking.cursor().execute("LOCK TABLES news WRITE")
        elif failure is Failure.BREAKS:
            self.relay.cut_before = b"INSERT INTO"
        else:
            # A query of its own: connecting says AUTOCOMMIT.
            self.relay.cut_after = b"\x03COMMIT"

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


@pytest.fixture(scope="session")
def server() -> Iterator[MariaDb]:
    with mariadb() as running:
        yield running


@pytest.fixture(scope="module")
def in_berlin() -> Iterator[MariaDb]:
    """A server whose sessions are in a zone with summer time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        with mariadb() as running:
            yield running


@pytest.fixture
async def relay(server: MariaDb) -> AsyncIterator[Relay]:
    async with tcp_relay(server.port) as running:
        yield running


@pytest.fixture
async def tables(server: MariaDb, relay: Relay) -> AsyncIterator[MariaTables]:
    made = MariaTables(server)
    made.port = relay.port
    yield made
    await made.close()


def test_its_clock_is_right_in_the_hour_that_comes_twice(in_berlin: MariaDb) -> None:
    with in_berlin.connect(in_berlin.new_schema()) as connection:
        cursor = connection.cursor()
        for second in (1_603_585_800, 1_603_589_400):
            cursor.execute("SET timestamp = %s", (second,))
            cursor.execute("SELECT date_format(now(), '%H:%i')")
            assert cursor.fetchone() == ("02:30",)
            cursor.execute(CLOCKS[MARIADB])
            assert float(cursor.fetchone()[0]) == second


async def test_check_reports_times_shown_in_summer_time(
    in_berlin: MariaDb,
) -> None:
    class Stamped(MariaTables):
        moment_type = "timestamp(6) NULL"
        options = ""

        def url(self) -> str:
            return super().url() + self.options

    tables, others = Stamped(in_berlin), MariaTables(in_berlin)
    with pytest.raises(CheckFailed, match="changed_at is a TIMESTAMP, which is"):
        await tables.connector(fulfillments=SHIPMENTS).check()
    await others.connector(fulfillments=SHIPMENTS).check()
    tables.options = "?init_command=SET time_zone='%2B00:00'"
    await tables.connector(fulfillments=SHIPMENTS).check()


async def test_a_transaction_that_commits_late_loses_no_row(server: MariaDb) -> None:
    tables = MariaTables(server)
    now = "utc_timestamp(6)"
    await commits_late(tables, server.connect(tables.name).cursor(), now)
    await tables.close()


class TestReading(PullContract):
    """By when a row changed, and by whether it was taken."""

    @pytest.fixture(params=[FollowedAcross, OutboxAcross])
    def bench(
        self, tables: MariaTables, relay: Relay, request: pytest.FixtureRequest
    ) -> Bench:
        made: Bench = request.param(tables, relay)
        return made


class TestWriting(PushContract):
    """Into a table with a row for each change."""

    @pytest.fixture
    def bench(self, tables: MariaTables, relay: Relay) -> PushBench:
        return WrittenToMaria(tables, relay)
