"""The old location of a moved database: no daemon starts there again."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.doctor import State
from backhaul.doctor.storage import check_database as check
from backhaul.errors import ConfigurationError
from backhaul.store import database_at, open_store
from backhaul.store.moving import Mark
from backhaul.store.sql.operations import move_marks
from backhaul.store.sqlite import moved_files, restoring
from backhaul.store.sqlite.connections import Connection
from scenes.databases import make_database, rows, write

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = SystemClock()
NEW = "postgresql://db.example.com/backhaul"
MARK = Mark("5e7f", NEW, "backhaul.db 7", "2026-03-01T12:00:00.000Z")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a database with the mark of a move."""
    path = tmp_path / "backhaul.db"
    make_database(path)
    write(path, "INSERT INTO kv VALUES ('epoch', '7')")
    with closing(Connection(path)) as connection, connection:
        move_marks.put_moved(connection, MARK)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ConfigurationError) as refused:
        open_store(path, CLOCK)
    return str(refused.value)


def test_a_moved_file_is_not_opened(path: Path) -> None:
    before = path.read_bytes()
    assert refusal(path) == (
        f"sqlite:///{path}: database.url: this database was moved to {NEW} at"
        f" 2026-03-01T12:00:00.000Z (set it to {NEW})"
    )
    assert path.read_bytes() == before


def test_a_daemon_that_still_has_the_file_open_may_send_nothing(path: Path) -> None:
    assert rows(path, "SELECT value FROM kv WHERE name = 'epoch'") == [("8",)]


def test_no_new_database_is_begun_in_the_place_of_a_moved_one(path: Path) -> None:
    aside = moved_files.rename(path)
    assert f"this database was moved to {NEW}" in refusal(path)
    with (
        pytest.raises(ConfigurationError, match="was moved to postgresql://db"),
        database_at(path).reader(),
    ):
        pass
    (found,) = check(path)
    assert (found.state, found.check) == (State.FAIL, "database")
    assert f"this database was moved to {NEW}" in found.said
    assert found.fix == f"set it to {NEW}"
    assert not path.exists()
    aside.rename(aside.with_name("kept.db"))
    open_store(path, CLOCK)


def test_a_moved_file_that_cannot_be_read_keeps_its_place_as_well(path: Path) -> None:
    moved_files.rename(path).write_bytes(b"not a database")
    assert "this database was moved, and" in refusal(path)
    assert not path.exists()


def test_an_incomplete_copy_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    make_database(path)
    with closing(Connection(path)) as connection, connection:
        move_marks.put_moving(connection, MARK)
    assert refusal(path) == (
        f"sqlite:///{path}: database.url: the move from {NEW} into this database is not"
        f" complete (run backhaul migrate --to sqlite:///{path} again, or set it to"
        f" {NEW})"
    )
    with closing(Connection(path)) as connection, connection:
        move_marks.remove_moving(connection, "another move")
    assert "is not complete" in refusal(path)
    with closing(Connection(path)) as connection, connection:
        move_marks.remove_moving(connection, MARK.move)
    open_store(path, CLOCK)


def test_an_operator_can_restore_the_file_of_a_moved_database(path: Path) -> None:
    """After the loss of PostgreSQL: as from any backup, so nothing is sent twice."""
    aside = moved_files.rename(path)
    assert restoring.drill(aside, CLOCK).rows["inbox"] == 0
    restoring.restore(aside, path, ["main"], CLOCK)
    open_store(path, CLOCK)
    assert rows(path, "SELECT count(*) FROM kv WHERE name LIKE 'restored%'") != [(0,)]
    assert aside.exists()
