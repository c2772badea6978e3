"""Fixtures of the reference server's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scenes.reference_shop import Receiver, Shop, open_receiver, open_shop


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with open_receiver() as opened:
        yield opened
