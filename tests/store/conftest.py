"""A PostgreSQL server for one module, whose tests end its sessions and change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.postgres_databases import postgres_databases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.postgres_databases import PostgresDatabases


@pytest.fixture(scope="module")
def databases() -> Iterator[PostgresDatabases]:
    with postgres_databases() as made:
        yield made


@pytest.fixture
def url(databases: PostgresDatabases) -> Iterator[str]:
    with databases.lent() as lent:
        yield lent
