"""Daemons of two versions on one PostgreSQL database, while its schema is upgraded."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError, CorruptData, DatabaseUnavailable, Superseded
from backhaul.store import database_at, move_database
from backhaul.store.ownership import Member
from backhaul.store.postgres import schema
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.database import open_store
from backhaul.store.sql.schema import STEPS
from scenes.cluster_members import became_owner
from scenes.daemon import Office, in_process
from scenes.later_steps import CONTRACT, EXPAND, INDEX, ON_SERVERS, later_on_servers
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

pytestmark = pytest.mark.programs

OWN = list(STEPS)
_NULLABLE = """
    SELECT is_nullable FROM information_schema.columns
    WHERE table_name = 'orders' AND column_name = 'note'
"""
_WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'
"""
_INDEX_STATE = """
    SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('orders_note')
"""
_JOIN = """
    INSERT INTO members (id, host, version, schema_known, public_url, admin_url,
        roles, shares, ttl, beat_at) VALUES
"""
_TOUCH = "UPDATE orders SET document = document"


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        result = connection.execute(statement.encode())
        return result.fetchall() if result.description else []


def steps(url: str) -> set[object]:
    return {name for (name,) in run(url, "SELECT name FROM schema_steps")}


def create(url: str) -> str:
    with closing(Connection(url)) as connection:
        return schema.create(connection)


def join(url: str, name: str, known: int = len(OWN), silent: str = "0") -> None:
    names = f"'{name}', 'host of {name}', '0.2.0', {known}"
    values = f"{names}, '', '', 'worker', '', interval '3 s'"
    run(url, f"{_JOIN} ({values}, clock_timestamp() - interval '{silent}')")


@pytest.fixture
def upgrading(url: str) -> Iterator[Future[str]]:
    """An upgrade that builds an index, and waits for another program's transaction."""
    with later_on_servers(EXPAND):
        create(url)
    with ThreadPoolExecutor(1) as threads, later_on_servers():
        with closing(psycopg.connect(url)) as other:
            other.execute(_TOUCH)
            upgrade = threads.submit(create, url)
            yield upgrade
        with suppress(psycopg.OperationalError):
            upgrade.result(HANG_SECONDS)


def test_an_older_version_runs_on_after_migrations_that_only_add(url: str) -> None:
    with later_on_servers(EXPAND, INDEX):
        assert create(url) == ""
    assert steps(url) == {*OWN, EXPAND, INDEX}
    open_store(url, SystemClock(), Member("old", "here", "0.2.0"))
    assert database_at(url).pending_migrations() == []


def test_an_older_version_is_refused_once_something_was_removed(url: str) -> None:
    with later_on_servers():
        assert create(url) == ""
    before = steps(url)
    with pytest.raises(CorruptData, match=f"its step {CONTRACT} took away what this"):
        open_store(url, SystemClock(), Member("old", "here", "0.2.0"))
    assert steps(url) == before
    assert run(url, "SELECT * FROM members") == []
    with pytest.raises(psycopg.errors.CheckViolation, match="too old"):
        join(url, "old")


def test_a_version_that_knows_the_replacement_is_not_refused(url: str) -> None:
    with later_on_servers():
        create(url)
    with later_on_servers(EXPAND):
        open_store(url, SystemClock(), Member("between", "here", "0.2.0"))
        join(url, "between", 900)


def test_a_migration_that_removes_waits_for_an_older_member(url: str) -> None:
    join(url, "old", silent="30 s")
    with later_on_servers():
        waits = create(url)
        assert waits == (
            f"the step {CONTRACT} of the upgrade waits for the daemon on host of old,"
            " whose version 0.2.0 still needs what the step takes away; upgrade that"
            " daemon"
        )
        assert run(url, _NULLABLE) == [("YES",)]
        assert steps(url) == {*OWN, EXPAND, INDEX}
        assert database_at(url).pending_migrations() == [CONTRACT]
        join(url, "new", 902)
        run(url, "DELETE FROM members WHERE id = 'old'")
        assert database_at(url).finish_upgrade() == ""
        assert run(url, _NULLABLE) == [("NO",)]


def test_a_member_that_joins_meanwhile_is_waited_for(url: str) -> None:
    """Its row is not visible yet when the migration searches for older members."""
    with later_on_servers(EXPAND):
        create(url)
    with later_on_servers(), ThreadPoolExecutor(1) as threads:
        with closing(psycopg.connect(url)) as joining:
            values = "'old', 'there', '0.2.0', 2, '', '', 'worker', '', '3 s'"
            values += ", clock_timestamp()"
            joining.execute(f"{_JOIN} ({values})".encode())
            upgrade = threads.submit(create, url)
            await_true(
                lambda: run(url, _WAITING.format("FOR UPDATE")) == [(1,)], "it waits"
            )
            joining.commit()
        assert "the daemon on there" in upgrade.result(HANG_SECONDS)
    assert run(url, _NULLABLE) == [("YES",)]


async def test_an_older_owner_that_was_paused_can_no_longer_write(url: str) -> None:
    store = open_store(url, SystemClock(), Member("old", "here", "0.2.0"))
    store.start()
    try:
        await became_owner(store)
        run(url, "UPDATE members SET beat_at = beat_at - interval '1 hour'")
        with later_on_servers():
            assert await asyncio.to_thread(create, url) == ""
        with suppress(Exception):
            await store.kv.put("written by", "old")
        with pytest.raises(Superseded):
            await asyncio.wait_for(store.watch(), HANG_SECONDS)
        assert run(url, "SELECT * FROM kv") == []
    finally:
        await store.stop()


def test_others_write_while_an_index_is_built(url: str, upgrading: Future[str]) -> None:
    await_true(
        lambda: run(url, _WAITING.format("CONCURRENTLY")) == [(1,)], "it is built"
    )
    assert run(url, f"SET lock_timeout = '10s'; {_TOUCH}") == []
    assert not upgrading.done()


def test_an_index_whose_program_ended_is_built_again(
    url: str, upgrading: Future[str]
) -> None:
    await_true(lambda: run(url, _INDEX_STATE) == [(False,)], "it is built")
    run(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE query LIKE '%CONCURRENTLY%' AND pid != pg_backend_pid()",
    )
    with pytest.raises(psycopg.OperationalError):
        upgrading.result(HANG_SECONDS)
    assert run(url, _INDEX_STATE) == [(False,)]
    assert steps(url) == {*OWN, EXPAND}
    run(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE state = 'idle in transaction'",
    )
    assert create(url) == ""
    assert run(url, _INDEX_STATE) == [(True,)]


def test_a_locked_table_is_left_to_its_user_and_tried_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "LOCK_SECONDS", 0.001)
    with later_on_servers(EXPAND), closing(psycopg.connect(url)) as reader:
        reader.execute("SELECT * FROM orders")
        with monkeypatch.context() as patched:
            patched.setattr(schema, "ATTEMPTS", 2)
            with pytest.raises(DatabaseUnavailable, match=f"the step {EXPAND} of"):
                create(url)
        assert steps(url) == set(OWN)
        tries = []

        def pause(seconds: float) -> None:
            tries.append(seconds)
            reader.rollback()

        monkeypatch.setattr(schema, "pause", pause)
        assert create(url) == ""
        assert len(tries) == 1
    assert steps(url) == {*OWN, EXPAND}


def test_migrate_names_the_daemon_that_a_migration_waits_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(url, "old")
    office = Office("https://shop.example", "key")
    monkeypatch.setenv("BACKHAUL_DATABASE__URL", url)
    try:
        with later_on_servers():
            text = in_process("migrate", config=office.config)
            assert text.code == 75
            assert text.out == "2 steps done\n"
            assert f"the step {CONTRACT} of the upgrade waits for the" in text.err
            run(url, "DELETE FROM members")
            text = in_process("migrate", "--json", config=office.config)
            assert text.json() == {"done": [CONTRACT]}
    finally:
        office.remove()


def test_a_database_of_a_newer_version_is_not_moved(url: str, tmp_path: Path) -> None:
    """This version would lose unknown columns and tables."""
    with later_on_servers(EXPAND):
        create(url)
    with pytest.raises(BackhaulError, match=f"upgraded its schema .{EXPAND}.; move"):
        move_database(url, tmp_path / "moved.db", SystemClock(), lambda _: None)


def test_several_daemons_that_start_at_once_upgrade_once(url: str) -> None:
    with later_on_servers(), ThreadPoolExecutor(4) as threads:
        assert list(threads.map(create, [url] * 8)) == [""] * 8
    assert steps(url) == {*OWN, *ON_SERVERS}
    assert run(url, _INDEX_STATE) == [(True,)]


def test_no_released_migration_locks_a_table_to_index_it() -> None:
    """A migration with other changes is one transaction, and keeps its locks."""
    for step, statements in list(STEPS.items())[1:]:
        own = " ".join(statements)
        found = [each for each in map(schema._INDEX.match, statements) if each]
        if len(found) < len(statements):
            assert all(f"CREATE TABLE {each[3]} " in own for each in found), step
