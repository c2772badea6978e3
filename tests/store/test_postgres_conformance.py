"""PostgreSQL passes the conformance tests of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.store.postgres.database import open_store
from backhaul.store.testing import suites

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store import Store
    from backhaul.store.testing import MakeStore
    from scenes.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.programs

BACKED_UP = "TestComparedMirrors"
"""Compares a store with its backup; this engine makes no backups."""


@pytest.fixture
def make_store(postgres_server: PostgresDatabases) -> Iterator[MakeStore]:
    with postgres_server.lent() as url:

        def make(clock: Clock) -> Store:
            return open_store(url, clock)

        yield make


globals().update({n: each for n, each in suites().items() if n != BACKED_UP})
