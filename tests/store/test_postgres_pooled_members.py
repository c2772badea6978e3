"""Members own stores and are fenced behind a pooler in transaction mode too.

The tests are those of members that are connected with the server itself.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from scenes.pgbouncer import pgbouncer
from store import test_postgres_members, test_postgres_ownership, test_postgres_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from scenes.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.programs

CONNECTIONS = 8
"""Some tests have several transactions at a time."""
MODULES = (test_postgres_ownership, test_postgres_members, test_postgres_shares)
ELSEWHERE = {
    # A pooler connects again with the server, and no member notices.
    "test_no_member_is_fenced_after_the_server_was_away",
}


@pytest.fixture(scope="module")
def port(postgres_server: PostgresDatabases) -> Iterator[int]:
    with pgbouncer(postgres_server.server, CONNECTIONS) as started:
        yield started


@pytest.fixture
def url(postgres_server: PostgresDatabases, port: int) -> Iterator[str]:
    with postgres_server.lent() as direct:
        yield direct.replace(f":{postgres_server.server.port}/", f":{port}/")


def on_a_database(module: ModuleType) -> dict[str, Callable[..., object]]:
    """Return the tests that get the URL of a database."""
    return {
        name: each
        for name, each in inspect.getmembers(module, inspect.isfunction)
        if name.startswith("test_")
        and "url" in inspect.signature(each).parameters
        and name not in ELSEWHERE
    }


for _module in MODULES:
    globals().update(on_a_database(_module))
