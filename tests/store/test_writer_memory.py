"""What is on the disk is held in memory no longer."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from backhaul.store.sqlite import connections
from backhaul.store.sqlite.inbox import CHUNK_BYTES, append_batch
from support.databases import count, started_store
from support.payloads import arrival
from support.processes import memory_bytes
from support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

LARGE = 1_000_000
MOST_ROWS = 16
MOST_MEMORY_BYTES = 60_000_000
"""SQLite's cache of 32 MB, and a few bodies."""


async def test_a_body_is_let_go_once_it_is_kept(tmp_path: Path) -> None:
    body = b"x" * LARGE
    held = sys.getrefcount(body)
    async with started_store(tmp_path / "backhaul.db") as store:
        await store.inbox.append(arrival(body))
        await until(lambda: sys.getrefcount(body) == held, "nothing holds the body")


async def test_batches_of_every_size_leave_no_copies(tmp_path: Path) -> None:
    """SQLite copies what it is given, into a statement that stays in a cache."""
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


async def test_rows_of_all_sizes_get_ids_in_their_order(tmp_path: Path) -> None:
    sizes = [10, CHUNK_BYTES, CHUNK_BYTES + 1, *[10] * 70, CHUNK_BYTES - 5, 10, LARGE]
    async with started_store(tmp_path / "backhaul.db") as store:
        path = store.path
    with closing(connections.open_writer(path)) as connection:
        ids = append_batch(connection, [arrival(b"x" * size) for size in sizes])
        kept = dict(connection.execute("SELECT id, length(body) FROM inbox").fetchall())
    assert [kept[id_] for id_ in ids] == sizes
    assert count(path, "inbox") == len(sizes)
