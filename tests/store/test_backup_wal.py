"""How far the write-ahead log grows while the database is copied, in bytes."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.errors import BackhaulError
from backhaul.store.sqlite import connections, file_backup
from scenes.databases import count, make_database
from scenes.requirements import require

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

STEPS = 4
ROW_BYTES = 60_000
LOG_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
PAGES_OF_A_ROW = 12
FRAME_BYTES = FRAME_HEADER_BYTES + connections.PAGE_BYTES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a database that a backup copies in several steps."""
    path = tmp_path / "backhaul.db"
    make_database(path)
    wanted = (STEPS - 1) * file_backup.STEP_PAGES * connections.PAGE_BYTES
    with closing(connections.open_writer(path)) as writer:
        writer.execute("CREATE TABLE filling (bytes)")
        writer.execute("BEGIN")
        for _ in range(wanted // ROW_BYTES):
            add(writer, ROW_BYTES)
        writer.execute("COMMIT")
        assert empty_log(writer)[0]
    return path


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connections.open_writer(path)) as connection:
        yield connection


def add(writer: sqlite3.Connection, size: int) -> None:
    writer.execute("INSERT INTO filling VALUES (zeroblob(?))", (size,))


def empty_log(writer: sqlite3.Connection) -> tuple[bool, int]:
    """Checkpoint the log; return whether it is empty, and its pages."""
    busy, pages, _ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy, pages


def log_bytes(path: Path) -> int:
    return path.with_name("backhaul.db-wal").stat().st_size


def test_the_log_accepts_writes_during_the_copy_and_the_copy_begins_once(
    path: Path, writer: sqlite3.Connection
) -> None:
    before = count(path, "filling")
    writer.execute("PRAGMA busy_timeout=0")
    held: list[int] = []

    def work() -> bool:
        """Write between two steps, as a daemon does, and checkpoint the log."""
        if len(held) < 10 * STEPS:
            add(writer, ROW_BYTES)
            is_empty, pages = empty_log(writer)
            assert not is_empty
            held.append(log_bytes(path))
            assert held[-1] == LOG_HEADER_BYTES + pages * FRAME_BYTES
        return False

    copied = path.with_name("copy.db")
    file_backup.copy(path, copied, work)
    assert count(copied, "filling") == before
    assert len(held) == STEPS
    most = LOG_HEADER_BYTES + STEPS * PAGES_OF_A_ROW * FRAME_BYTES
    assert held[0] < held[-1] <= most
    assert empty_log(writer)[0]
    assert log_bytes(path) == 0


def test_a_copy_is_abandoned_when_the_log_uses_up_the_room(
    path: Path, writer: sqlite3.Connection
) -> None:
    plenty = 10 * path.stat().st_size
    left = [plenty, plenty, FRAME_BYTES]
    asked: list[Path] = []

    def room(folder: Path) -> int:
        asked.append(folder)
        add(writer, ROW_BYTES)
        return left[min(len(asked), len(left)) - 1]

    with pytest.raises(BackhaulError, match="the copy was stopped"):
        file_backup.copy(path, path.with_name("copy.db"), room=room)
    assert len(asked) == len(left)
    assert empty_log(writer)[0]
    assert [one.name for one in path.parent.glob("*copy*")] == []


def test_a_disk_that_is_full_already_is_no_reason_not_to_copy_to_another(
    path: Path,
) -> None:
    other = path.with_name("other")
    other.mkdir()
    file_backup.copy(
        path, other / "copy.db", room=lambda f: 0 if f != other else 1 << 40
    )
    assert count(other / "copy.db", "filling") == count(path, "filling")


SCRIPT = (
    "import sys; from pathlib import Path;"
    " from backhaul.store.sqlite import file_backup"
)
LOCK = re.compile(r"fcntl\(\d+<[^>]*backhaul\.db-shm>, F_SETLK, \{l_type=F_UNLCK")
FLUSH = re.compile(r"f(?:data)?sync\(\d+<([^>]*)>\)")


def test_nothing_is_flushed_to_the_copy_before_the_log_is_let_go(
    path: Path, writer: sqlite3.Connection
) -> None:
    """On a slow disk the flush of a large copy takes long."""
    strace, trace = require("strace"), path.with_name("calls")
    copied = path.with_name("copy.db")
    call = f"{SCRIPT}; file_backup.copy(Path({str(path)!r}), Path({str(copied)!r}))"
    watched = [
        strace,
        "-f",
        "-y",
        "-e",
        "trace=fsync,fdatasync,fcntl",
        "-o",
        str(trace),
    ]
    subprocess.run([*watched, sys.executable, "-c", call], check=True)
    calls = trace.read_text().splitlines()
    last = max(number for number, line in enumerate(calls) if LOCK.search(line))
    flushed = [
        (n > last, m[1]) for n, line in enumerate(calls) if (m := FLUSH.search(line))
    ]
    assert flushed == [
        (True, str(path.with_name(".copy.db.unfinished"))),
        (True, str(path.parent)),
    ]


def test_a_nearly_full_disk_is_reported_with_the_needed_space(
    tmp_path: Path,
) -> None:
    """The text shows two different numbers, although both are about 3 MB."""
    path, target = tmp_path / "backhaul.db", tmp_path / "copy.db"
    path.write_bytes(b"x" * (3 << 20))
    problem = re.escape(
        f"{target}: this disk has not enough space: the copy needs 3.3 MB, and 3.2 MB"
        " are free"
    )
    with pytest.raises(BackhaulError, match=problem):
        file_backup.copy(path, target, room=lambda _: 32 * (1 << 20) // 10)
    assert not target.exists()
