"""What each check of a database reads, and what it does not check."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.doctor import State
from backhaul.doctor.storage import check_database as check
from backhaul.errors import CorruptData
from backhaul.store.sqlite import file_backup, restoring
from backhaul.store.sqlite.opening import open_store

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = SystemClock()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return a database with a row that is missing in an index."""
    path = tmp_path / "backhaul.db"
    open_store(path, CLOCK)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        query = "SELECT sql FROM sqlite_schema WHERE name = 'commands_lane'"
        ((sql,),) = connection.execute(query)
        change = "UPDATE sqlite_schema SET sql = ? WHERE name = 'commands_lane'"
        connection.execute(change, (f"{sql.partition(' WHERE ')[0]} WHERE 0",))
        connection.commit()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO commands (id, store, kind, target, lane, state, payload,"
            " cause, instance, created_at, due_at)"
            " VALUES ('c', 'main', 'adjust', 'p', 'l', 'planned', '{}', '', '', '', '')"
        )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(change, (sql,))
    return path


def integrity(path: Path, *, deep: bool) -> tuple[State, str]:
    (found,) = (each for each in check(path, deep=deep) if each.check == "integrity")
    return found.state, found.said


def test_the_quick_check_says_that_it_compares_no_index(database: Path) -> None:
    state, text = integrity(database, deep=False)
    assert state is State.OK
    assert "no index was compared" in text
    assert "doctor --deep" in text
    assert "every page can be read" not in text


def test_the_deep_check_finds_an_index_that_lacks_a_row(database: Path) -> None:
    state, text = integrity(database, deep=True)
    assert state is State.FAIL
    assert "commands_lane" in text


def test_a_backup_with_such_an_index_is_neither_made_nor_restored(
    database: Path, tmp_path: Path
) -> None:
    with pytest.raises(CorruptData, match="commands_lane"):
        file_backup.copy(database, tmp_path / "backup.db")
    backup = tmp_path / "copied.db"
    backup.write_bytes(database.read_bytes())
    with pytest.raises(CorruptData, match=r"copied\.db: this backup is damaged"):
        restoring.restore(backup, tmp_path / "new" / "backhaul.db", ["main"], CLOCK)
    assert not (tmp_path / "new" / "backhaul.db").exists()
