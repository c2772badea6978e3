"""A database that cannot be read for a moment does not end who looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.errors import Busy
from backhaul.store.sqlite.database import open_readable
from scenes.databases import started_store

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_file_that_cannot_be_opened_is_looked_at_later(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    with open_readable(path) as store:
        with pytest.raises(Busy, match="unable to open database file"):
            await store.mirror.count("product", "main")
        async with started_store(path):
            assert await store.mirror.count("product", "main") == 0
