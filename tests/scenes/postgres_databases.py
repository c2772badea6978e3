"""Creates databases with Backhaul's schema quickly, on one PostgreSQL server.

The schema is created once, in a template; each database is a copy of the template.
"""

from __future__ import annotations

import subprocess
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.schema import create
from scenes.postgres import BINARIES, PASSWORD, USER, Postgres, postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPLATE = "template_of_tests"


@dataclass(slots=True)
class PostgresDatabases:
    """Creates databases on one server."""

    server: Postgres
    _numbers: count[int] = field(default_factory=count)

    def url(self, name: str) -> str:
        """Return the URL of a database, with the password."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.server.port}/{name}"

    @contextmanager
    def lent(self) -> Iterator[str]:
        """Yield the URL of a new database, which is dropped afterwards."""
        name = f"test_{next(self._numbers)}"
        self.server.run(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        try:
            yield self.url(name)
        finally:
            self.server.run(f"DROP DATABASE {name} WITH (FORCE)")


def copy(source: str, target: str) -> None:
    """Replace a database by a copy of another, even while a store uses it."""
    dump = (BINARIES / "pg_dump", "--clean", "--if-exists", source)
    load = (BINARIES / "psql", "--quiet", "--set=ON_ERROR_STOP=1", target)
    dumped = subprocess.run(dump, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(load, input=dumped, stdout=subprocess.DEVNULL, check=True)


@contextmanager
def postgres_databases() -> Iterator[PostgresDatabases]:
    """Start a server, and create the template."""
    with postgres() as server:
        made = PostgresDatabases(server)
        server.run(f"CREATE DATABASE {TEMPLATE}")
        with closing(Connection(made.url(TEMPLATE))) as connection:
            create(connection)
        yield made
