"""SQLite passes the conformance tests of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.store.sqlite.opening import open_store
from backhaul.store.testing import suites
from scenes.databases import make_database

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store import Store
    from backhaul.store.testing import MakeStore


@pytest.fixture
def make_store(tmp_path: Path) -> MakeStore:
    path = tmp_path / "backhaul.db"
    make_database(path)

    def make(clock: Clock) -> Store:
        return open_store(path, clock)

    return make


globals().update(suites())
