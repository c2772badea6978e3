"""Our modules import without output, warnings and threads.

The order of imports does not matter, because the import contracts of `make check`
allow no cycle.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from repository.tree import ROOT, modules

pytestmark = [pytest.mark.programs]

SCRIPT = """
import importlib, sys, threading, traceback

failed = []
for module in sys.argv[1:]:
    before = threading.enumerate()
    try:
        importlib.import_module(module)
        extra = [thread for thread in threading.enumerate() if thread not in before]
        assert not extra, f"{module} starts {extra} when imported"
    except BaseException:
        traceback.print_exc()
        failed.append(module)
sys.exit(f"failed: {failed}" if failed else 0)
"""


def import_each(names: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_module_imports_in_silence() -> None:
    done = import_each(modules())
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")


def test_a_module_that_does_not_import_is_named() -> None:
    done = import_each(["backhaul", "backhaul.no_such_module"])
    assert done.returncode == 1
    assert "failed: ['backhaul.no_such_module']" in done.stderr


def test_all_four_packages_are_covered() -> None:
    assert {name.partition(".")[0] for name in modules()} == {
        "backhaul",
        "backhaul_reference",
        "backhaul_sdk",
        "backhaul_connectors",
    }
