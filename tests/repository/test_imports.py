"""Each of our modules can be imported first, without the others and without noise."""

from __future__ import annotations

import subprocess
import sys

import pytest

from repository.tree import ROOT, modules

pytestmark = [pytest.mark.programs, pytest.mark.timeout(300)]

# Forking one interpreter that has the libraries loaded, and nothing of ours, takes
# milliseconds where a new interpreter takes half a second.
SCRIPT = """
import importlib, os, sys, threading, traceback

for library in sys.argv[1].split():
    importlib.import_module(library)

failed = []
for module in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(module)
            extra = threading.enumerate()[1:]
            assert not extra, f"{module} starts {extra} when imported"
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        failed.append(module)
sys.exit(f"failed: {failed}" if failed else 0)
"""
LIBRARIES = (
    "aiohttp.web aiomqtt aiosmtplib apscheduler.schedulers.asyncio argon2 asyncssh "
    "biip defusedxml.ElementTree email.message httpx jinja2 jmespath loguru "
    "msgspec openpyxl prometheus_client psycopg pydantic_settings pytest "
    "rich.console rich.progress segno sqlalchemy.dialects.postgresql "
    "sqlalchemy.dialects.sqlite sqlite_utils tenacity typer uvloop"
)


def import_each_alone(names: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, LIBRARIES, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_module_imports_alone() -> None:
    done = import_each_alone(modules())
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")


def test_a_module_that_does_not_import_is_named() -> None:
    done = import_each_alone(["backhaul", "backhaul.no_such_module"])
    assert done.returncode == 1
    assert "failed: ['backhaul.no_such_module']" in done.stderr


def test_all_four_packages_are_covered() -> None:
    assert {name.partition(".")[0] for name in modules()} == {
        "backhaul",
        "backhaul_reference",
        "backhaul_sdk",
        "backhaul_connectors",
    }
