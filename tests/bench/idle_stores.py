"""Row `idle-stores`: daemons on one PostgreSQL that share many stores without work.

It is measured twice: without the jobs that ask the platform, and with the default jobs.
A reference server without orders answers. What a daemon does once, such as the audit of
each store that it takes, has ended by then.
"""

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

from msgspec import Struct

from backhaul.core.clock import SystemClock
from backhaul.store import open_store
from backhaul.store.postgres.connection import Connection
from bench import machine
from bench.engines import server_seconds
from bench.orders import SECRET
from bench.results import Rounds, agree
from bench.servers import DiedError
from scenes.ports import free_port
from scenes.postgres_nodes import postgres_nodes
from scenes.reference_process import start_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.results import Scale
    from scenes.postgres_nodes import Nodes

WORKERS = 3
START_SECONDS = 600
"""Limit for one of the daemons to start, and to end."""
SETTLE = 60
"""How many times as long as a server is loaded the daemons have to settle."""
IDLE = 15
"""How many times as long as a server is loaded the daemons are left alone."""
IDLE_WITH_JOBS = 300
"""The same with jobs: a store is polled every five minutes."""
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
api_key = "{key}"
webhook_secrets = ["{secret}"]
"""
_FACTS = """
    INSERT INTO kv (name, value)
    SELECT 'facts:' || name, CAST(:facts AS text)
    FROM unnest(string_to_array(:names, ',')) name
"""
_SHARES = """
    SELECT coalesce(max(stores), 0) - coalesce(min(stores), 0)
        + (SELECT count(*) FROM owners WHERE member IS NULL)
    FROM members WHERE fenced_at IS NULL
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
    """Leave the daemons alone, without jobs and with the default ones."""
    rounds = Rounds()
    with (
        tempfile.TemporaryDirectory(dir=scale.directory) as name,
        postgres_nodes() as nodes,
    ):
        folder = Path(name)
        reference = start_reference(folder / "platform", fixture="empty")
        try:
            key = reference.store().api_key
            for jobs, said in ((_JOBS, ""), ("", ", default jobs")):
                platform = Platform(reference.public_url, key, jobs, said)
                _measure(rounds, scale, nodes, folder, platform)
        finally:
            reference.kill()
    return rounds


class Platform(Struct, frozen=True):
    """The platform of all stores, and the configuration of their jobs.

    `said` is added to the names of the figures.
    """

    url: str
    key: str
    jobs: str
    said: str = ""

    def facts(self) -> str:
        """Return what a daemon remembers of a store of the platform."""
        head = {"Authorization": f"Bearer {self.key}"}
        asked = HTTPConnection(self.url.removeprefix("http://"))
        with closing(asked):
            asked.request("GET", "/api/v1/store", headers=head)
            store = json.loads(asked.getresponse().read())["data"]
        return json.dumps({"store_id": store["id"], "currency": store["currency"]})


def _measure(
    rounds: Rounds, scale: Scale, nodes: Nodes, folder: Path, platform: Platform
) -> None:
    names = [f"s{number:05}" for number in range(scale.stores)]
    url = nodes.primary.new_database()
    _remember_platforms(url, names, platform)
    times = IDLE_WITH_JOBS if platform.said else IDLE
    with ExitStack() as running:
        pids = [
            running.enter_context(
                _daemon(folder / f"{number}{len(platform.said)}", url, names, platform)
            )
            for number in range(WORKERS)
        ]
        _await_shares(url)
        threading.Event().wait(scale.seconds * SETTLE)
        for _ in range(1 if platform.said else scale.rounds):
            seconds = scale.seconds * times
            _leave_alone(rounds, nodes, url, pids, seconds, platform.said)


def _remember_platforms(url: str, names: list[str], platform: Platform) -> None:
    """Store the platform's facts: a store without them waits for its platform."""
    open_store(url, SystemClock())
    values = {"names": ",".join(names), "facts": platform.facts()}
    with closing(Connection(url)) as connection:
        written = connection.execute(_FACTS, values).rowcount
    agree("stores with facts", len(names), written)


def _await_shares(url: str) -> None:
    """Wait until the daemons own as many stores each."""
    until = perf_counter() + START_SECONDS
    with closing(Connection(url)) as connection:
        while connection.execute(_SHARES).fetchall()[0][0] > 1:
            if perf_counter() > until:
                raise DiedError("the daemons do not share the stores")
            threading.Event().wait(LOOK_SECONDS)


@contextmanager
def _daemon(
    folder: Path, url: str, names: list[str], platform: Platform
) -> Iterator[int]:
    """Run a daemon until it is ready; yield its process."""
    folder.mkdir()
    port, config = free_port(), folder / "backhaul.toml"
    places = {"state_dir": json.dumps(str(folder)), "url": json.dumps(url)}
    of_store = {
        "platform": platform.url,
        "key": platform.key,
        "secret": SECRET.decode(),
    }
    stores = (_STORE.format(name=name, **of_store) for name in names)
    head = _CONFIGURATION.format(**places, port=port)
    config.write_text("".join((head, platform.jobs, *stores)))
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
    rounds: Rounds,
    nodes: Nodes,
    url: str,
    pids: list[int],
    seconds: float,
    jobs: str,
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
        rounds.add(f"busiest daemon, of a core{jobs}", "%", max(spent) / taken * 100)
        rounds.add(f"all daemons, of a core{jobs}", "%", sum(spent) / taken * 100)
        rounds.add(f"primary server, of a core{jobs}", "%", busy / taken * 100)
        rounds.add(f"transactions{jobs}", "1/s", (told(_TRANSACTIONS) - done) / taken)
        rounds.add(f"connections{jobs}", "", told(_CONNECTIONS))
    resident = max(map(machine.resident_bytes, pids))
    rounds.add(f"memory, the largest daemon{jobs}", "MB", resident / 1e6)
