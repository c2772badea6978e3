"""Rules for every file: its length, its docstring, and no paths of one machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from repository.tree import files, files_without_git, python_files, read

if TYPE_CHECKING:
    from pathlib import Path

MOST_LINES = 500
# What people write here; a log or a dump that lies about is nobody's work.
WRITTEN = {".py", ".sh", ".sql", ".html", ".css", ".js", ".md"}
WRITTEN |= {".toml", ".yml", ".yaml", ".service", ".env"}
WRITTEN_NAMES = {"Makefile", "Dockerfile", "run", ".importlinter", ".editorconfig"}
INTRODUCTION = re.compile(r'(#.*\n)*r?"""\S')
# Spelled in pieces, so that this file does not find itself.
MACHINE_PATHS = re.compile(
    "|".join(
        [
            "/" + r"work/(main|shared|\.library)",
            "/" + r"opt/(pypi|wheels)",
            "/" + r"root/",
            "/" + r"home/[a-z]",
            "/" + r"Users/[A-Za-z]",
            "/" + r"tmp/bash_jobs",
        ]
    )
)


def texts(*more_suffixes: str) -> list[tuple[Path, str]]:
    """Return path and content of what people write, and of the named kinds."""
    return [
        (path, read(path))
        for path in files()
        if path.suffix in {*WRITTEN, *more_suffixes} or path.name in WRITTEN_NAMES
    ]


def test_no_file_is_longer_than_a_newcomer_can_hold() -> None:
    long = {path: n for path, text in texts() if (n := text.count("\n")) > MOST_LINES}
    assert long == {}


def test_every_python_file_has_a_docstring() -> None:
    silent = [path for path in python_files() if not INTRODUCTION.match(read(path))]
    assert silent == []


def test_nothing_names_a_path_of_one_machine() -> None:
    named = [
        f"{path}:{number}: {line.strip()}"
        for path, text in texts(".lock", ".json", ".jsonl", ".csv", ".txt")
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert named == []


@pytest.mark.parametrize("path", ["/ro" + "ot/.cache", "see /ho" + "me/ann/x"])
def test_a_path_of_one_machine_is_recognized(path: str) -> None:
    assert MACHINE_PATHS.search(path)


def test_text_files_end_with_one_newline() -> None:
    odd = [
        path
        for path, text in texts()
        if text and (not text.endswith("\n") or text.endswith("\n\n"))
    ]
    assert odd == []


def test_a_copy_without_git_has_the_same_files() -> None:
    assert set(python_files()) <= files_without_git()
