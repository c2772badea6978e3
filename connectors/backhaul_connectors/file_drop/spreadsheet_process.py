"""Reads XLS, XLSB and ODS files in a process of its own, with limits.

The library keeps a whole sheet in memory and is written for trusted files. So a file
that takes too much memory or time ends a process that does nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from backhaul_connectors.file_drop.binary_sheet import (
    LIMIT_CPU_SECONDS,
    LIMIT_MEMORY_BYTES,
    NO_LIBRARY,
    TOO_LARGE,
    UNREADABLE,
)
from backhaul_connectors.file_drop.files import FileUnreadable

if TYPE_CHECKING:
    from collections.abc import Generator


MODULE = "backhaul_connectors.file_drop.binary_sheet"
STEP_SECONDS = 0.1
MOST_SECONDS = 600.0
"""The process also ends when it waits instead of computing."""
MOST_SAID_BYTES = 8_000
SAVE_AS = "save it as .xlsx without a password, or as CSV UTF-8"
ENVIRONMENT = {"LANG": "C.UTF-8"}
"""The process needs no variable of the daemon; some of them are secrets."""


def spread_binary(
    stream: BinaryIO, lines: BinaryIO, *, sheet: str, max_bytes: int
) -> Generator[None]:
    """Write the sheet to `lines`, in short steps. Raises FileUnreadable.

    `max_bytes` limits what is written.
    """
    command = [sys.executable, "-I", "-m", MODULE, str(max_bytes), sheet]
    # Opened again: the process must not move the position of our own stream.
    with (
        Path(f"/proc/self/fd/{stream.fileno()}").open("rb") as source,
        subprocess.Popen(  # noqa: S603 - our own module, and no shell
            command,
            stdin=source,
            stdout=lines.fileno(),
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        ) as process,
    ):
        try:
            yield from _until_end(process)
        finally:
            process.kill()
        said = process.stderr.read(MOST_SAID_BYTES) if process.stderr else b""
    if process.returncode:
        words = said.decode(errors="replace").strip()
        raise FileUnreadable(_why(process.returncode, words, max_bytes))
    lines.seek(0, os.SEEK_END)


def _until_end(process: subprocess.Popen[bytes]) -> Generator[None]:
    deadline = time.monotonic() + MOST_SECONDS
    while time.monotonic() < deadline:
        try:
            process.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            yield
        else:
            return


def _why(code: int, said: str, max_bytes: int) -> str:
    """Return why the process did not write the sheet, and what to do."""
    if code == UNREADABLE:
        return f"the spreadsheet cannot be read: {said}; {SAVE_AS}"
    if code == NO_LIBRARY:
        return (
            "the library that reads .xls, .xlsb and .ods files cannot be loaded:"
            f" {said}. Install python-calamine again, or save the file as .xlsx"
        )
    if code == TOO_LARGE:
        return (
            f"the spreadsheet has more than {max_bytes // 10**6} MB of text; set a"
            " higher max_unzipped_mb, or save the spreadsheet as CSV"
        )
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return (
            f"reading the spreadsheet takes more than {LIMIT_CPU_SECONDS} seconds;"
            f" {SAVE_AS}"
        )
    last = next(reversed(said.splitlines()), f"exit code {code}")
    return (
        f"reading the spreadsheet failed ({last}). Perhaps it is damaged, or needs more"
        " than"
        f" {LIMIT_MEMORY_BYTES // 10**6:,} MB of memory; {SAVE_AS}"
    )
