"""A PostgreSQL server's archive, and a database that its tools have restored."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from backhaul.app.monitoring import ARCHIVE_FAILURES
from backhaul.core.clock import SystemClock
from backhaul.doctor.storage import check_database
from backhaul.errors import AlreadyRunning, BackhaulError, Superseded
from backhaul.store import database_at
from backhaul.store.commands import restored_mark
from backhaul.store.ownership import new_member
from backhaul.store.postgres import durability
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.database import PostgresStore, open_store
from backhaul.store.testing.command_scenes import plan, state_of
from scenes.cluster_members import became_owner, run
from scenes.daemon import UNUSED_ADDRESS, Office, in_process
from scenes.postgres import PASSWORD, postgres
from scenes.waiting import HANG_SECONDS, await_true, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scenes.postgres import Postgres

pytestmark = pytest.mark.programs
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


@pytest.fixture
def url(server: Postgres) -> str:
    return server.new_database()


@pytest.fixture
def office(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    made = Office(UNUSED_ADDRESS.removesuffix("/hook"), "svc_live_" + "0" * 40)
    monkeypatch.setenv("BACKHAUL_DATABASE__URL", url)
    yield made
    made.remove()


async def owner_of(url: str) -> PostgresStore:
    store = open_store(url, CLOCK, new_member())
    store.start()
    await asyncio.wait_for(became_owner(store), HANG_SECONDS)
    return store


async def test_after_a_restore_every_open_command_is_checked_before_it_is_sent(
    url: str, office: Office
) -> None:
    store = await owner_of(url)
    command = await plan(store, "ord_1")
    await store.stop()
    checks = await asyncio.to_thread(
        in_process, "restore", "--fence", config=office.config
    )
    assert (checks.code, checks.err) == (0, "")
    assert checks.out == (
        "main: after the next start, no command is sent until the platform has been"
        " read\n"
    )
    store = await owner_of(url)
    assert await state_of(store, command) == "uncertain"
    assert await store.kv.get(restored_mark("main")) is not None
    await store.stop()


async def test_a_daemon_from_before_the_restore_can_no_longer_write(url: str) -> None:
    """It lost its connection, and returns after the restore."""
    store = await owner_of(url)
    run(url, "UPDATE members SET beat_at = beat_at - interval '1 hour'")
    database_at(url).hold_for_audit(["main"], CLOCK)
    with pytest.raises(BackhaulError):
        await store.kv.put("written", "after the restore")
    with pytest.raises((Superseded, BackhaulError)):
        await asyncio.wait_for(store.watch(), HANG_SECONDS)
    await store.stop()


async def test_a_database_in_use_is_left_alone(url: str) -> None:
    store = await owner_of(url)
    command = await plan(store, "ord_1")
    keeping = asyncio.create_task(store.ownership.keep())
    await until(database_at(url).members, "it gave a sign of life")
    with pytest.raises(AlreadyRunning, match="stop every daemon"):
        await asyncio.to_thread(database_at(url).hold_for_audit, ["main"], CLOCK)
    assert await state_of(store, command) == "planned"
    keeping.cancel()
    await store.stop()


def test_a_file_is_restored_from_a_backup(office: Office, tmp_path: Path) -> None:
    with pytest.raises(BackhaulError, match="backhaul restore FILE"):
        database_at(tmp_path / "backhaul.db").hold_for_audit(["main"], CLOCK)
    for given in ((), ("--fence", "--drill"), ("--fence", "file.db")):
        checks = in_process("restore", *given, config=office.config)
        assert checks.code == 2
        assert "give either a backup file" in checks.err


def archive(url: str) -> tuple[list[str], dict[str, str]]:
    with closing(Connection(url)) as connection:
        well, wrong = durability.archiving(connection)
    return well, {each.key: each.problem for each in wrong}


@pytest.fixture
def archiving(server: Postgres) -> Iterator[Postgres]:
    """Return a server with an archive command, which `configure` changes."""
    server.stop()
    before = server.settings
    server.settings = (*before, "archive_mode=on", "wal_level=replica")
    server.start()
    yield server
    server.run("ALTER SYSTEM RESET archive_command")
    server.stop()
    server.settings = before
    server.start()


def configure(server: Postgres, command: str) -> None:
    server.run(f"ALTER SYSTEM SET archive_command = '{command}'")
    server.reload()
    with server.connect("public") as connection:
        await_true(
            lambda: connection.execute("SHOW archive_command").fetchone() == (command,),
            "the server has read it",
        )
        connection.execute("SELECT pg_switch_wal()")


def test_a_server_without_an_archive_is_a_warning(url: str) -> None:
    well, wrong = archive(url)
    assert well == []
    assert wrong == {
        "archive_mode": "the server archives no WAL, as far as Backhaul can see"
    }


def test_a_failing_archive_is_found_and_ends_when_it_works(
    archiving: Postgres, url: str
) -> None:
    open_store(url, CLOCK)
    configure(archiving, "false")
    await_true(lambda: "archive_command" in archive(url)[1], "it fails")
    assert "failed attempts), and keeps all WAL" in archive(url)[1]["archive_command"]
    assert "archive_command" in ARCHIVE_FAILURES
    checks = [(each.check, each.state.name) for each in check_database(url)]
    assert ("archive", "WARN") in checks
    configure(archiving, "true")
    await_true(lambda: archive(url)[1] == {}, "it works")
    well, _ = archive(url)
    assert well[0] == "WAL was last archived 0 min ago"
    assert well[1].endswith(" WAL files wait for the archive")


def test_an_old_archive_is_a_warning(
    archiving: Postgres, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(archiving, "true")
    await_true(lambda: archive(url)[1] == {}, "it works")
    monkeypatch.setattr(durability, "OLD_ARCHIVE_SECONDS", 0.0)
    assert archive(url)[1] == {
        "archive_timeout": "WAL was last archived 0 h ago; a restore loses what came"
        " later"
    }


def test_the_check_says_what_a_role_without_pg_monitor_cannot_see(
    archiving: Postgres, url: str
) -> None:
    archiving.run(f"CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}'")
    configure(archiving, "true")
    await_true(lambda: archive(url)[1] == {}, "it works")
    well, _ = archive(url.replace("backhaul:", "plain:"))
    assert well[1:] == [
        "the role plain may not see how much WAL waits for the archive; GRANT"
        ' pg_monitor TO "plain" lets it'
    ]


def test_an_unread_replication_slot_is_found(
    server: Postgres, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "HELD_BYTES", 0)
    server.run("SELECT pg_create_physical_replication_slot('left', true)")
    try:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE written AS SELECT generate_series(1, 999)")
        found = archive(url)[1]["pg_replication_slots"]
        assert found.startswith("nobody reads the replication slot left, which holds")
        assert "pg_replication_slots" in ARCHIVE_FAILURES
    finally:
        server.run("SELECT pg_drop_replication_slot('left')")
