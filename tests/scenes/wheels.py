"""The wheels that Backhaul needs to run and to build, downloaded once to a cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "backhaul"


def wheels(python: str) -> Path:
    """Return a folder of wheels for a Python version such as "3.11".

    It has what `requirements.lock` pins, the build backends, and pip.
    """
    lock = (ROOT / "requirements.lock").read_bytes()

    def download(folder: Path) -> None:
        folder.mkdir()
        pip = folder.with_name("pip.whl")
        run([sys.executable, "bootstrap.py", "requirements-dev.lock", str(pip)])
        fetch = [sys.executable, str(pip / "pip"), "download", "--quiet"]
        fetch += ["--python-version", python, "--dest", str(folder)]
        run([*fetch, "--no-deps", "--require-hashes", "-r", "requirements.lock"])
        # setuptools builds the pure Python package that has no wheel.
        run([*fetch, "--only-binary=:all:", "hatchling", "pip", "setuptools"])

    return cached("wheels", b"4 " + python.encode() + lock, download)


def cached(name: str, key: bytes, make: Callable[[Path], None]) -> Path:
    """Return the cached folder of a key; `make` creates it if it is missing.

    One process at a time creates the folder, and it appears complete or not at all.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    found = _place(name, key)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            unfinished = found.with_suffix(".new")
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(found)
    return found


def is_cached(name: str, key: bytes) -> bool:
    """Return whether the folder under a key has been made."""
    return _place(name, key).exists()


def _place(name: str, key: bytes) -> Path:
    return CACHE / f"{name}-{sha256(key).hexdigest()[:12]}"


def run(command: list[str]) -> None:
    """Run a command in the project's root. Raises AssertionError with its output."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
