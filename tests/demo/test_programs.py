"""The daemon and the reference server are started, killed, restarted and stopped."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import TYPE_CHECKING

import httpx
import pytest
from msgspec.structs import replace

from backhaul.core.clock import SystemClock
from backhaul.demo.demo_folder import FIRST_PORT, HOST, PORTS, DemoFolder, free_ports
from backhaul.demo.processes import Program, ProgramFailed
from backhaul.demo.program_pair import open_pair
from backhaul.demo.runner import until_quiet
from backhaul.errors import BackhaulError
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.programs

CLOCK = SystemClock()


async def test_a_kill_and_a_restart_keep_ports_and_data(tmp_path: Path) -> None:
    async with open_pair(tmp_path / "pair", CLOCK) as pair:
        before = await pair.server_state()
        for program in (pair.daemon, pair.reference):
            await program.kill()
            assert not program.running
            await program.restart()
        assert await pair.server_state() == before
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{pair.admin_url}/readyz")).status_code == 200


async def test_unfinished_work_is_reported_in_words(tmp_path: Path) -> None:
    async with open_pair(tmp_path / "pair", CLOCK, with_erp=True) as pair:
        _, busy = await until_quiet(pair, CLOCK, HANG_SECONDS)
        assert busy == []
        await pair.daemon.kill()
        assert pair.erp is not None
        pair.erp.count("MD", 5)
        file = pair.home.drop / "stock-deltas-1.csv"
        file.write_text("document,sku,adjustment,reason\nD1,MD,5,\n")
        _, busy = await until_quiet(pair, CLOCK, 0)
        assert busy == ["files in the drop folder: 1", "rows that the ERP entered: 1"]
        await pair.daemon.restart()
        _, busy = await until_quiet(pair, CLOCK, HANG_SECONDS)
        assert busy == []


@pytest.mark.parametrize("listener", ["reference", "control", "public", "admin"])
async def test_a_port_in_use_is_named(listener: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = replace(free_ports(), **{listener: port})
        with pytest.raises(ProgramFailed, match=rf"exit code 69: .*{port}.* in use"):
            async with open_pair(tmp_path / "pair", CLOCK, ports=ports):
                pytest.fail("it started on a port that is taken")


async def test_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    async with open_pair(tmp_path / "pair", CLOCK) as pair:
        secrets = list((pair.home.path / "secrets").iterdir())
        assert len(secrets) == 3
        assert {file.stat().st_mode & 0o777 for file in secrets} == {0o600}
        config = pair.home.config.read_text()
        logs = [file.read_text() for file in pair.home.path.glob("*.log")]
        lines = [line for file in secrets for line in file.read_text().splitlines()]
        for secret in [re.sub(r"^handheld-\d=", "", line) for line in lines]:
            assert len(secret) >= 16
            assert not any(secret in text for text in [config, *logs])


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").touch()
    with pytest.raises(
        BackhaulError, match="is not empty; give a new or an empty folder"
    ):
        DemoFolder(tmp_path).prepare()


def test_ports_are_below_those_of_outgoing_connections() -> None:
    ports = free_ports()
    chosen = {getattr(ports, name) for name in ports.__struct_fields__}
    assert len(chosen) == 5
    assert all(FIRST_PORT <= port < FIRST_PORT + PORTS for port in chosen)


def program(folder: Path, *arguments: str) -> Program:
    return Program("it", arguments, folder / "log", "http://127.0.0.1:9/", CLOCK)


async def test_a_program_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed, match=r"it ended with exit code 1: .*no_such"):
        await program(tmp_path, "no_such_module").start()


async def test_an_unrequested_end_is_noticed(tmp_path: Path) -> None:
    async with open_pair(tmp_path / "pair", CLOCK) as pair:
        lock = pair.home.state_dir / "backhaul.lock"
        kill = await asyncio.create_subprocess_exec(
            "kill", "-KILL", lock.read_text().strip()
        )
        await kill.wait()
        with pytest.raises(ProgramFailed, match="the daemon ended with exit code -9"):
            async with asyncio.timeout(HANG_SECONDS):
                await pair.daemon.watch()


async def test_stopping_twice_is_harmless(tmp_path: Path) -> None:
    never_started = program(tmp_path, "nothing")
    await never_started.stop()
    await never_started.kill()
    async with open_pair(tmp_path / "pair", CLOCK) as pair:
        await pair.daemon.stop()
        await pair.daemon.stop()
        assert not pair.daemon.running
