"""A store and a receiver for the tests of what comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.databases import started_store
from scenes.receiver import Served, served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store.sqlite.database import SqliteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db") as started:
        yield started


@pytest.fixture
async def receiver(store: SqliteStore) -> AsyncIterator[Served]:
    async with served(store.inbox) as running:
        yield running
