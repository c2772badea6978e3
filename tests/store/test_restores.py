"""A restore over any existing files equals the backup, or changes nothing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backhaul.doctor import State
from backhaul.doctor.storage import check_database as check
from backhaul.errors import AlreadyRunning, BackhaulError, CorruptData
from backhaul.store.database import manifest_of
from backhaul.store.sqlite import (
    file_backup,
    file_replacement,
    restoring,
)
from backhaul.store.sqlite.opening import open_store
from scenes.databases import rows
from scenes.restore_places import (
    ABSENT,
    ALL,
    CHANCE,
    CLOCK,
    EMPTY,
    FOREIGN,
    GARBAGE,
    OWN,
    WORST,
    Files,
    list_place,
    made,
    make_files,
    place_files,
    require_equal,
)

if TYPE_CHECKING:
    from collections.abc import Callable

STATES = int(os.environ.get("RESTORE_STATES", "16"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("state", [*WORST, *CHANCE.sample(ALL, STATES)], ids="-".join)
@pytest.mark.parametrize("has_manifest", [True, False])
def test_restored_equals_the_backup_whatever_lay_there(
    files: Files, tmp_path: Path, state: tuple[str, ...], has_manifest: bool
) -> None:
    backup, place = tmp_path / "b.db", tmp_path / "state" / "backhaul.db"
    place.parent.mkdir()
    backup.write_bytes(files.backup.read_bytes())
    if has_manifest:
        manifest = manifest_of(files.backup).read_bytes()
        manifest_of(backup).write_bytes(manifest)
    place_files(files, place, state)
    before = list_place(place)
    done = restoring.restore(backup, place, ["main"], CLOCK)
    require_equal(place, files.backup)
    assert {path.name.rpartition("Z")[2]: path for path in done.moved}.keys() == {
        *before
    }
    if done.aside is not None:
        # to read the previous database may rebuild its -shm, and nothing else
        after = list_place(done.aside)
        assert {after[each] == before[each] for each in before if each != "-shm"} == {
            True
        }


@pytest.mark.parametrize("main", [ABSENT, EMPTY])
def test_no_start_with_an_empty_database_beside_a_log(
    files: Files, tmp_path: Path, main: str
) -> None:
    """SQLite would delete the log, with commits that exist nowhere else."""
    place = tmp_path / "backhaul.db"
    place_files(files, place, (main, OWN, ABSENT, ABSENT))
    before = list_place(place)
    with pytest.raises(
        CorruptData, match=r"the database is missing, but its write-ahead log"
    ):
        open_store(place, CLOCK)
    (found,) = check(place)
    assert (found.state, found.check) == (State.FAIL, "database")
    assert "backhaul restore FILE" in found.fix
    assert list_place(place) == before


@pytest.mark.parametrize("word", [OWN, FOREIGN, GARBAGE])
def test_no_start_with_a_backup_that_was_copied_beside_an_old_log(
    files: Files, tmp_path: Path, word: str
) -> None:
    """SQLite would apply the log, and wrong rows would not be noticed."""
    place = tmp_path / "backhaul.db"
    place_files(files, place, (ABSENT, word, ABSENT, ABSENT))
    place.write_bytes(files.backup.read_bytes())
    before = list_place(place)
    with pytest.raises(
        CorruptData, match="belongs to another database; perhaps somebody copied"
    ):
        open_store(place, CLOCK)
    (found,) = check(place)
    assert (found.state, found.check) == (State.FAIL, "database")
    assert "belongs to another database" in found.said
    assert list_place(place) == before
    restoring.restore(files.backup, place, ["main"], CLOCK)
    require_equal(place, files.backup)


def test_a_log_that_a_kill_left_is_applied(files: Files, tmp_path: Path) -> None:
    place = tmp_path / "backhaul.db"
    place_files(files, place, (OWN, OWN, OWN, ABSENT))
    open_store(place, CLOCK)
    assert rows(place, "SELECT count(*) FROM inbox") == [(55,)]


@pytest.mark.parametrize("absent", [False, True], ids=["there", "removed"])
def test_a_database_that_a_program_has_open_is_not_moved(
    files: Files, tmp_path: Path, absent: bool
) -> None:
    """When that program exits, it would delete the log of the restored database."""
    place = tmp_path / "backhaul.db"
    made(place, 5)
    began, ended = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with closing(sqlite3.connect(place)) as connection:
            connection.execute("SELECT count(*) FROM inbox").fetchone()
            os.write(began[1], b"1")
            os.read(ended[0], 1)
        os._exit(0)
    os.read(began[0], 1)
    try:
        if absent:
            place.unlink()
        before = list_place(place)
        with pytest.raises(AlreadyRunning, match="another program has the database"):
            restoring.restore(files.backup, place, ["main"], CLOCK)
        assert list_place(place) == before
    finally:
        os.write(ended[1], b"1")
        os.waitpid(child, 0)
    restoring.restore(files.backup, place, ["main"], CLOCK)
    require_equal(place, files.backup)


def test_through_a_symbolic_link_the_file_itself_is_replaced(
    files: Files, tmp_path: Path
) -> None:
    disk, link = tmp_path / "disk", tmp_path / "backhaul.db"
    disk.mkdir()
    link.symlink_to(disk / "real.db")
    for state in (OWN, OWN, OWN, ABSENT), (ABSENT, OWN, OWN, ABSENT):
        with suppress(FileNotFoundError):
            (disk / "real.db").unlink()
        place_files(files, disk / "real.db", state)
        restoring.restore(files.backup, link, ["main"], CLOCK)
        require_equal(disk / "real.db", files.backup)
        assert link.is_symlink()
        assert file_replacement.parts_of(link) == ("",)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (os.mkfifo, "this is not a file"),
        (os.mkdir, "this is not a file"),
        (lambda path: Path(path).symlink_to("nowhere"), "there is no such file"),
        (lambda path: None, "there is no such file"),
    ],
    ids=["pipe", "folder", "broken link", "nothing"],
)
def test_a_place_that_is_no_file_is_no_backup(
    tmp_path: Path, make: Callable[[Path], object], text: str
) -> None:
    named = tmp_path / "backup.db"
    make(named)
    with pytest.raises(BackhaulError, match=text):
        restoring.restore(named, tmp_path / "backhaul.db", ["main"], CLOCK)


def test_the_database_itself_is_no_backup(files: Files, tmp_path: Path) -> None:
    place, link = tmp_path / "backhaul.db", tmp_path / "link.db"
    place_files(files, place, (OWN, ABSENT, ABSENT, ABSENT))
    link.hardlink_to(place)
    for named in (place, link):
        with pytest.raises(BackhaulError, match="this file is the database itself"):
            restoring.restore(named, place, ["main"], CLOCK)


def broken_byte(backup: Path) -> None:
    """Change a byte of a body, which SQLite's own check does not detect."""
    found = backup.read_bytes()
    at = found.index(b"7 of 40") + 1
    backup.write_bytes(found[:at] + b"X" + found[at + 1 :])
    file_backup.check(backup)


def other_backup(backup: Path) -> None:
    """Replace the backup by another one, and keep the manifest."""
    with closing(sqlite3.connect(backup)) as connection, connection:
        connection.execute("DELETE FROM inbox WHERE id > 5")


def broken_manifest(backup: Path) -> None:
    manifest_of(backup).write_text("{")


def wrong_rows(backup: Path) -> None:
    manifest = manifest_of(backup)
    manifest.write_text(manifest.read_text().replace('"inbox": 40', '"inbox": 41'))


def pipe_as_manifest(backup: Path) -> None:
    manifest_of(backup).unlink()
    os.mkfifo(manifest_of(backup))


def folder_as_manifest(backup: Path) -> None:
    manifest_of(backup).unlink()
    manifest_of(backup).mkdir()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (pipe_as_manifest, "the manifest of a backup, cannot be read"),
        (folder_as_manifest, "the manifest of a backup, cannot be read"),
        (
            broken_byte,
            "this backup is damaged, or its manifest belongs to another",
        ),
        (
            other_backup,
            "this backup is damaged, or its manifest belongs to another",
        ),
        (broken_manifest, "the manifest of a backup, cannot be read"),
        (wrong_rows, "a copy of it has other numbers of rows in its tables"),
    ],
)
def test_a_backup_that_is_not_what_its_manifest_says_is_refused(
    files: Files, tmp_path: Path, change: Callable[[Path], None], text: str
) -> None:
    backup, place = tmp_path / "backup.db", tmp_path / "backhaul.db"
    backup.write_bytes(files.backup.read_bytes())
    described = manifest_of(files.backup).read_bytes()
    manifest_of(backup).write_bytes(described)
    change(backup)
    place_files(files, place, (OWN, OWN, OWN, ABSENT))
    before = list_place(place)
    with pytest.raises(CorruptData, match=text):
        restoring.restore(backup, place, ["main"], CLOCK)
    with pytest.raises(CorruptData, match=text):
        restoring.drill(backup, CLOCK)
    assert list_place(place) == before


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
@pytest.mark.parametrize("word", [FOREIGN, GARBAGE])
def test_a_log_beside_a_backup_is_not_read_into_it(
    files: Files, tmp_path: Path, suffix: str, word: str
) -> None:
    """With a manifest the log is ignored; without one the restore is refused."""
    backup, place = tmp_path / "backup.db", tmp_path / "backhaul.db"
    backup.write_bytes(files.backup.read_bytes())
    file_replacement.part(backup, suffix).write_bytes(files.parts[suffix, word])
    with pytest.raises(
        CorruptData, match="SQLite would read this file as a part of the backup"
    ):
        restoring.restore(backup, place, ["main"], CLOCK)
    assert file_replacement.parts_of(place) == ()
    described = manifest_of(files.backup).read_bytes()
    manifest_of(backup).write_bytes(described)
    restoring.restore(backup, place, ["main"], CLOCK)
    require_equal(place, files.backup)


def test_a_copy_with_its_own_log_is_restored_with_it(
    files: Files, tmp_path: Path
) -> None:
    """An operator copied the files of a killed daemon."""
    backup, place = tmp_path / "copied.db", tmp_path / "backhaul.db"
    place_files(files, backup, (OWN, OWN, ABSENT, ABSENT))
    restoring.restore(backup, place, ["main"], CLOCK)
    assert rows(place, "SELECT count(*) FROM inbox") == [(55,)]
