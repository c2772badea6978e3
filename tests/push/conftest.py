"""A dispatcher with its store, its server and its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.pushing import Scene, scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path / "backhaul.db") as made:
        yield made
