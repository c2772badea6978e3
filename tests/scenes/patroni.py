"""Three PostgreSQL servers under Patroni, which keeps its state in an etcd."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg

from scenes import leftovers
from scenes.loop_guard import on_purpose
from scenes.ports import free_port
from scenes.postgres import BINARIES, PASSWORD, USER, Postgres, server_user
from scenes.postgres_nodes import NAMES, Nodes
from scenes.processes import kill_family
from scenes.requirements import require
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOST = "127.0.0.1"
BINARIES_16 = BINARIES.parents[1] / "pginstall" / "bin"
TTL_SECONDS = 20
"""The shortest TTL that Patroni allows."""
REPLICATOR = "replicator"
_SERVER: dict[str, Any] = {
    "shared_buffers": "16MB",
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",
}
_DCS: dict[str, Any] = {
    "ttl": TTL_SECONDS,
    "loop_wait": 5,
    "retry_timeout": 5,
    "synchronous_mode": True,
    "synchronous_mode_strict": True,
    "postgresql": {"use_pg_rewind": True, "parameters": _SERVER},
}


@dataclass(slots=True)
class Patroni:
    """The agents and their servers, by name."""

    nodes: Nodes
    agents: dict[str, subprocess.Popen[bytes]]
    api_ports: dict[str, int]

    @property
    def url(self) -> str:
        return self.nodes.url

    def primary(self) -> str | None:
        """Return the server that has the leader's lock and accepts writes."""
        found = (name for name in self.agents if self._answers(name, "primary"))
        return next(found, None)

    def is_safe(self) -> bool:
        """Return True if a standby confirms each commit."""
        return any(self._answers(name, "sync") for name in self.agents)

    def kill_machine(self, name: str) -> None:
        """Kill an agent and its server at once, as if a machine failed."""
        with on_purpose():
            kill_family(self.agents[name].pid, *self._server(name))
            self.agents[name].wait(HANG_SECONDS)

    def _server(self, name: str) -> list[int]:
        lock = self.nodes.servers[name].data / "postmaster.pid"
        if not lock.exists():
            return []
        return [int(lock.read_text().split()[0])]

    def _answers(self, name: str, role: str) -> bool:
        url = f"http://{HOST}:{self.api_ports[name]}/{role}"
        try:
            return httpx.get(url, timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def patroni(binaries: Path = BINARIES) -> Iterator[Patroni]:
    """Run three servers; each commit waits for a synchronous standby."""
    program, store = require("patroni"), require("etcd")
    folder = Path(tempfile.mkdtemp(prefix="patroni-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        etcd_port = stack.enter_context(_etcd(store, folder / "etcd"))
        servers = {name: _folder(folder / name) for name in NAMES}
        made = Patroni(Nodes(servers, servers[NAMES[0]]), {}, {})
        stack.callback(_end, made)
        for name in NAMES:
            made.api_ports[name] = free_port()
            settings = _settings(made, name, etcd_port, binaries)
            file = servers[name].folder / "patroni.yml"
            file.write_text(json.dumps(settings))  # JSON is valid YAML
            made.agents[name] = _start([program, str(file)], f"patroni-{name}")
            if name == NAMES[0]:
                with on_purpose():
                    await_true(made.primary, "Patroni has made a primary")
        with on_purpose():
            await_true(made.is_safe, "a standby confirms each commit")
            await_true(lambda: _accepts(made.url), "the primary accepts a commit")
        yield made


def _accepts(url: str) -> bool:
    """Return True if there is a server that accepts writes."""
    try:
        psycopg.connect(url, connect_timeout=10).close()
    except psycopg.Error:
        return False
    return True


def _end(made: Patroni) -> None:
    for name in made.agents:
        made.kill_machine(name)


@contextmanager
def _etcd(program: str, folder: Path) -> Iterator[int]:
    client, peer = free_port(), free_port()
    urls = {
        "--listen-client-urls": f"http://{HOST}:{client}",
        "--advertise-client-urls": f"http://{HOST}:{client}",
        "--listen-peer-urls": f"http://{HOST}:{peer}",
        "--initial-advertise-peer-urls": f"http://{HOST}:{peer}",
        "--initial-cluster": f"default=http://{HOST}:{peer}",
    }
    words = [word for option in urls.items() for word in option]
    command = [program, "--data-dir", str(folder), "--unsafe-no-fsync", *words]
    process = _start(command, "etcd", user=None)
    try:
        yield client
    finally:
        process.kill()
        with on_purpose():
            process.wait(HANG_SECONDS)


def _start(
    command: Sequence[str], name: str, user: int | None = server_user()
) -> subprocess.Popen[bytes]:
    with leftovers.new_log(name).open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd="/")


def _folder(folder: Path) -> Postgres:
    folder.mkdir()
    if (user := server_user()) is not None:
        os.chown(folder, user, -1)
    return Postgres(folder, free_port(), settings=())


def _settings(
    made: Patroni, name: str, etcd_port: int, binaries: Path
) -> dict[str, Any]:
    server = made.nodes.servers[name]
    api = f"{HOST}:{made.api_ports[name]}"
    place = f"{HOST}:{server.port}"
    everyone = f"all {HOST}/32 scram-sha-256"
    return {
        "scope": "backhaul",
        "name": name,
        "restapi": {"listen": api, "connect_address": api},
        "etcd3": {"host": f"{HOST}:{etcd_port}"},
        "bootstrap": {
            "dcs": _DCS,
            "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync"],
        },
        "postgresql": {
            "listen": place,
            "connect_address": place,
            "data_dir": str(server.data),
            "bin_dir": str(binaries),
            "pgpass": str(server.folder / "pgpass"),
            "authentication": {
                "superuser": {"username": USER, "password": PASSWORD},
                "replication": {"username": REPLICATOR, "password": PASSWORD},
            },
            "pg_hba": [f"host all {everyone}", f"host replication {everyone}"],
        },
    }
