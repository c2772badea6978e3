"""Fixtures of the dashboard's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.dashboard import Office, open_office

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """A dashboard with one user of each role."""
    async with open_office(tmp_path) as opened:
        await opened.people()
        yield opened


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Office]:
    """A dashboard that nobody may use yet."""
    async with open_office(tmp_path) as opened:
        yield opened
