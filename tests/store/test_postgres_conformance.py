"""PostgreSQL passes the conformance tests of the store."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.database import open_store
from backhaul.store.postgres.schema import create
from backhaul.store.testing import suites
from scenes.postgres import PASSWORD, USER, Postgres, postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store import Store
    from backhaul.store.testing import MakeStore

pytestmark = pytest.mark.programs

TEMPLATE = "template_of_tests"
BACKED_UP = "TestComparedMirrors"
"""Compares a store with its backup, and this engine makes none."""
_names = count()


def address(server: Postgres, database: str) -> str:
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{server.port}/{database}"


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A server with a database that has the schema, to be copied by each test."""
    with postgres() as started:
        started.run(f"CREATE DATABASE {TEMPLATE}")
        connection = Connection(address(started, TEMPLATE))
        create(connection)
        connection.close()
        yield started


@pytest.fixture
def make_store(server: Postgres) -> Iterator[MakeStore]:
    name = f"test_{next(_names)}"
    server.run(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")

    def make(clock: Clock) -> Store:
        return open_store(address(server, name), clock)

    yield make
    server.run(f"DROP DATABASE {name} WITH (FORCE)")


globals().update({n: each for n, each in suites().items() if n != BACKED_UP})
