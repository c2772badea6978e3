""".ci/run with stand-ins for the programs that it starts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from repository.tree import ROOT
from scenes.waiting import await_true

STEPS = ("venv", "check", "test", "programs", "postgres", "simulate", "faults-short")
MAKE = """#!/bin/sh
echo "$1 with $TEST_REQUIRE" >> "$LOG"
[ "$1" != "$FAILING" ] || exit 5
if [ "$1" = "$STRAYING" ]; then
  setsid sleep 300 >/dev/null 2>&1 &
  # Just when a program takes another's place, its environment is empty.
  until grep -qx sleep /proc/$!/comm && grep -qz ^LOG= /proc/$!/environ; do :; done
fi
if [ "$1" = venv ]; then
  mkdir -p .venv/bin
  echo 'echo "usage: backhaul"' > .venv/bin/backhaul
  chmod +x .venv/bin/backhaul
fi
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "log").touch()
    # apt must not be reached for, and every package counts as installed.
    installed = "#!/bin/sh\necho install ok installed\n"
    stand_ins = {"make": MAKE, "dpkg-query": installed, "apt-get": "exit 1"}
    for name, script in stand_ins.items():
        program = tmp_path / "tools" / name
        program.write_text(script)
        program.chmod(0o755)
    return tmp_path


def run(project: Path, **behavior: str) -> tuple[subprocess.CompletedProcess[str], str]:
    (project / "tmp").mkdir()
    environment = {
        "PATH": f"{project}/tools:{os.environ['PATH']}",
        "TMPDIR": f"{project}/tmp",
        "LOG": f"{project}/log",
    }
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=project,
        env=os.environ | environment | behavior,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert list((project / "tmp").iterdir()) == []
    return done, done.stdout[done.stdout.rindex("\nstep ") :]


def started(project: Path) -> list[str]:
    return (project / "log").read_text().splitlines()


def test_all_steps_run_and_are_listed_with_their_seconds(project: Path) -> None:
    done, table = run(project)
    assert (done.returncode, done.stderr) == (0, "")
    assert started(project) == [f"{step} with all" for step in STEPS]
    listed = [" ".join(line.split()[:-2]) for line in table.splitlines()[2:-1]]
    wanted = [f"make {step}" for step in STEPS]
    wanted[3] += " 1/8"  # there is no commit here
    assert [name for name in listed if name != "system packages"] == wanted
    assert table.splitlines()[-1].startswith("total ")
    assert "usage: backhaul" in done.stdout


@pytest.mark.parametrize("step", STEPS)
def test_the_first_step_that_fails_ends_it(project: Path, step: str) -> None:
    done, table = run(project, FAILING=step)
    assert done.returncode == 5
    assert started(project)[-1] == f"{step} with all"
    assert table.splitlines()[-1].removesuffix(" 1/8") == f"FAILED: make {step}"


def test_a_process_left_behind_is_a_failure_and_is_ended(project: Path) -> None:
    done, table = run(project, STRAYING="check")
    assert done.returncode == 1
    assert done.stderr == "left behind: sleep 300 \n"
    assert table.splitlines()[-1] == "FAILED: make check"
    await_true(lambda: not still_running(project), "the process is gone")


def still_running(project: Path) -> list[Path]:
    return [p for p in Path("/proc").glob("[0-9]*/environ") if is_ours(p, project)]


def is_ours(environ: Path, project: Path) -> bool:
    try:
        return f"LOG={project}/log".encode() in environ.read_bytes()
    except OSError:
        return False
