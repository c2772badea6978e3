"""Fixtures of the dashboard's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.clock import VirtualClock
from scenes.dashboard import Office, open_office
from scenes.identity_provider import IdentityProvider, open_both

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """A dashboard with one user of each role."""
    async with open_office(tmp_path) as opened:
        await opened.add_users()
        yield opened


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Office]:
    """A dashboard that nobody may use yet."""
    async with open_office(tmp_path) as opened:
        yield opened


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Office, IdentityProvider]]:
    """A dashboard with one user of each role, and an identity provider."""
    async with open_both(tmp_path, VirtualClock()) as (office, provider):
        await office.add_users()
        yield office, provider
