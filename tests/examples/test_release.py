"""A release: wheel and sdist, each installed by pipx, run away from this tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from typing import TYPE_CHECKING

import pytest

from scenes.requirements import require_ensurepip
from scenes.wheels import ROOT, wheels

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.programs

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PACKAGES = ("backhaul", "backhaul_reference", "backhaul_sdk", "backhaul_connectors")
NEWEST = re.compile(r"^## (\d\S*) - \d{4}-\d{2}-\d{2}$", re.MULTILINE)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sdist, as a release uploads them."""
    return built(ROOT, tmp_path_factory.mktemp("release"))


def built(project: Path, folder: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    run([*command, *options], project, dict(os.environ))
    return folder


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    return done.stdout


def one(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def contents(wheel: Path) -> dict[str, int]:
    """Return the checksum of each file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {member.filename: member.CRC for member in archive.infolist()}


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_pipx_installs_a_program_that_loses_and_doubles_nothing(
    release: Path, tmp_path: Path, pattern: str
) -> None:
    require_ensurepip()
    python = "{}.{}".format(*sys.version_info)
    work = tmp_path / "work"
    work.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels(python)),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    pipx = [sys.executable, "-m", "pipx"]
    run([*pipx, "install", str(one(release, pattern))], work, environment)
    backhaul = str(tmp_path / "bin" / "backhaul")
    assert run([backhaul, "--version"], work, environment).split()[-1] == VERSION
    told = run([backhaul, "demo", "--once", "--orders", "5"], work, environment)
    assert re.search(r"lost\W+0\b", told), told
    assert re.search(r"doubled\W+0\b", told), told
    without = subprocess.run(
        [backhaul, "demo", "--once", "--with-tryton"],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert without.returncode != 0
    assert "pip install 'trytond-sale" in without.stderr
    run([*pipx, "uninstall", "backhaul"], work, environment)
    assert not (tmp_path / "bin" / "backhaul").exists()


def test_the_sdist_builds_the_same_wheel(release: Path, tmp_path: Path) -> None:
    with tarfile.open(one(release, "*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    again = built(one(tmp_path, "backhaul-*"), tmp_path / "dist", "--target", "wheel")
    assert contents(one(again, "*.whl")) == contents(one(release, "*.whl"))


def test_the_wheel_holds_the_packages_and_nothing_else(release: Path) -> None:
    names = contents(one(release, "*.whl"))
    metadata = f"backhaul-{VERSION}.dist-info"
    assert {name.split("/")[0] for name in names} == {*PACKAGES, metadata}
    assert {f"{package}/py.typed" for package in PACKAGES} <= names.keys()
    assert [name for name in names if name.endswith((".pyc", ".db"))] == []


def test_the_changelog_describes_this_version() -> None:
    assert NEWEST.findall((ROOT / "CHANGELOG.md").read_text())[0] == VERSION
