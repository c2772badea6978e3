"""PgBouncer before a PostgreSQL server: each transaction gets any connection."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from scenes.ports import free_port, unless_ended
from scenes.postgres import PASSWORD, USER, server_user
from scenes.requirements import require
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.postgres import Postgres

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {connections}
"""


@contextmanager
def pgbouncer(server: Postgres, connections: int) -> Iterator[int]:
    """Run PgBouncer in transaction mode; yield its port.

    `connections` limits the connections to each database of the server.
    """
    program, port = require("pgbouncer"), free_port()
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    folder.chmod(0o755)
    settings = {"server": server.port, "port": port, "connections": connections}
    file = folder / "pgbouncer.ini"
    file.write_text(CONFIGURATION.format(folder=folder, **settings))
    (folder / "users").write_text(f'"{USER}" "{PASSWORD}"\n')
    with (folder / "log").open("wb") as log:
        # PgBouncer refuses to run as root, as PostgreSQL does.
        process = subprocess.Popen(
            [program, file], user=server_user(), stdout=log, stderr=log
        )
    try:
        ready = unless_ended(process.poll, lambda: _answers(port), folder / "log")
        await_true(ready, "the pooler answers")
        yield port
    finally:
        process.kill()
        process.wait(HANG_SECONDS)
        shutil.rmtree(folder)


def _answers(port: int) -> bool:
    try:
        psycopg.connect(
            f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
        ).close()
    except psycopg.OperationalError:
        return False
    return True
