"""The files of this repository: tracked ones and new ones that git does not ignore."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("daemon", "connectors")
IGNORED_WITHOUT_GIT = {"__pycache__", "build", "dist", "var"}


@cache
def files() -> tuple[Path, ...]:
    """Return every file's path relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = from_git(listing.stdout) if listing.returncode == 0 else files_without_git()
    return tuple(sorted(path for path in found if (ROOT / path).is_file()))


def from_git(listing: str) -> set[Path]:
    return {Path(name) for name in listing.split("\0") if name}


def files_without_git() -> set[Path]:
    """Find the files of a copy without git, such as an unpacked sdist."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
    return {path for path in found if not any(map(is_ignored, path.parts))}


def is_ignored(part: str) -> bool:
    hidden = part.startswith(".") and not part.startswith(
        (".ci", ".editorconfig", ".git", ".importlinter")
    )
    return hidden or part == ".git" or part in IGNORED_WITHOUT_GIT


def python_files(*top: str) -> list[Path]:
    """Return the Python files below the named top-level folders, or all of them."""
    return [
        path
        for path in files()
        if path.suffix == ".py" and (not top or path.parts[0] in top)
    ]


def modules() -> list[str]:
    """Return the dotted names of our importable modules."""
    paths = (path.relative_to(path.parts[0]) for path in python_files(*SOURCE_ROOTS))
    return [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths
    ]


def read(path: Path | str) -> str:
    """Return the text of a file given relative to the root."""
    return (ROOT / path).read_text(encoding="utf-8")
