"""Which modules are loaded by a command that only reads, and by a ready daemon."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from backhaul.__main__ import program_for
from backhaul.cli.root import app
from scenes.mirror_files import lone_office
from scenes.silent_platform import office_with_known_store

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import sys
from backhaul.cli.root import app
for command in " ".join(sys.argv[1:]).split(" then "):
    try:
        app(command.split())
    except SystemExit:
        pass
    sys.stderr.write(" ".join(sys.modules) + "\\n")
"""
DAEMON = {
    "apscheduler",
    "backhaul.app.daemon",
    "backhaul.app.offline",
    "sqlite_utils",
    "uvloop",
}
HEAVY = {
    *DAEMON,
    *("aiohttp", "backhaul.app.receiver_files", "backhaul.demo.runner", "httpx"),
    "jinja2",
}


READY = """
import gc, os, signal, socket, sys, threading
from backhaul.__main__ import main
told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
told.bind(os.environ["NOTIFY_SOCKET"])

def await_ready():
    while b"READY=1" not in told.recv(4096):
        pass
    loaded = [name for name, module in list(sys.modules.items()) if module]
    sys.stdout.write(f"{len(looks) // 2} {' '.join(loaded)}\\n")
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=await_ready, daemon=True).start()
looks = []
gc.callbacks.append(lambda phase, _: looks.append(phase))
main()
"""
LATER = {
    *("aiosmtplib", "backhaul.cli.root", "cryptography", "jinja2", "joserfc"),
    *("pygments", "rich", "segno"),
}
FEW_LOOKS = 9
"""The limit of file lookups; to import modules would need a hundred more."""

COMMANDS = ["status", "why", "capture", "reconcile", "run"]


def loaded_by(*commands: str) -> list[set[str]]:
    """Return the imported modules after each command, all in one process."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, " then ".join(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    return [set(line.split()) for line in done.stderr.splitlines()]


def test_help_loads_no_part_of_the_daemon() -> None:
    loaded = loaded_by(*(f"{command} --help" for command in COMMANDS))
    assert all("backhaul.cli.root" in modules for modules in loaded)
    pairs = zip(COMMANDS, loaded, strict=True)
    assert [(command, found) for command, m in pairs if (found := HEAVY & m)] == []


def test_a_command_that_reads_loads_no_daemon() -> None:
    with lone_office() as office:
        office.config.chmod(0o600)  # or it warns, when the modules are listed
        (loaded,) = loaded_by(f"check-config --config {office.config}")
    assert "backhaul_connectors.scanner" in loaded
    assert DAEMON & loaded == set()


@pytest.mark.programs
async def test_a_daemon_is_ready_without_what_it_needs_later(tmp_path: Path) -> None:
    """CA certificates are not read either, unless a store uses TLS."""
    without = {
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "SSL_CERT_FILE": str(tmp_path / "absent"),
    }
    async with office_with_known_store() as office:
        command = [sys.executable, "-c", READY, "run", "--config", str(office.config)]
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | without,
        )
    assert done.returncode == 0, done.stderr[-2_000:]
    looks, *loaded = done.stdout.split()
    assert "backhaul.app.daemon" in loaded
    assert LATER & {*loaded} == set()
    assert int(looks) <= FEW_LOOKS


@pytest.mark.parametrize("given", ["run --help", "run --bogus", "run twice"])
def test_a_command_loaded_alone_prints_the_same_as_among_others(
    given: str,
) -> None:
    alone, among = (
        CliRunner().invoke(one, given.split(), prog_name="backhaul")
        for one in (program_for(given.split()), app)
    )
    assert alone.output == among.output
    assert alone.exit_code == among.exit_code
    assert "backhaul run" in alone.output
