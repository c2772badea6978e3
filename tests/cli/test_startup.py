"""A command that only looks does not load what the daemon is made of."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.mirrored import lone_office

SCRIPT = """
import sys
from backhaul.cli.root import app
try:
    app(sys.argv[1:])
except SystemExit:
    pass
sys.stderr.write(" ".join(sys.modules))
"""
DAEMON = {"apscheduler", "backhaul.app", "backhaul.oneshot", "sqlite_utils", "uvloop"}
HEAVY = {*DAEMON, "aiohttp", "httpx", "jinja2", "backhaul.demo.playing"}


def loaded_by(*arguments: object) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize("command", ["status", "why", "capture", "reconcile", "run"])
def test_help_loads_no_part_of_the_daemon(command: str) -> None:
    loaded = loaded_by(command, "--help")
    assert "backhaul.cli.root" in loaded
    assert HEAVY & loaded == set()


def test_a_command_that_reads_loads_no_daemon() -> None:
    with lone_office() as office:
        config = ("--config", office.config)
        loaded = loaded_by("check-config", *config)
    assert "backhaul_connectors.scanner" in loaded
    assert DAEMON & loaded == set()
