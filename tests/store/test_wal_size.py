"""A growing write-ahead log is logged once, and once when it is small again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from loguru import logger

from backhaul.store.sqlite.connections import KEPT_BYTES, LARGE_BYTES, LogSize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def actions() -> Iterator[list[str]]:
    found: list[str] = []
    sink = logger.add(lambda line: found.append(line.record["extra"]["action"]))
    yield found
    logger.remove(sink)


def test_each_turn_is_logged_once(tmp_path: Path, actions: list[str]) -> None:
    size = LogSize(tmp_path / "backhaul.db")
    size.check()
    with (tmp_path / "backhaul.db-wal").open("wb") as log:
        for length in (LARGE_BYTES, LARGE_BYTES + 1, LARGE_BYTES * 2):
            log.truncate(length)
            size.check()
        assert actions == ["database.wal_large"]
        for length in (KEPT_BYTES + 1, KEPT_BYTES, 0):
            log.truncate(length)
            size.check()
    assert actions == ["database.wal_large", "database.wal_shrunk"]
