"""A copy of a database is complete and checked, or does not exist."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.cli import exit_codes
from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError, Busy, CorruptData
from backhaul.maintenance.database_jobs import BackupPlan, BackupWorker
from backhaul.store.database import MANIFEST_SUFFIX
from backhaul.store.sqlite import connections, file_backup
from backhaul.store.sqlite.database import SqliteStore
from backhaul.store.sqlite.opening import open_store, pending
from backhaul.store.sqlite.restoring import drill, restore
from scenes.clock import VirtualClock
from scenes.databases import count, rows, started_store
from scenes.later_steps import later_version, make_older
from scenes.payloads import arrival
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

EVENTS = 200
CLOCK = SystemClock()


@pytest.fixture
async def database(tmp_path: Path) -> Path:
    """Return a database with some rows."""
    async with started_store(tmp_path / "backhaul.db") as store:
        for number in range(EVENTS):
            await store.inbox.append(arrival(b"%d" % number * 500))
    return tmp_path / "backhaul.db"


def damage(path: Path, table: str = "inbox") -> None:
    """Overwrite the first page of a table."""
    query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
    ((page,),) = rows(path, query, table)
    with path.open("r+b") as file:
        file.seek((page - 1) * connections.PAGE_BYTES)
        file.write(b"\xa5" * connections.PAGE_BYTES)


def files(folder: Path) -> list[str]:
    """Return the files in a folder, without SQLite's files of the database."""
    found = [path.name for path in folder.iterdir()]
    return sorted(name for name in found if not name.endswith(("-wal", "-shm")))


async def test_a_copy_of_a_busy_database_is_whole(tmp_path: Path) -> None:
    copied = tmp_path / "copy.db"
    async with started_store(tmp_path / "backhaul.db") as store:
        for number in range(EVENTS):
            await store.inbox.append(arrival(b"%d" % number * 500))
        going = True

        async def write() -> None:
            while going:
                await store.inbox.append(arrival(b"more" * 500))

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            size = await asyncio.to_thread(file_backup.copy, store.path, copied)
            going = False
    assert size == copied.stat().st_size
    assert copied.stat().st_mode & 0o777 == 0o600
    assert EVENTS <= count(copied, "inbox") <= count(store.path, "inbox")
    assert rows(copied, "PRAGMA integrity_check") == [("ok",)]
    assert files(tmp_path) == ["backhaul.db", "copy.db"]


def test_a_damaged_database_is_not_copied(database: Path) -> None:
    damage(database)
    copied = database.with_name("copy.db")
    with pytest.raises(CorruptData, match="backhaul restore FILE"):
        file_backup.copy(database, copied)
    assert files(database.parent) == ["backhaul.db"]


def test_the_unreadable_database_is_named(tmp_path: Path) -> None:
    """The error names the database, not the new backup file."""
    unread = tmp_path / ("n" * 300) / "backhaul.db"
    with pytest.raises(BackhaulError, match=r"backhaul\.db: cannot be read: file name"):
        file_backup.copy(unread, tmp_path / "copy.db")
    assert files(tmp_path) == []


def test_an_abandoned_copy_leaves_nothing(database: Path) -> None:
    with pytest.raises(file_backup.Ended):
        file_backup.copy(database, database.with_name("copy.db"), lambda: True)
    assert files(database.parent) == ["backhaul.db"]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a" * 5_000)
    with pytest.raises(CorruptData, match="not a database"):
        drill(tmp_path / "notes.txt", CLOCK)
    with pytest.raises(BackhaulError, match="no such file"):
        drill(tmp_path / "absent.db", CLOCK)


def empty(path: Path) -> None:
    path.touch()


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE notes (text TEXT)")


@pytest.mark.parametrize("make", [empty, foreign])
def test_a_foreign_database_is_refused_as_backup(
    database: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """To open it would create our schema in it, as in an empty database."""
    theirs = tmp_path / "theirs.db"
    make(theirs)
    before = database.read_bytes()
    with pytest.raises(CorruptData, match=r"theirs\.db: this is not a backup"):
        drill(theirs, CLOCK)
    with pytest.raises(CorruptData, match=r"theirs\.db: this is not a backup"):
        restore(theirs, database, ["main"], CLOCK)
    assert database.read_bytes() == before
    assert files(tmp_path) == ["backhaul.db", "theirs.db"]


def test_a_restored_database_equals_the_backup(database: Path) -> None:
    backup = database.with_name("backup.db")
    file_backup.copy(database, backup)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM inbox WHERE id > 10")
    done = restore(backup, database, ["main"], CLOCK)
    assert done.rows["inbox"] == count(database, "inbox") == EVENTS
    assert done.aside is not None
    assert count(done.aside, "inbox") == 10
    query = "SELECT 1 FROM kv WHERE name = 'restored:main'"
    assert rows(database, query)
    assert pending(database) == []


def test_two_restores_within_one_second_keep_both_databases_of_before(
    database: Path,
) -> None:
    backup = database.with_name("backup.db")
    file_backup.copy(database, backup)
    within_a_second = VirtualClock()
    asides = []
    for kept in (10, 20):
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("DELETE FROM inbox WHERE id > ?", (kept,))
        asides.append(restore(backup, database, ["main"], within_a_second).aside)
    first, second = asides
    assert first is not None
    assert second is not None
    assert (count(first, "inbox"), count(second, "inbox")) == (10, 20)


def test_nothing_of_a_restore_that_was_killed_is_in_the_next(database: Path) -> None:
    """SQLite would apply the remaining log to the other backup."""
    backup = database.with_name("backup.db")
    file_backup.copy(database, backup)
    killed = database.with_name(f".{database.name}.restoring")
    log = database.with_name(f"{killed.name}-wal")
    file_backup.copy(backup, killed)
    with closing(connections.open_writer(killed)) as connection:
        connection.execute("INSERT INTO kv VALUES ('of', 'another life')")
        kept = log.read_bytes()
    log.write_bytes(kept)
    restore(backup, database, ["main"], CLOCK)
    assert rows(database, "SELECT * FROM kv WHERE name = 'of'") == []
    assert not [*database.parent.glob(f"{killed.name}*")]


def test_removals_that_a_restore_undid_are_reported(database: Path) -> None:
    backup = database.with_name("backup.db")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany(
            "INSERT INTO users (name, role, secret, epoch, created_at)"
            " VALUES (?, 'admin', 's', 1, '')",
            [("ann",), ("bob",), ("dan",), ("eve",), ("flo",)],
        )
        connection.execute(
            "INSERT INTO webhook_secrets (store, fingerprint, source, known_since)"
            " VALUES ('main', '1a2b', 'settings', ''), ('main', '3c4d', 'settings', '')"
        )
        connection.execute(
            "INSERT INTO api_tokens (name, digest, scope, created_at, created_by)"
            " VALUES ('app', 'd1', 'read', '', 'ann'), ('wms', 'd2', 'read', '', 'ann')"
        )
    file_backup.copy(database, backup)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "UPDATE api_tokens SET revoked_at = '2026' WHERE name = 'app'"
        )
        connection.execute(
            "INSERT INTO api_tokens"
            " (name, digest, scope, created_at, created_by, revoked_at)"
            " VALUES ('new', 'd3', 'read', '', 'ann', '2026')"
        )
        connection.execute("DELETE FROM users WHERE name = 'eve'")
        connection.execute("UPDATE users SET secret = 't' WHERE name = 'bob'")
        connection.execute("UPDATE users SET role = 'viewer' WHERE name = 'dan'")
        connection.execute("UPDATE users SET disabled_at = '2026' WHERE name = 'flo'")
        connection.execute(
            "UPDATE webhook_secrets SET dropped_at = '2026' WHERE fingerprint = '3c4d'"
        )
        connection.execute(
            "INSERT INTO erased_customers VALUES ('main', 'cus_1', '2026')"
        )
    assert restore(backup, database, ["main"], CLOCK).returned == (
        "dashboard user bob has the password of the backup: backhaul users password"
        " bob",
        "dashboard user dan is admin again: backhaul users role dan viewer",
        "dashboard user eve is admin again: backhaul users remove eve",
        "dashboard user flo can log in again: backhaul users disable flo",
        "the revoked API token app is valid again: backhaul tokens revoke app",
        "a revoked webhook secret of store main is valid again: backhaul secrets"
        " revoke 3c4d",
        "an erased customer is in the database again: backhaul customers erase"
        " cus_1 --store main",
    )
    assert restore(backup, database, ["main"], VirtualClock()).returned == ()


def test_a_damaged_backup_touches_nothing(database: Path) -> None:
    backup = database.with_name("backup.db")
    file_backup.copy(database, backup)
    damage(backup)
    before = database.read_bytes()
    with pytest.raises(CorruptData, match=r"backup\.db: this backup is damaged") as it:
        restore(backup, database, ["main"], CLOCK)
    assert str(it.value).endswith("; use another backup")
    assert database.read_bytes() == before
    assert files(database.parent) == ["backhaul.db", "backup.db"]


def test_the_backup_of_a_newer_version_is_named(database: Path) -> None:
    backup = database.with_name("backup.db")
    file_backup.copy(database, backup)
    with closing(sqlite3.connect(backup)) as connection, connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('backhaul', 'm999_future', '2030-01-01')"
        )
    with pytest.raises(CorruptData, match=r"^\S+backup\.db: a newer version"):
        drill(backup, CLOCK)
    with pytest.raises(CorruptData, match=r"^\S+backup\.db: a newer version"):
        restore(backup, database, ["main"], CLOCK)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_backup_is_reported_as_damaged(
    database: Path, share: float
) -> None:
    """The message must not suggest that the database is damaged."""
    backup = database.with_name("backup.db")
    file_backup.copy(database, backup)
    with backup.open("r+b") as file:
        file.truncate(int(backup.stat().st_size * share))
    with pytest.raises(CorruptData, match=r"backup\.db: this backup is damaged"):
        drill(backup, CLOCK)
    with pytest.raises(CorruptData, match=r"backup\.db: this backup is damaged"):
        restore(backup, database, ["main"], CLOCK)


def test_a_backup_replaces_a_damaged_database(database: Path) -> None:
    backup = database.with_name("backup.db")
    file_backup.copy(database, backup)
    damage(database, "users")
    assert restore(backup, database, ["main"], CLOCK).returned is None
    file_backup.check(database)
    assert count(database, "inbox") == EVENTS


def test_a_drill_leaves_nothing_behind(database: Path) -> None:
    backup = database.with_name("backup.db")
    file_backup.copy(database, backup)
    found = drill(backup, CLOCK)
    assert (found.rows["inbox"], found.aside) == (EVENTS, None)
    assert files(database.parent) == ["backhaul.db", "backup.db"]


def with_manifests(*names: str) -> list[str]:
    """Return the names of the created backups and of their manifests."""
    return sorted([*names, *(f"{name}{MANIFEST_SUFFIX}" for name in names)])


async def test_the_oldest_backups_go(database: Path, tmp_path: Path) -> None:
    clock, folder = VirtualClock(), tmp_path / "backups"
    messages: list[str] = []

    async def record(_: str, said: str, *, failed: bool = False) -> None:
        assert not failed
        messages.append(said)

    backer = BackupWorker(BackupPlan(database, folder, 2), clock, record)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(backer.run())
        for number in range(1, 4):
            await clock.advance(3_600)
            backer.wake()
            await until(lambda: len(messages) == number, "it is made")  # noqa: B023 - awaited
        running.cancel()
    kept = sorted(path.name for path in folder.iterdir())
    assert kept == with_manifests(
        "backhaul-20260301T140000Z.db", "backhaul-20260301T150000Z.db"
    )
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_backups_dated_by_a_clock_that_was_ahead_are_the_oldest(
    database: Path, tmp_path: Path
) -> None:
    """Otherwise each new backup would be removed at once, and reported as done."""
    clock, folder = VirtualClock(), tmp_path / "backups"
    backer = BackupWorker(BackupPlan(database, folder, 2), clock)
    for jump in (-86_400, -3_600, 90_000, 0):
        clock.set_back(jump)
        said, failed = await backer._back_up()
        assert not failed
        assert (folder / said.partition(",")[0]).exists()
        await clock.advance(60)
    kept = sorted(path.name for path in folder.iterdir())
    assert kept == with_manifests(
        "backhaul-20260301T120200Z.db", "backhaul-20260301T120300Z.db"
    )


async def test_a_foreign_file_beside_the_backups_stays(
    database: Path, tmp_path: Path
) -> None:
    """The rotation would remove a file by its name alone."""
    clock, folder = VirtualClock(), tmp_path / "backups"
    folder.mkdir()
    theirs = ["backhaul-20250101T000000Z-good.db", "backhaul-before-the-move.db"]
    for name in theirs:
        file_backup.copy(database, folder / name)
    backer = BackupWorker(BackupPlan(database, folder, 1), clock)
    for _ in range(2):
        await backer._back_up()
        await clock.advance(60)
    kept = sorted(path.name for path in folder.iterdir())
    made = with_manifests("backhaul-20260301T120100Z.db")
    assert kept == sorted([*made, *theirs])


async def test_a_backup_interrupted_by_a_kill_is_removed_by_the_next(
    database: Path, tmp_path: Path
) -> None:
    """Its name never recurs; a copy that an operator makes has another name."""
    folder = tmp_path / "backups"
    folder.mkdir()
    left = ".backhaul-20260228T120000Z.db.unfinished"
    theirs = [".now.db.unfinished", ".now.db.unfinished-journal"]
    manifest = ".backhaul-20260228T120000Z.db.manifest.json.unfinished"
    sides = [f"{left}{side}" for side in file_backup.SIDES]
    for name in (left, *sides, manifest, *theirs):
        (folder / name).write_bytes(b"a" * 1_000)
    _, failed = await BackupWorker(
        BackupPlan(database, folder, 1), VirtualClock()
    )._back_up()
    assert not failed
    kept = sorted(path.name for path in folder.iterdir())
    assert kept == [*theirs, *with_manifests("backhaul-20260301T120000Z.db")]


IN_THE_WAY = {
    "the folder": ("", "could not be created"),
    "what is written": (".backhaul-20260301T120000Z.db.unfinished", "cannot be writ"),
    "an old one": ("backhaul-20250101T000000Z.db", "could not be deleted"),
}


@pytest.mark.parametrize(("name", "said"), IN_THE_WAY.values(), ids=IN_THE_WAY)
async def test_a_backup_that_fails_ends_nothing_and_is_tried_again(
    database: Path, tmp_path: Path, name: str, said: str
) -> None:
    """A file in place of a folder, and folders in place of files."""
    clock, folder = VirtualClock(), tmp_path / "backups"
    blocked = folder / name
    if name:
        blocked.mkdir(parents=True)
    else:
        folder.touch()
    messages: list[tuple[str, bool]] = []

    async def record(_: str, text: str, *, failed: bool = False) -> None:
        messages.append((text, failed))

    backer = BackupWorker(BackupPlan(database, folder, 1), clock, record)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(backer.run())
        backer.wake()
        await until(lambda: len(messages) == 1, "it has failed")
        blocked.rmdir() if name else folder.unlink()
        backer.wake()
        await until(lambda: len(messages) == 2, "it is made")
        running.cancel()
    assert said in messages[0][0]
    assert str(folder) in messages[0][0]
    assert "[jobs.backup]" in messages[0][0]
    assert [failed for _, failed in messages] == [True, False]
    kept = sorted(path.name for path in folder.iterdir())
    assert kept == with_manifests("backhaul-20260301T120000Z.db")


@pytest.fixture
def later() -> Iterator[list[str]]:
    """Run the test on a later version; return its migrations."""
    with later_version() as steps:
        yield steps


def test_an_upgrade_is_logged_and_keeps_all_rows(
    tmp_path: Path, later: list[str]
) -> None:
    path = tmp_path / "backhaul.db"
    messages: list[str] = []
    make_older(path)
    assert pending(path) == later
    (tmp_path / "backhaul.db.before-m000_old").touch()
    open_store(path, CLOCK, notify=messages.append)
    kept = tmp_path / f"backhaul.db.before-{later[0]}"
    assert pending(path) == []
    assert pending(kept) == later
    assert messages == [
        "backs the database up before its upgrade",
        "brings the database to this version",
    ]
    kept_files = sorted(path.name for path in tmp_path.glob("*.before-*"))
    assert kept_files == with_manifests(kept.name)
    messages.clear()
    open_store(path, CLOCK, notify=messages.append)
    assert messages == []


@pytest.mark.usefixtures("later")
def test_an_upgrade_leaves_what_a_restore_has_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    make_older(path)
    aside = tmp_path / "backhaul.db.before-restore-20260301T120000Z"
    aside.touch()
    open_store(path, CLOCK)
    assert aside.exists()


@pytest.mark.usefixtures("later")
def test_an_older_backup_is_restored_and_leaves_no_copy_of_itself(
    tmp_path: Path,
) -> None:
    backup = tmp_path / "old.db"
    make_older(backup)
    file_backup.copy(backup, tmp_path / "backup.db")
    restore(tmp_path / "backup.db", tmp_path / "backhaul.db", ["main"], CLOCK)
    assert files(tmp_path) == ["backhaul.db", "backup.db", "old.db"]


def test_no_upgrade_without_a_backup(tmp_path: Path, later: list[str]) -> None:
    path = tmp_path / "backhaul.db"
    make_older(path)
    kept = tmp_path / f"backhaul.db.before-{later[0]}"
    kept.mkdir()
    (kept / "in the way").touch()
    with pytest.raises(BackhaulError, match="cannot be written"):
        open_store(path, CLOCK)
    assert pending(path) == later


async def test_damage_met_while_writing_ends_the_program(database: Path) -> None:
    damage(database, "kv")
    store = SqliteStore(database, CLOCK)
    store.start()
    with pytest.raises(Busy, match="backhaul restore FILE"):
        await store.kv.put("name", "value")
    with pytest.raises(CorruptData, match="the database is damaged"):
        await store.watch()
    await store.stop()


def test_damage_met_anywhere_is_reported_with_the_remedy(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(database)
    assert exit_codes.run(lambda: rows(database, "SELECT * FROM inbox"), []) == 65
    said = capsys.readouterr().err
    assert "the database is damaged" in said
    assert "backhaul restore FILE" in said
    assert said.count("\n") == 1
