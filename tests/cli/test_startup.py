"""A command that only looks does not load what the daemon is made of."""

from __future__ import annotations

import subprocess
import sys

from support.mirrored import lone_office

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
DAEMON = {"apscheduler", "backhaul.app", "backhaul.oneshot", "sqlite_utils", "uvloop"}
HEAVY = {*DAEMON, "aiohttp", "httpx", "jinja2", "backhaul.demo.playing"}


COMMANDS = ["status", "why", "capture", "reconcile", "run"]


def loaded_by(*commands: str) -> list[set[str]]:
    """Return what is loaded after each command, one after the other in one process."""
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
        (loaded,) = loaded_by(f"check-config --config {office.config}")
    assert "backhaul_connectors.scanner" in loaded
    assert DAEMON & loaded == set()
