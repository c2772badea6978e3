"""Files that may be at the path of a database when a backup is restored there."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from backhaul.core.clock import SystemClock
from backhaul.store.sqlite import backup_manifest, connections, file_replacement
from backhaul.store.sqlite.opening import open_store
from scenes.databases import rows

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = SystemClock()
CHANCE = random.Random(24)  # noqa: S311 - the same states each time
ABSENT, EMPTY, OWN, FOREIGN, GARBAGE, FOLDER = (
    *("absent", "empty", "own", "foreign", "garbage", "folder"),
)
MAIN = (ABSENT, EMPTY, OWN, FOREIGN, GARBAGE)
LOG = (ABSENT, EMPTY, OWN, FOREIGN, GARBAGE, FOLDER)
INDEX = (ABSENT, EMPTY, OWN, FOREIGN, GARBAGE)
JOURNAL = (ABSENT, EMPTY, FOREIGN, GARBAGE, FOLDER)
ALL = list(product(MAIN, LOG, INDEX, JOURNAL))
WORST = [
    (ABSENT, OWN, OWN, ABSENT),
    (ABSENT, FOREIGN, ABSENT, ABSENT),
    (ABSENT, OWN, ABSENT, FOREIGN),
    (ABSENT, ABSENT, ABSENT, FOREIGN),
    (OWN, OWN, OWN, ABSENT),
    (OWN, FOREIGN, FOREIGN, ABSENT),
    (FOREIGN, OWN, OWN, FOREIGN),
    (GARBAGE, GARBAGE, GARBAGE, GARBAGE),
]


class Files(NamedTuple):
    """A backup, and the bytes of files at its path, by suffix and kind."""

    backup: Path
    parts: dict[tuple[str, str], bytes]


def made(path: Path, events: int, *, later: int = 0) -> None:
    """Create a database; `later` rows are in its log only, as after a kill."""
    open_store(path, CLOCK)
    insert = (
        "INSERT INTO inbox (store, kind, topic, received_at, headers, body, digest)"
        " VALUES ('main', 'delivery', 'orders/create', '', '{}', ?, ?)"
    )
    with closing(connections.open_writer(path)) as connection:
        for number in range(events + later):
            if number == events:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            body = b"%d of %d" % (number, events) * 300
            connection.execute(insert, (body, b"%d-%d" % (number, events)))
        for side in ("-wal", "-shm") if later else ():
            log = file_replacement.part(path, side)
            file_replacement.part(path, f".kept{side}").write_bytes(log.read_bytes())


def hot_journal(path: Path) -> bytes:
    """Return a journal that SQLite would roll back into the database beside it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size=1")
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.executemany("INSERT INTO notes VALUES (?)", [("a" * 900,)] * 100)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE notes SET text = 'b'")
        connection.execute("PRAGMA cache_spill=1")
        connection.execute("UPDATE notes SET text = zeroblob(2000)")
        found = file_replacement.part(path, "-journal").read_bytes()
        connection.execute("ROLLBACK")
    assert len(found) > 512
    return found


def make_files(folder: Path) -> Files:
    """Create a backup with its manifest, and every file in every form."""
    made(folder / "backup-source.db", 40)
    backup = folder / "backup.db"
    backup_manifest.back_up(folder / "backup-source.db", backup, CLOCK)
    parts: dict[tuple[str, str], bytes] = {}
    for word, events in ((OWN, 25), (FOREIGN, 60)):
        path = folder / f"{word}.db"
        made(path, events, later=30)
        for suffix in ("-wal", "-shm"):
            kept = file_replacement.part(path, f".kept{suffix}")
            parts[suffix, word] = kept.read_bytes()
        parts["", word] = path.read_bytes()
    parts["-journal", FOREIGN] = hot_journal(folder / "theirs.db")
    parts["", FOREIGN] = (folder / "theirs.db").read_bytes()
    for suffix in file_replacement.PARTS:
        parts[suffix, EMPTY] = b""
        parts[suffix, GARBAGE] = CHANCE.randbytes(20_000)
    return Files(backup, parts)


def place_files(files: Files, place: Path, state: tuple[str, ...]) -> None:
    for suffix, word in zip(("", "-wal", "-shm", "-journal"), state, strict=True):
        path = file_replacement.part(place, suffix)
        if word == FOLDER:
            path.mkdir()
            (path / "notes.txt").write_text("somebody's")
        elif word != ABSENT:
            path.write_bytes(files.parts[suffix, word])


def list_place(place: Path) -> dict[str, object]:
    """Return the files at the path with their bytes, and the names in folders."""
    return {
        suffix: path.read_bytes()
        if path.is_file()
        else sorted(each.name for each in path.iterdir())
        for suffix in file_replacement.parts_of(place)
        for path in [file_replacement.part(place, suffix)]
    }


def contents(path: Path) -> dict[str, list[Any]]:
    """Return all rows of all tables except those that a restore changes."""
    names = [name for (name,) in rows(path, "SELECT name FROM sqlite_schema")]
    tables = [
        name
        for (name,) in rows(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")
        if name not in {"kv", "sqlite_sequence"}
    ]
    query = "SELECT * FROM {}"
    found = {name: sorted(rows(path, query.format(name)), key=repr) for name in tables}
    return {**found, "schema": sorted(names)}


def require_equal(place: Path, backup: Path) -> None:
    assert file_replacement.parts_of(place) == ("",)
    assert rows(place, "PRAGMA integrity_check") == [("ok",)]
    assert contents(place) == contents(backup)
    assert not file_replacement.is_interrupted(place)
