"""Fixtures of the contract's tests: a shop, a receiver."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scenes.reference_shop import Receiver, Shop, open_receiver, open_shop


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the shop keeps all that it keeps."""
    return tmp_path / "data"


@pytest.fixture
async def shop(folder: Path) -> AsyncIterator[Shop]:
    async with open_shop(folder) as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with open_receiver() as opened:
        yield opened
