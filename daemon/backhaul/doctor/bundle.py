"""What somebody who helps needs to see, in one archive: no secrets, nobody's data."""

from __future__ import annotations

import io
import json
import os
import platform
import sqlite3
import sys
import tarfile
from importlib.metadata import distributions
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.errors import BackhaulError
from backhaul.store.sqlite import examining

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from backhaul.doctor.cleaning import Cleaner
    from backhaul.doctor.result import Result

LOG_LINES = 1_000
LOG_BYTES = 2_000_000
_TOLD = ("time", "level", "action", "module", "store", "connector", "job", "command")
"""Fields of a log line that hold nobody's data; its message may quote some."""

ABOUT = """\
Made by `backhaul support-bundle`, to be read before it is handed on.

versions.json       Backhaul, Python, SQLite, the system, and every package
configuration.json  the settings in force, without secrets, logins, paths of addresses
doctor.json         what `backhaul doctor` found
status.json         what the daemon tells of itself, and what waits
jobs.json           the last run of each scheduled job
schema.sql          the tables of the database, without a row
counts.json         how many rows each table has
metrics.txt         the daemon's metrics
log.jsonl           the last lines of [log] file: when and what, no message

In texts, what was quoted, mail addresses and telephone numbers are left out.
"""


def versions() -> dict[str, Any]:
    """Return what runs here."""
    packages = {each.name: each.version for each in distributions()}
    return {
        "backhaul": packages.get("backhaul"),
        "python": sys.version,
        "sqlite": sqlite3.sqlite_version,
        "system": platform.platform(),
        "packages": dict(sorted(packages.items())),
    }


def findings(results: Sequence[Result], cleaner: Cleaner) -> list[dict[str, str]]:
    """Return what the doctor found."""
    return [
        {
            "check": each.check,
            "about": each.about,
            "state": str(each.state),
            "said": cleaner.text(each.said),
            "fix": cleaner.text(each.fix),
        }
        for each in results
    ]


def log_lines(file: Path | None, cleaner: Cleaner) -> str:
    """Return what the log's last lines tell, without their messages, or why not."""
    try:
        if file is None or not file.is_file():
            return ""
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - LOG_BYTES))
            lines = stream.read().splitlines()[-LOG_LINES:]
    except OSError as error:
        said = cleaner.text(f"{file}: cannot be read: {error.strerror}")
        return json.dumps({"error": said}) + "\n"
    return "".join(f"{told}\n" for line in lines if (told := _told(line, cleaner)))


def _told(line: bytes, cleaner: Cleaner) -> str:
    try:
        fields = json.loads(line)
        kept = {name: fields[name] for name in _TOLD if name in fields}
    except (ValueError, TypeError):
        return ""
    return json.dumps(cleaner.value(kept))


def document(make: Callable[[], object]) -> bytes:
    """Return JSON; what cannot be found out says why, and costs nothing else."""
    try:
        found = make()
    except (BackhaulError, sqlite3.Error, OSError) as error:
        found = {"error": str(error)}
    return msgspec.json.format(msgspec.json.encode(found, enc_hook=str), indent=2)


def schema(database: Path) -> bytes:
    """Return the statements that made the tables."""
    try:
        return "".join(f"{each};\n" for each in examining.schema(database)).encode()
    except (BackhaulError, sqlite3.Error, OSError) as error:
        return f"-- {error}\n".encode()


def write(out: Path, parts: Mapping[str, bytes], now: datetime) -> None:
    """Write the archive, for its owner alone. Raises BackhaulError."""
    name = out.name.partition(".")[0]
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BackhaulError(f"{out}: is there already; give another name") from None
    except OSError as error:
        raise BackhaulError(f"{out}: cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "wb") as file, tarfile.open(None, "w:gz", file) as archive:
        for part, content in parts.items():
            entry = tarfile.TarInfo(f"{name}/{part}")
            entry.size, entry.mode = len(content), 0o600
            entry.mtime = int(now.timestamp())
            archive.addfile(entry, io.BytesIO(content))
