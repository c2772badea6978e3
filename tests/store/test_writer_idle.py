"""The idle writer empties its write-ahead log and rewrites the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from scenes import payloads
from scenes.databases import append, count, fold_all, started_store

if TYPE_CHECKING:
    from pathlib import Path


def orders(numbers: range) -> list[bytes]:
    return [
        payloads.envelope("orders/create", payloads.order(f"ord_{n}", number=n))
        for n in numbers
    ]


async def test_the_log_is_emptied_unless_a_reader_is_open(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    log = tmp_path / "backhaul.db-wal"
    async with started_store(path) as store:
        await append(store, orders(range(20)))
        assert log.stat().st_size > 0
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM inbox").fetchone()
            await append(store, orders(range(20, 40)))
            assert not await store.erasure.empty_log()
        assert await store.erasure.empty_log()
        assert log.stat().st_size == 0
        await append(store, orders(range(40, 60)))
    assert count(path, "inbox") == 60


async def test_a_rewritten_file_holds_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    async with started_store(path) as store:
        waiting = [append(store, orders(range(20))), store.erasure.rewrite()]
        for each in waiting:
            await each
        await append(store, orders(range(20, 40)))
        assert await fold_all(store) == []
    assert (count(path, "orders"), count(path, "inbox")) == (40, 40)


async def test_a_replaced_value_leaves_no_bytes_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    async with started_store(path) as store:
        await store.kv.put("word", "quincunx" * 100)
        assert await store.erasure.empty_log()
        assert b"quincunx" in path.read_bytes()
        await store.kv.put("word", "")
        assert await store.erasure.empty_log()
        assert b"quincunx" not in path.read_bytes()
