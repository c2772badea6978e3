"""Fixtures of the browser's tests: the demo shop, and somebody who visits it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scenes.browser import Visit, open_visit
from scenes.reference_shop import Receiver, Shop, open_receiver, open_shop


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data", fixture="demo") as opened:
        yield opened


@pytest.fixture
async def visit(shop: Shop) -> AsyncIterator[Visit]:
    """Fails the test where a page complains or asks anybody but the server."""
    access = shop.running.access
    async with open_visit(access.public_url, access.control_url) as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with open_receiver() as opened:
        yield opened
