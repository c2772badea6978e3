"""Rows that are on the disk are not kept in memory."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar

from backhaul.store.sqlite import connections
from backhaul.store.sqlite.database import CHUNK_BYTES, CHUNK_ROWS, append_batch
from scenes.databases import count, started_store, write
from scenes.memory import sqlite_bytes
from scenes.payloads import arrival
from scenes.processes import memory_bytes
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

LARGE = 1_000_000
MOST_ROWS = 16
MOST_MEMORY_BYTES = 60_000_000
"""SQLite's cache of 32 MB, and a few bodies."""

SOME_PAGES_BYTES = 200_000
IN_MEMORY = 2
"""What `PRAGMA temp_store` says."""
NOTHING = {"orders": 0, "products": 0}
MANY = 3_000
CUSTOMERS = """
    WITH RECURSIVE numbers(n) AS (
        SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
    INSERT INTO customers (store, id, name, email, updated_at, document)
    SELECT 'main', n, '', printf('%01000d', n), '', '{}' FROM numbers
"""
"""An index of 3 MB."""


async def test_a_body_is_freed_once_it_is_stored(tmp_path: Path) -> None:
    body = b"x" * LARGE
    held = sys.getrefcount(body)
    async with started_store(tmp_path / "backhaul.db") as store:
        await store.inbox.append(arrival(body))
        await until(lambda: sys.getrefcount(body) == held, "nothing holds the body")


async def test_batches_of_every_size_leave_no_copies(tmp_path: Path) -> None:
    """SQLite copies parameters into a statement that stays in a cache."""
    async with started_store(tmp_path / "backhaul.db") as store:
        path = store.path
    row = arrival(b"x" * LARGE)
    with closing(connections.open_writer(path)) as connection:
        before = memory_bytes(os.getpid())
        for number in range(1, MOST_ROWS + 1):
            connection.execute("BEGIN")
            append_batch(connection, [row] * number)
            connection.execute("ROLLBACK")
        assert memory_bytes(os.getpid()) - before < MOST_MEMORY_BYTES


class Watched(sqlite3.Connection):
    """Records the statements that it prepares."""

    texts: ClassVar[set[str]] = set()

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self.texts.add(sql)
        return super().execute(sql, *values)


async def test_a_few_statements_serve_batches_of_every_size(tmp_path: Path) -> None:
    """Each statement keeps its program and a copy of its rows until the daemon ends."""
    async with started_store(tmp_path / "backhaul.db") as store:
        path = store.path
    with closing(sqlite3.connect(path, factory=Watched)) as connection:
        for number in range(1, 3 * CHUNK_ROWS):
            append_batch(connection, [arrival(b"x")] * number)
        connection.commit()
        assert len(connection.texts) == CHUNK_ROWS.bit_length()


async def test_rows_of_all_sizes_get_ids_in_their_order(tmp_path: Path) -> None:
    sizes = [10, CHUNK_BYTES, CHUNK_BYTES + 1, *[10] * 70, CHUNK_BYTES - 5, 10, LARGE]
    async with started_store(tmp_path / "backhaul.db") as store:
        path = store.path
    with closing(connections.open_writer(path)) as connection:
        ids = append_batch(connection, [arrival(b"x" * size) for size in sizes])
        kept = dict(connection.execute("SELECT id, length(body) FROM inbox").fetchall())
    assert [kept[id_] for id_ in ids] == sizes
    assert count(path, "inbox") == len(sizes)


async def test_only_work_on_most_of_the_file_has_its_copies_of_pages_in_a_file(
    tmp_path: Path,
) -> None:
    texts: list[str] = []

    def places() -> list[str]:
        """Return where the copies were at each statement that changes most pages."""
        found, place = [], ""
        for text in texts:
            place = text if text.startswith("PRAGMA temp_store") else place
            if text.startswith(("VACUUM", "DROP TABLE search_documents_fts")):
                found.append(place)
        return [*found, place]

    def watch(connection: sqlite3.Connection) -> int:
        connection.set_trace_callback(texts.append)
        return int(connection.execute("PRAGMA temp_store").fetchone()[0])

    async with started_store(tmp_path / "backhaul.db") as store:
        assert await store.engine.write(watch) == IN_MEMORY
        await store.erasure.rewrite()
        await store.search.rebuild()
        file, memory = "PRAGMA temp_store=FILE", "PRAGMA temp_store=MEMORY"
        assert places() == [file, file, memory]
        assert await store.engine.write(watch) == IN_MEMORY


async def test_counting_a_larger_mirror_needs_no_additional_memory(
    tmp_path: Path,
) -> None:
    """Each count reads a whole index, with 16 bytes or more for each order."""
    async with started_store(tmp_path / "backhaul.db") as store:
        # the writer opens its connection in a new thread, and reads the whole schema
        await store.inbox.append(arrival(b"x"))
        assert await store.metric_samples.count_mirrored() == {
            **NOTHING,
            "customers": 0,
        }
        before = sqlite_bytes()
        write(store.path, CUSTOMERS, MANY)
        assert await store.metric_samples.count_mirrored() == {
            **NOTHING,
            "customers": MANY,
        }
        assert sqlite_bytes() - before < SOME_PAGES_BYTES
