"""Fixtures of the shop page's tests: the demo store, on a server of this process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scenes.reference_shop import Shop, open_shop


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data", fixture="demo") as opened:
        yield opened
