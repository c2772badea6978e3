"""A release: its wheel and sdist are installed by pipx and run outside of this tree."""

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
MOST_PACKAGES = 50
"""In an install without extras, beside Backhaul itself; pip is one of them."""
OPTIONAL = {
    *("aio-pika", "aioftp", "aiomqtt", "asyncssh", "cryptography", "imapclient"),
    *("nats-py", "obstore", "openpyxl", "psycopg", "pymysql", "sqlalchemy"),
}
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


def errors_of(command: list[str], folder: Path) -> str:
    """Return the errors of a command that must fail."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    return done.stderr


def one(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def contents(wheel: Path) -> dict[str, int]:
    """Return the checksum of each file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {member.filename: member.CRC for member in archive.infolist()}


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_pipx_installs_few_packages(
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
        "PIPX_DEFAULT_BACKEND": "pip",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels(python)),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    pipx = [sys.executable, "-m", "pipx"]
    run([*pipx, "install", str(one(release, pattern))], work, environment)
    backhaul = str(tmp_path / "bin" / "backhaul")
    assert run([backhaul, "--version"], work, environment).split()[-1] == VERSION
    assert "pip install 'backhaul[sql]'" in errors_of([backhaul, "demo"], work)
    installed = run([*pipx, "runpip", "backhaul", "freeze", "--all"], work, environment)
    names = {
        line.partition("==")[0].partition(" @")[0] for line in installed.split("\n")
    }
    names = {name.lower() for name in names if name} - {"backhaul"}
    assert len(names) <= MOST_PACKAGES, sorted(names)
    assert names & OPTIONAL == set()
    run([*pipx, "uninstall", "backhaul"], work, environment)
    assert not (tmp_path / "bin" / "backhaul").exists()


def test_uv_installs_a_tool_that_loses_and_doubles_nothing(
    release: Path, tmp_path: Path
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "UV_NO_CONFIG": "1",
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(wheels("{}.{}".format(*sys.version_info))),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
    }
    uv = [sys.executable, "-m", "uv", "tool"]
    extras = f"backhaul[sql] @ {one(release, '*.whl').as_uri()}"
    run([*uv, "install", extras], tmp_path, environment)
    backhaul = str(tmp_path / "bin" / "backhaul")
    assert run([backhaul, "--version"], tmp_path, environment).split()[-1] == VERSION
    told = run([backhaul, "demo", "--once", "--orders", "5"], tmp_path, environment)
    assert re.search(r"lost\W+0\b", told), told
    assert re.search(r"doubled\W+0\b", told), told
    tryton = [backhaul, "demo", "--once", "--with-tryton"]
    assert "pip install 'trytond-sale" in errors_of(tryton, tmp_path)
    run([*uv, "uninstall", "backhaul"], tmp_path, environment)
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
