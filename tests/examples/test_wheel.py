"""The example projects pass with the wheel that is built from this tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parents[2]
PROOF = """\
from backhaul import testing
assert testing.__file__.startswith({installed!r}), testing.__file__
"""
EXAMPLES = sorted({path.parent for path in ROOT.glob("docs/examples/*/test_*.py")})
"""Projects of Python with tests; the other examples have tests of their own here."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built and unpacked: what `pip install` puts into a project."""
    unpacked = tmp_path_factory.mktemp("wheel") / "site"
    install(ROOT, unpacked)
    return unpacked


def install(project: Path, site: Path) -> None:
    """Build a project's wheel and unpack it there."""
    folder = site.with_name(f"{project.name}-wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    built = subprocess.run(
        [*build, "--directory", str(folder)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_passes_with_the_wheel(
    example: Path, installed: Path, tmp_path: Path
) -> None:
    # Away from this tree, whose settings of pytest would put its sources first.
    project = tmp_path / example.name
    shutil.copytree(example, project, ignore=shutil.ignore_patterns("__pycache__"))
    paths = [str(installed)]
    if (project / "pyproject.toml").exists():
        own = tmp_path / "site"
        install(project, own)
        # Only what was installed counts, not the sources beside the tests.
        for source in own.glob("*.py"):
            (project / source.name).unlink()
        paths.append(str(own))
    (project / "conftest.py").write_text(PROOF.format(installed=str(installed)))
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=project,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
