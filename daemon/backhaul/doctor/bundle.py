"""Builds the support bundle and redacts secrets and personal data."""

from __future__ import annotations

import io
import json
import os
import platform
import re
import sys
import tarfile
from enum import Enum
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, SecretStr

from backhaul.errors import BackhaulError
from backhaul.observe.redaction import REDACTED, Redactor
from backhaul.settings import secret_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from backhaul.doctor import Result
    from backhaul.settings import Settings
    from backhaul.store.database import Database


_MAIL = re.compile(r"[^\s@<>\"',;]+@[^\s@<>\"',;]+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
"""Quoted text is data; the words around it are Backhaul's own."""
_PHONE = re.compile(r"\+\d[\d ()/-]{6,}\d")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"')]+")
_LOGIN = re.compile(r"user|login|mail", re.IGNORECASE)


class Cleaner:
    """Removes secrets and personal data from texts that leave this machine."""

    def __init__(self, settings: Settings | None) -> None:
        self._redact = Redactor(secret_values(settings) if settings else ())

    def secrets(self, text: str) -> str:
        """Remove only secrets, from text that cannot contain personal data."""
        return self._redact(text)

    def text(self, text: str) -> str:
        """Remove secrets, e-mail addresses, phone numbers and quoted text."""
        cleaned = _ADDRESS.sub(lambda each: _origin(each[0]), self._redact(text))
        for personal in (_MAIL, _QUOTED, _PHONE):
            cleaned = personal.sub(REDACTED, cleaned)
        return cleaned

    def value(self, value: object) -> Any:
        """Clean every text of a JSON document."""
        if isinstance(value, dict):
            return {self.text(str(k)): self.value(each) for k, each in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(each) for each in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))

    def settings(self, value: object, key: str = "") -> Any:
        """Return settings as JSON, without secrets, logins and e-mail addresses."""
        if isinstance(value, BaseModel):
            value = dict(value) | dict(value.model_extra or {})
        if isinstance(value, dict):
            return {str(k): self.settings(each, str(k)) for k, each in value.items()}
        if isinstance(value, SecretStr) or (value and _LOGIN.search(key)):
            return REDACTED
        if isinstance(value, list | tuple | set | frozenset):
            return [self.settings(each, key) for each in value]
        return self.value(value.value if isinstance(value, Enum) else _plain(value))


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _origin(address: str) -> str:
    """Return scheme and host of a URL, because a path or login may be a secret."""
    known = urlsplit(address)
    place = (known.netloc or known.path).rpartition("@")[2]
    return f"{known.scheme}://{place}"


LOG_LINES = 1_000
LOG_BYTES = 2_000_000
_KEPT = ("time", "level", "action", "module", "store", "connector", "job", "command")
"""Fields of a log line without personal data; the message may quote some."""

ABOUT = """\
Made by `backhaul support-bundle`. Read it before you share it.

versions.json       Backhaul, Python, SQLite, the system, and every package
configuration.json  the settings in force, without secrets, logins and paths of URLs
doctor.json         the results of `backhaul doctor`
status.json         the daemon's status and the backlog
jobs.json           the last run of each scheduled job
schema.sql          the database engine and its tables, without rows
counts.json         how many rows each table has
metrics.txt         the daemon's metrics
log.jsonl           the last lines of [log] file, without their messages

In texts, quotations, e-mail addresses and phone numbers are left out.
"""


def versions() -> dict[str, Any]:
    """Return the versions of Backhaul, its packages and the system."""
    packages = {each.name: each.version for each in distributions()}
    return {
        "backhaul": packages.get("backhaul"),
        "python": sys.version,
        "system": platform.platform(),
        "packages": dict(sorted(packages.items())),
    }


def findings(results: Sequence[Result], cleaner: Cleaner) -> list[dict[str, str]]:
    """Return the results of the checks, cleaned."""
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
    """Return the last lines of the log without messages, or the reading error."""
    try:
        if file is None or not file.is_file():
            return ""
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - LOG_BYTES))
            lines = stream.read().splitlines()[-LOG_LINES:]
    except OSError as error:
        said = cleaner.text(f"{file}: cannot be read: {error.strerror}")
        return json.dumps({"error": said}) + "\n"
    return "".join(f"{kept}\n" for line in lines if (kept := _kept(line, cleaner)))


def _kept(line: bytes, cleaner: Cleaner) -> str:
    try:
        fields = json.loads(line)
        kept = {name: fields[name] for name in _KEPT if name in fields}
    except (ValueError, TypeError):
        return ""
    return json.dumps(cleaner.value(kept))


def document(make: Callable[[], object]) -> bytes:
    """Return a JSON document, or one with the error that kept it from being made."""
    try:
        found = make()
    except (BackhaulError, OSError) as error:
        found = {"error": str(error)}
    return msgspec.json.format(msgspec.json.encode(found, enc_hook=str), indent=2)


def schema(database: Database) -> bytes:
    """Return the database engine, and the statements that create the tables."""
    try:
        lines = [f"-- {database.engine_version()}"]
        lines += [f"{each};" for each in database.schema()]
        return "".join(f"{line}\n" for line in lines).encode()
    except (BackhaulError, OSError) as error:
        return f"-- {error}\n".encode()


def write(out: Path, parts: Mapping[str, bytes], now: datetime) -> None:
    """Write the archive, readable only by its owner. Raises BackhaulError."""
    name = out.name.partition(".")[0]
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BackhaulError(
            f"{out}: this file exists already; choose another name"
        ) from None
    except OSError as error:
        raise BackhaulError(f"{out}: cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "wb") as file, tarfile.open(None, "w:gz", file) as archive:
        for part, content in parts.items():
            entry = tarfile.TarInfo(f"{name}/{part}")
            entry.size, entry.mode = len(content), 0o600
            entry.mtime = int(now.timestamp())
            archive.addfile(entry, io.BytesIO(content))
