"""The Makefile: its targets, their help, and when they have nothing to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from repository.tree import ROOT, read

if TYPE_CHECKING:
    from pathlib import Path

INPUTS = ("requirements-dev.lock", "pyproject.toml", "bootstrap.py")
MAKE = shutil.which("make") or "make"


def make(
    *arguments: str, folder: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        [MAKE, *arguments],
        cwd=folder,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with the Makefile and what `make venv` reads."""
    for name in ("Makefile", *INPUTS):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.fixture
def prepared(project: Path) -> Path:
    """Return such a folder whose .venv is newer than all it was made from."""
    newest = max((project / name).stat().st_mtime for name in INPUTS)
    ready = project / ".venv/.ready"
    ready.parent.mkdir()
    ready.touch()
    os.utime(ready, (newest + 1, newest + 1))
    return project


def test_help_lists_every_target_with_its_sentence() -> None:
    targets = re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE)
    lines = make("help").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["make", t] for t in targets]
    assert all(len(line.split()) > 4 for line in lines)
    assert max(map(len, lines)) <= 88


def test_plain_make_shows_the_help() -> None:
    assert make().stdout == make("help").stdout


def test_every_target_but_these_prepares_the_environment(project: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE)
    unprepared = {
        target
        for target in targets
        if "bootstrap.py" not in make("--dry-run", target, folder=project).stdout
    }
    assert unprepared == {"help", "clean", "lock"}


def test_an_environment_that_is_up_to_date_is_left_alone(prepared: Path) -> None:
    assert make("--question", "venv", folder=prepared).returncode == 0


@pytest.mark.parametrize("name", INPUTS)
def test_an_environment_older_than_its_inputs_is_prepared(
    prepared: Path, name: str
) -> None:
    later = (prepared / ".venv/.ready").stat().st_mtime + 1
    os.utime(prepared / name, (later, later))
    assert make("--question", "venv", folder=prepared).returncode == 1


def test_no_python_that_is_new_enough_is_one_clear_line(project: Path) -> None:
    tools = project / "tools"
    tools.mkdir()
    for name in ("python3", "python3.11"):
        old = tools / name
        old.write_text("#!/bin/sh\nexit 1\n")
        old.chmod(0o755)
    done = make("--silent", "venv", folder=project, PATH=str(tools))
    first, *rest = done.stderr.splitlines()
    assert done.returncode != 0
    assert first.startswith("No Python 3.11 or newer among: python3 ")
    assert first.endswith("make PYTHON=/path/to/python3")
    assert all(line.startswith("make: ***") for line in rest)
    assert not (project / ".venv").exists()
