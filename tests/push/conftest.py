"""A dispatcher with its store, its server and its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.pushing import Scene, scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place


@pytest.fixture
async def stage(database: Place) -> AsyncIterator[Scene]:
    async with scene(database) as made:
        yield made
