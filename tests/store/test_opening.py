"""Opening a database: a new file, one of our files, and errors for anything else."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlite_utils import Database, Migrations, hookimpl
from sqlite_utils.plugins import pm

from backhaul.core.clock import SystemClock
from backhaul.doctor.storage import check_database as check
from backhaul.errors import (
    AlreadyRunning,
    BackhaulError,
    ConfigurationError,
    CorruptData,
)
from backhaul.store.database import setting_errors, sole_writer
from backhaul.store.sql.schema import BASELINE, CONNECTOR_DOCUMENTS, STEPS
from backhaul.store.sqlite import connections, file_backup
from backhaul.store.sqlite.connections import open_reader, open_writer
from backhaul.store.sqlite.migrations import migrations
from backhaul.store.sqlite.opening import open_store, pending
from backhaul.store.sqlite.restoring import restore
from scenes.databases import append_and_fold, count, rows, started_store
from scenes.payloads import envelope, order

if TYPE_CHECKING:
    from pathlib import Path

TABLES = {
    *(
        "inbox",
        "event_outcomes",
        "delivery_digests",
        "kv",
        "changes",
        "products",
        "variants",
    ),
    *("inventory_levels", "stock_ledger", "orders", "order_items", "shipments"),
    *("customers", "records", "cursors", "quarantine", "commands", "attempts"),
}


class Plugin:
    """A plugin for sqlite-utils that is installed."""

    def __init__(self) -> None:
        self.prepared = 0

    @hookimpl
    def prepare_connection(self) -> None:
        self.prepared += 1


def test_a_new_file_gets_every_table(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "backhaul.db"
    open_store(path, SystemClock())
    found = rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")
    assert {name for (name,) in found} >= TABLES
    assert rows(path, "SELECT count(*) FROM events") == [(0,)]


def test_plugins_of_the_library_are_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    meddler = Plugin()
    pm.register(meddler)
    try:
        pending(path)
        for _ in range(2):
            open_store(path, SystemClock())
            pending(path)
    finally:
        pm.unregister(meddler)
    assert meddler.prepared == 0


def test_a_file_without_read_permission_is_not_called_damaged(tmp_path: Path) -> None:
    """Otherwise an operator might restore a backup over an intact database."""
    path = tmp_path / "backhaul.db"
    open_store(path, SystemClock())
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    path.with_name(f"{path.name}-wal").mkdir()
    with pytest.raises(BackhaulError, match="cannot be read: unable to open") as error:
        pending(path)
    assert not isinstance(error.value, CorruptData)
    with pytest.raises(BackhaulError, match="cannot be read: unable to open") as error:
        file_backup.open_beside(path)
    assert not isinstance(error.value, CorruptData)
    (found,) = check(path)
    assert (found.check, found.state, "restore" in found.fix) == (
        "database",
        "fail",
        False,
    )


def test_a_damaged_or_foreign_file_is_reported_as_such(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    path.write_text("hello")
    with pytest.raises(CorruptData, match=r"is damaged .*: backhaul restore FILE"):
        file_backup.open_beside(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("CREATE TABLE diary (day)")
    with pytest.raises(BackhaulError, match="cannot be read: no such table: inbox"):
        file_backup.open_beside(path)


def test_a_schema_that_is_cut_off_leaves_nothing_half_made(tmp_path: Path) -> None:
    """The schema is created in one commit, even if the file cannot grow enough."""
    path = tmp_path / "backhaul.db"
    script = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from backhaul.core.clock import SystemClock\n"
        "from backhaul.store.sqlite.opening import open_store\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
        "open_store(Path(sys.argv[1]), SystemClock())\n"
    )
    cut = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "cannot be opened" in cut.stderr
    assert rows(path, "SELECT name FROM sqlite_master") == []
    open_store(path, SystemClock())
    assert path.stat().st_size > 400_000


async def test_a_database_of_the_first_release_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    with closing(open_writer(path)) as connection:
        migrations.apply(Database(connection), stop_before=CONNECTOR_DOCUMENTS)
        connection.execute("INSERT INTO kv VALUES ('kept', '1')")
        connection.execute(
            "INSERT INTO quarantine (source, name, key, raw, reason, locator, at)"
            " VALUES ('event', 'main', '1', '{', 'no JSON', 'event 1', '')"
        )
    first, *later = STEPS
    assert first == BASELINE
    assert pending(path) == later
    store = open_store(path, SystemClock())
    store.start()
    await store.documents.transact("dock", None, lambda each: each.put("a", b"1"))
    assert await store.kv.get("kept") == "1"
    await store.stop()
    assert pending(path) == []
    before = path.with_name(f"{path.name}.before-{CONNECTOR_DOCUMENTS}")
    assert rows(before, "SELECT * FROM kv") == [("kept", "1")]
    classes = "SELECT reason_class, subject FROM quarantine"
    assert rows(path, classes) == [("other", "")]


async def test_opening_again_keeps_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    async with started_store(path) as store:
        await append_and_fold(store, envelope("orders/create", order()))
    before = rows(path, "SELECT sql FROM sqlite_master ORDER BY name")
    async with started_store(path):
        assert count(path, "orders") == 1
    assert rows(path, "SELECT sql FROM sqlite_master ORDER BY name") == before


def test_the_writer_survives_a_power_loss(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    open_store(path, SystemClock())
    with closing(open_writer(path)) as connection:

        def setting(name: str) -> object:
            return connection.execute(f"PRAGMA {name}").fetchone()[0]

        assert setting("journal_mode") == "wal"
        assert setting("synchronous") == 2
        assert setting("foreign_keys") == 1
        assert setting("busy_timeout") == connections.BUSY_MILLISECONDS
        assert setting("page_size") == connections.PAGE_BYTES


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    open_store(path, SystemClock())
    with (
        closing(open_reader(path)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        connection.execute("DELETE FROM inbox")


def test_a_newer_database_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    open_store(path, SystemClock())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('backhaul', 'm999_future', '2030-01-01')"
        )
    before = path.read_bytes()
    with pytest.raises(CorruptData, match=r"newer version of Backhaul.*m999_future"):
        open_store(path, SystemClock())
    assert path.read_bytes() == before
    assert CorruptData.exit_code == 65


@pytest.fixture
def unreleased(tmp_path: Path) -> Path:
    """Return a database of a version before the first release."""
    path = tmp_path / "unreleased.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        database = Database(connection)
        steps = Migrations("backhaul")
        steps(name="m001_events")(lambda each: each.execute("CREATE TABLE inbox (id)"))
        steps.apply(database)
    return path


def test_a_database_from_before_the_first_release_is_refused(unreleased: Path) -> None:
    before = unreleased.read_bytes()
    with pytest.raises(CorruptData, match=r"before 0\.1\.0 made this .*Move"):
        open_store(unreleased, SystemClock())
    with pytest.raises(CorruptData, match=r"before 0\.1\.0"):
        pending(unreleased)
    assert unreleased.read_bytes() == before


async def test_a_backup_from_before_the_first_release_is_refused(
    unreleased: Path, tmp_path: Path
) -> None:
    path = tmp_path / "backhaul.db"
    async with started_store(path) as store:
        await append_and_fold(store, envelope("orders/create", order()))
    before = path.read_bytes()
    with pytest.raises(CorruptData, match=r"unreleased.db: .*before 0.1.0"):
        restore(unreleased, path, ["main"], SystemClock())
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [b"this is a letter to my aunt" * 100, b"SQLite format 3\0" + b"\xff" * 9_000],
    ids=["letter", "header only"],
)
def test_a_file_of_another_kind_is_refused_in_words(
    content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "backhaul.db"
    path.write_bytes(content)
    with pytest.raises(CorruptData, match="then restore a backup"):
        open_store(path, SystemClock())
    assert path.read_bytes() == content


def test_a_database_cut_in_half_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    open_store(path, SystemClock())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CorruptData):
        open_store(path, SystemClock())


def test_a_second_writer_is_refused_by_the_number_of_the_first(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from backhaul.store.database import sole_writer\n"
        "with sole_writer(Path(sys.argv[1])):\n"
        "    sys.stdout.write('holds\\n'); sys.stdout.flush(); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with (
            pytest.raises(AlreadyRunning, match=rf"process \({holder.pid}\)"),
            sole_writer(tmp_path),
        ):
            pass
        holder.kill()
    with sole_writer(tmp_path):
        assert (tmp_path / "backhaul.lock").read_text() == f"{os.getpid()}\n"


def test_a_folder_that_is_made_is_for_its_owner_only(tmp_path: Path) -> None:
    with sole_writer(tmp_path / "state"):
        open_store(tmp_path / "elsewhere" / "backhaul.db", SystemClock())
    for name in ("state", "elsewhere"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700


def test_a_new_database_is_for_its_owner_only(tmp_path: Path) -> None:
    """The database contains customers' addresses, so only its owner may read it."""
    tmp_path.chmod(0o755)
    path = tmp_path / "backhaul.db"
    open_store(path, SystemClock())
    with closing(open_writer(path)) as connection:
        connection.execute("DELETE FROM kv")
        modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    assert modes == {
        path.name: 0o600,
        f"{path.name}-wal": 0o600,
        f"{path.name}-shm": 0o600,
    }


def test_a_database_keeps_its_file_mode(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    open_store(path, SystemClock())
    path.chmod(0o640)
    open_store(path, SystemClock())
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_lock_is_private_and_given_back(tmp_path: Path) -> None:
    for _ in range(2):
        with sole_writer(tmp_path / "state"):
            mode = (tmp_path / "state" / "backhaul.lock").stat().st_mode
            assert mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("file", "is not a folder"),
        ("file/deep/state", "is not a folder"),
        ("/proc/backhaul", "no such file or directory"),
        ("locked", "is a directory"),
    ],
)
def test_a_state_folder_that_cannot_be_used_is_reported(
    place: str, reason: str, tmp_path: Path
) -> None:
    """None of these is a bug, and a restart does not help: the exit code is 78."""
    (tmp_path / "file").touch()
    (tmp_path / "locked" / "backhaul.lock").mkdir(parents=True)
    with (
        pytest.raises(ConfigurationError, match=reason) as error,
        sole_writer(tmp_path / place),
    ):
        pass
    (found,) = error.value.findings
    assert (found.key, str(tmp_path / place) in found.source) == ("state_dir", True)
    assert "name a folder that the daemon can write to" in found.hint


def test_a_folder_of_the_database_that_cannot_be_used_is_reported(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigurationError, match=r"file: database\.url: .*not a folder"
    ):
        open_store(tmp_path / "file" / "backhaul.db", SystemClock())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_general_file_error_is_passed_on_unchanged(number: int) -> None:
    with pytest.raises(OSError, match="as it was"), setting_errors("state_dir"):
        raise OSError(number, "as it was")
