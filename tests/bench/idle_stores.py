"""Row `idle-stores`: daemons on one PostgreSQL that own many stores without work."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.store import open_store
from backhaul.store.postgres.connection import Connection
from bench import machine
from bench.daemon import ABSENT
from bench.engines import server_seconds
from bench.orders import SECRET
from bench.peers import free_port
from bench.results import Rounds, agree
from bench.servers import DiedError
from scenes.postgres_nodes import postgres_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.results import Scale
    from scenes.postgres_nodes import Nodes

WORKERS = 3
START_SECONDS = 600
"""Limit for one of the daemons to start, and to end."""
SETTLE_SECONDS = 10.0
IDLE = 15
"""How many times as long as a server is loaded the daemons are left alone."""
LOOK_SECONDS = 0.1
_CONFIGURATION = """\
state_dir = {state_dir}
[database]
url = {url}
[public]
host = "127.0.0.1"
port = 0
[admin]
port = {port}
[reconcile]
backfill_on_start = false
"""
_JOBS = "".join(
    f"[jobs.{name}]\nenabled = false\n"
    for name in ("reconcile_incremental", "reconcile_full", "audit")
)
"""Of an idle store only these jobs make requests."""
_STORE = """\
[stores.{name}]
base_url = "{platform}"
api_key = "svc_live_none"
webhook_secrets = ["{secret}"]
"""
_FACTS = """
    INSERT INTO kv (name, value)
    SELECT 'facts:' || name, '{"store_id": "' || name || '", "currency": "EUR"}'
    FROM unnest(string_to_array(?, ',')) name
"""
_CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid != pg_backend_pid()
"""
_TRANSACTIONS = """
    SELECT xact_commit + xact_rollback FROM pg_stat_database
    WHERE datname = current_database()
"""


def idle_stores(scale: Scale) -> Rounds:
    """Leave the daemons alone, with everything off that asks the platform."""
    rounds = Rounds()
    names = [f"s{number:05}" for number in range(scale.stores)]
    with (
        tempfile.TemporaryDirectory(dir=scale.directory) as name,
        postgres_nodes() as nodes,
        ExitStack() as running,
    ):
        folder, url = Path(name), nodes.primary.new_database()
        _remember_platforms(url, names)
        pids = [
            running.enter_context(_daemon(folder / str(number), url, names))
            for number in range(WORKERS)
        ]
        threading.Event().wait(SETTLE_SECONDS)
        for _ in range(scale.rounds):
            _leave_alone(rounds, nodes, url, pids, scale.seconds * IDLE)
    return rounds


def _remember_platforms(url: str, names: list[str]) -> None:
    """Store the platform's facts: a store without them waits for its platform."""
    open_store(url, SystemClock())
    with closing(Connection(url)) as connection:
        written = connection.execute(_FACTS, (",".join(names),)).rowcount
    agree("stores with facts", len(names), written)


@contextmanager
def _daemon(folder: Path, url: str, names: list[str]) -> Iterator[int]:
    """Run a daemon until it is ready or stands by; yield its process."""
    folder.mkdir()
    port, config = free_port(), folder / "backhaul.toml"
    places = {"state_dir": json.dumps(str(folder)), "url": json.dumps(url)}
    stores = (
        _STORE.format(name=name, platform=ABSENT, secret=SECRET.decode())
        for name in names
    )
    head = _CONFIGURATION.format(**places, port=port)
    config.write_text("".join((head, _JOBS, *stores)))
    command = [sys.executable, "-m", "backhaul", "run", "--config", str(config)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await_answer(process, port, folder / "log")
        yield process.pid
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _await_answer(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = perf_counter() + START_SECONDS
    while perf_counter() < until and process.poll() is None:
        asked = HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
        with closing(asked), suppress(OSError, HTTPException):
            asked.request("GET", "/readyz")
            if asked.getresponse().status == 200:
                return
        threading.Event().wait(LOOK_SECONDS)
    process.kill()
    raise DiedError(f"a daemon was not ready: {log.read_text()[-2_000:]}")


def _leave_alone(
    rounds: Rounds, nodes: Nodes, url: str, pids: list[int], seconds: float
) -> None:
    with closing(Connection(url)) as connection:

        def told(query: str) -> int:
            return int(connection.execute(query).fetchall()[0][0])

        before, server = [*map(machine.processor_seconds, pids)], nodes.primary.pid
        busy, done, began = server_seconds(server), told(_TRANSACTIONS), perf_counter()
        threading.Event().wait(seconds)
        taken = perf_counter() - began
        spent = [
            machine.processor_seconds(pid) - seconds
            for pid, seconds in zip(pids, before, strict=True)
        ]
        busy = server_seconds(server) - busy
        rounds.add("busiest daemon, of a core", "%", max(spent) / taken * 100)
        rounds.add("all daemons, of a core", "%", sum(spent) / taken * 100)
        rounds.add("primary server, of a core", "%", busy / taken * 100)
        rounds.add("transactions", "1/s", (told(_TRANSACTIONS) - done) / taken)
        rounds.add("connections", "", told(_CONNECTIONS))
    resident = max(map(machine.resident_bytes, pids))
    rounds.add("memory, the largest daemon", "MB", resident / 1e6)
