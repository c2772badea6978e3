"""Each planted bug in the code that protects a cluster fails its own test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from faults.postgres_bugs import BUGS, SITE, VARIABLE
from simulation.planted import PLUGINS, PYTEST

if TYPE_CHECKING:
    from simulation.bugs import Bug

ROOT = Path(__file__).parents[2]
OURS = [str(ROOT / name) for name in ("tests", "daemon", "connectors")]
CONTROL = "no bug"
# Else pytest itself compiles our modules: they come with a plugin.
_ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "FAULTS": "short"}


def run(folder: Path, bug: str, *tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests in a process with a bug, as are those that it starts."""
    (folder / "sitecustomize.py").write_text(SITE)
    path = os.pathsep.join([str(folder), *OURS])
    return subprocess.run(
        [sys.executable, "-m", "pytest", *PYTEST, *PLUGINS, *tests],
        cwd=ROOT,
        env=os.environ | _ALONE | {"PYTHONPATH": path, VARIABLE: bug},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_bug_can_be_planted(bug: Bug) -> None:
    source = (ROOT / bug.file).read_text()
    assert bug.planted_in(source) != source


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_bug_fails_its_test(bug: Bug, tmp_path: Path) -> None:
    done = run(tmp_path, bug.name, bug.test)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-3_000:]
    assert "1 failed" in done.stdout


@pytest.mark.faults
@pytest.mark.timeout(1_800)
def test_without_a_bug_none_of_these_tests_fails(tmp_path: Path) -> None:
    done = run(tmp_path, CONTROL, *dict.fromkeys(bug.test for bug in BUGS))
    assert done.returncode == pytest.ExitCode.OK, done.stdout[-3_000:]
