"""Fixtures of the API's tests: a served dashboard, or a daemon on either engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.api import Program, issue
from scenes.dashboard import Office, open_office

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store import Place


@pytest.fixture
def engine(database: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each daemon of a test use its own file, or a database of one server."""
    if isinstance(database, str):
        monkeypatch.setenv("BACKHAUL_DATABASE__URL", database)
        monkeypatch.setenv("BACKHAUL_CLUSTER__DURABILITY", "single")


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """A dashboard with one user of each role."""
    async with open_office(tmp_path) as opened:
        await opened.add_users()
        yield opened


@pytest.fixture
async def program(office: Office) -> Program:
    """A program that may operate."""
    return Program(office, await issue(office.store, name="program"))
