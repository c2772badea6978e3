"""What three replicated PostgreSQL servers keep, and lose, when the primary fails.

These tests check the test servers: later tests rely on them to lose rows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest

from scenes.postgres_nodes import postgres_nodes
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.postgres import Postgres
    from scenes.postgres_nodes import Nodes

pytestmark = pytest.mark.programs

ROWS = 50
TABLE = "CREATE TABLE kept (number integer PRIMARY KEY)"
NUMBERS = "SELECT number FROM kept ORDER BY number"
COMMITS_THAT_WAIT = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with postgres_nodes() as started:
        yield started


def insert(nodes: Nodes, numbers: range) -> set[int]:
    """Insert rows, each in its own transaction; return the confirmed ones."""
    confirmed = set()
    with psycopg.connect(nodes.url, autocommit=True) as connection:
        for number in numbers:
            connection.execute("INSERT INTO kept VALUES (%s)", (number,))
            confirmed.add(number)
    return confirmed


def kept(server: Postgres) -> set[int]:
    with server.connect("public") as connection:
        return {number for (number,) in connection.execute(NUMBERS)}


def await_rows(server: Postgres, numbers: set[int]) -> None:
    """Wait until a replica has replayed these rows, and no others."""
    await_true(lambda: kept(server) == numbers, "it has all rows")


def prepare(nodes: Nodes) -> None:
    """Create the table, and wait until every replica has it."""
    nodes.primary.run(TABLE)
    insert(nodes, range(1))
    for standby in nodes.standbys:
        await_true(partial(has_table, standby), "the table is replicated")


def has_table(server: Postgres) -> bool:
    with server.connect("public") as connection:
        found = connection.execute("SELECT to_regclass('kept')").fetchone()
    return found != (None,) and kept(server) == {0}


def test_without_a_quorum_a_failover_loses_confirmed_rows() -> None:
    with postgres_nodes(synchronous=False) as nodes:
        prepare(nodes)
        for standby in nodes.standbys:
            nodes.stall(standby)
        confirmed = insert(nodes, range(1, ROWS))
        nodes.kill_primary()
        nodes.promote()
        assert len(confirmed - kept(nodes.primary)) == ROWS - 1


def test_with_a_quorum_a_failover_loses_nothing(nodes: Nodes) -> None:
    """One replica is behind, one is ahead, and the old primary returns."""
    prepare(nodes)
    nodes.stall(nodes.servers["b"])
    confirmed = insert(nodes, range(1, ROWS)) | {0}
    old = nodes.kill_primary()
    assert nodes.promote() is nodes.servers["c"]
    assert kept(nodes.primary) == confirmed
    nodes.rejoin(old)
    confirmed |= insert(nodes, range(ROWS, 2 * ROWS))
    for server in nodes.servers.values():
        await_rows(server, confirmed)


def test_the_wrong_standby_lacks_confirmed_rows(nodes: Nodes) -> None:
    prepare(nodes)
    wrong, right = nodes.servers["b"], nodes.servers["c"]
    nodes.stall(wrong)
    confirmed = insert(nodes, range(1, ROWS))
    nodes.kill_primary()
    nodes.promote(wrong)
    assert confirmed - kept(right) == set()
    assert confirmed - kept(wrong) == confirmed


def test_a_commit_waits_while_no_standby_has_it(nodes: Nodes) -> None:
    prepare(nodes)
    one, other = nodes.standbys
    one.kill()
    nodes.stall(other)
    with ThreadPoolExecutor() as pool, nodes.connect() as watching:
        writing = pool.submit(insert, nodes, range(1, 2))

        def commits_wait() -> bool:
            return bool(watching.execute(COMMITS_THAT_WAIT).fetchall())

        await_true(commits_wait, "the commit waits for a standby")
        assert kept(nodes.primary) == {0}
        assert not writing.done()
        nodes.back(one)
        assert writing.result() == {1}
    nodes.resume(other)
    await_rows(other, {0, 1})


def test_a_copy_of_the_new_primary_replaces_a_standby_that_was_ahead(
    nodes: Nodes,
) -> None:
    prepare(nodes)
    wrong, right = nodes.servers["b"], nodes.servers["c"]
    nodes.stall(wrong)
    insert(nodes, range(1, ROWS))
    nodes.kill_primary()
    nodes.promote(wrong)
    nodes.clone(right)
    insert(nodes, range(ROWS, ROWS + 1))
    await_rows(right, {0, ROWS})
