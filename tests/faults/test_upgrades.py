"""Upgrades of databases of every schema version, and kill -9 during an upgrade."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlite_utils import Database

from backhaul.core.clock import SystemClock
from backhaul.store.sql import schema as schema_steps
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.migrations import migrations
from backhaul.store.sqlite.opening import open_store
from faults.trials import LONG, SEED, chances, tell
from scenes.daemon import backhaul
from scenes.databases import rows
from scenes.later_steps import STEPS, later_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scenes.daemon import Office

KILLS = 50 if LONG else 10
TESTS = Path(__file__).resolve().parents[1]
ROWS = 200
LEDGER = "_sqlite_migrations"
VALUES: dict[str, Any] = {
    "INTEGER": 7,
    "BLOB": b"\x00\xff",
    "TEXT": "{}",
    "FLOAT": 1.5,
    "REAL": 1.5,
}

Rows = dict[tuple[str, tuple[str, ...]], list[tuple[Any, ...]]]


def build(path: Path, steps: int) -> Rows:
    """Create a database of this version with some later migrations; return its rows."""
    with closing(connections.open_writer(path)) as connection:
        later = STEPS[steps] if steps < len(STEPS) else None
        migrations.apply(Database(connection), stop_before=later)
        connection.execute("BEGIN")
        for table in tables(connection):
            for number in range(1, ROWS + 1):
                insert(connection, table, number)
        connection.execute("COMMIT")
        return contents(connection)


def tables(connection: sqlite3.Connection) -> list[str]:
    """Return the ordinary tables, without those of the search index."""
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        " AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%search%'"
        " AND sql NOT LIKE 'CREATE VIRTUAL%' AND name != ?"
        " ORDER BY rowid",
        (LEDGER,),
    )
    return [name for (name,) in found]


def columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    found = connection.execute(f"PRAGMA table_info({table})")
    return [(name, kind) for _, name, kind, *_ in found]


def insert(connection: sqlite3.Connection, table: str, number: int) -> None:
    values = [
        number
        if name in {"id", "seq"} and kind == "INTEGER"
        else value(name, kind, number)
        for name, kind in columns(connection, table)
    ]
    places = ", ".join("?" * len(values))
    connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", values)  # noqa: S608 - names of our tables


def value(name: str, kind: str, number: int) -> Any:
    if kind == "TEXT" and name not in {"document", "payload"}:
        return f"{name}-{number}"
    if kind == "BLOB":
        return b"\xff%d" % number
    return VALUES[kind]


def contents(connection: sqlite3.Connection) -> Rows:
    found: Rows = {}
    for table in tables(connection):
        names = tuple(name for name, _ in columns(connection, table))
        found[table, names] = sorted(select(connection, table, names), key=repr)
    return found


def select(
    connection: sqlite3.Connection, table: str, names: Iterable[str]
) -> list[tuple[Any, ...]]:
    quoted = ", ".join(f'"{name}"' for name in names)
    return connection.execute(f"SELECT {quoted} FROM {table}").fetchall()  # noqa: S608 - as above


def schema(path: Path) -> list[tuple[Any, ...]]:
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
    return rows(path, query)


def wrong(path: Path, before: Rows) -> list[str]:
    """Return the tables whose rows changed."""
    with closing(sqlite3.connect(path)) as connection:
        return [
            table
            for table, names in before
            if sorted(select(connection, table, names), key=repr)
            != before[table, names]
        ]


@pytest.fixture
def later() -> Iterator[None]:
    """Run the test on a later version with the migrations STEPS."""
    with later_version():
        yield


@pytest.mark.faults
@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("steps", range(len(STEPS) + 1))
def test_every_schema_version_is_upgraded(steps: int, tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    before = build(old, steps)
    assert all(before.values())
    open_store(old, SystemClock())
    open_store(new, SystemClock())
    assert wrong(old, before) == []
    assert schema(old) == schema(new)
    assert rows(old, "PRAGMA integrity_check") == [("ok",)]


KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from backhaul.core.clock import SystemClock
from backhaul.store.sqlite import opening
from scenes import later_steps
later_steps.register()
from backhaul.store.sqlite.connections import Connection

class Deadly(Connection):
    left = 0

    def execute(self, *arguments):
        Deadly.left -= 1
        if Deadly.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(*arguments)

real = sqlite3.connect
sqlite3.connect = lambda path, **more: real(path, **{**more, "factory": Deadly})
for line in sys.stdin:
    path, left = line.rsplit(" ", 1)
    child = os.fork()
    if child == 0:
        Deadly.left = int(left)
        opening.open_store(Path(path), SystemClock())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\\n")
    sys.stdout.flush()
"""


@pytest.mark.faults
@pytest.mark.usefixtures("later")
def test_a_kill_in_an_upgrade_leaves_whole_migrations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, found, killed = chances(), [], 0
    after = [tmp_path / f"after-{steps}.db" for steps in range(len(STEPS) + 1)]
    for steps, path in enumerate(after):
        build(path, steps)
    before = {steps: build(tmp_path / f"old-{steps}.db", steps) for steps in (0, 2)}
    command = [sys.executable, "-c", KILLED, str(TESTS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killer:
        assert killer.stdin is not None
        assert killer.stdout is not None
        for number in range(KILLS):
            steps = chance.choice(list(before))
            path = tmp_path / f"killed-{number}.db"
            shutil.copy(tmp_path / f"old-{steps}.db", path)
            killer.stdin.write(f"{path} {chance.randrange(8, 110)}\n")
            killer.stdin.flush()
            killed += killer.stdout.readline() == "-9\n"
            (applied,) = rows(path, f"SELECT count(*) FROM {LEDGER}")[0]  # noqa: S608 - a constant
            done = applied - len(schema_steps.STEPS)
            if schema(path) != schema(after[done]):
                found.append(f"seed {SEED}: {path}: step {done} is not whole")
            open_store(path, SystemClock())
            found += wrong(path, before[steps])
            if schema(path) != schema(after[-1]):
                found.append(f"seed {SEED}: {path}: not up to date")
        killer.stdin.close()
    tell(capsys, len(found), killed, "kills in mid-upgrade")
    assert found == []
    assert killed > KILLS / 2


@pytest.mark.faults
def test_a_newer_database_is_refused_with_words(office: Office) -> None:
    office.database.parent.mkdir()
    open_store(office.database, SystemClock())
    with closing(sqlite3.connect(office.database)) as connection, connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('backhaul', 'm999_future', '2030-01-01')"
        )
    said = backhaul("run", config=office.config)
    assert said.code == 65
    assert "has upgraded this database (m999_future)" in said.err
    assert "install that version, or restore a backup" in said.err
    assert "Traceback" not in said.err
