"""A store and a receiver for the tests of what comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.databases import started_store
from scenes.receiver import Served, served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place, Store


@pytest.fixture
async def store(database: Place) -> AsyncIterator[Store]:
    async with started_store(database) as started:
        yield started


@pytest.fixture
async def receiver(store: Store) -> AsyncIterator[Served]:
    async with served(store.inbox) as running:
        yield running
