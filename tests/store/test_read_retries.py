"""A loop that reads the database continues after a short read error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy, CorruptData
from backhaul.runtime.loop import retry_while_busy
from backhaul.store.sqlite.database import open_readable
from scenes.databases import started_store

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = SystemClock()


async def test_a_file_that_cannot_be_opened_is_checked_later(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    with open_readable(path) as store:
        with pytest.raises(Busy, match="unable to open database file"):
            await store.mirror.count("product", "main")
        async with started_store(path):
            assert await store.mirror.count("product", "main") == 0


async def test_damage_is_not_checked_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    path.write_bytes(b"no database at all, and long enough for a header" * 100)
    with open_readable(path) as store, pytest.raises(CorruptData, match="restore a"):
        await retry_while_busy(lambda: store.mirror.count("product", "main"), CLOCK)
