"""What one run of the tests leaves behind: its logs, and the secrets it issued."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VARIABLE = "TEST_SESSION_FOLDER"
SHORTEST = 12
"""Shorter values would be found in every other word."""
ISSUED = re.compile(
    r"svc_live_\w+|whsec_[A-Za-z0-9+/=]+|(?<=\"trackingToken\":\")[\w-]+"
)
"""What an answer of the platform may give away: keys, secrets, tracking tokens."""


def begin() -> Path:
    """Make the session's folder; processes started from now on find it."""
    folder = Path(tempfile.mkdtemp(prefix="backhaul-tests-"))
    os.environ[VARIABLE] = str(folder)
    return folder


def folder(part: str) -> Path:
    """Return `logs` or `issued` of this session."""
    root = Path(os.environ.get(VARIABLE) or begin())
    found = root / part
    found.mkdir(exist_ok=True)
    return found


def new_log(name: str) -> Path:
    """Return a file of its own to write a log to."""
    handle, path = tempfile.mkstemp(".log", f"{name}-", folder("logs"))
    os.close(handle)
    return Path(path)


def keep_log(path: Path) -> None:
    """Keep a log that is written elsewhere, even if its folder goes."""
    path.touch()
    kept = new_log(path.stem)
    kept.unlink()
    try:
        kept.hardlink_to(path)
    except OSError:
        kept.symlink_to(path)


def issued(*secrets: str) -> None:
    """Remember secrets that no log may show."""
    told = [secret for secret in secrets if len(secret) >= SHORTEST]
    with (folder("issued") / str(os.getpid())).open("a", encoding="utf-8") as file:
        file.writelines(f"{secret}\n" for secret in told)


def issued_in(body: bytes) -> None:
    """Remember every secret that an answer shows."""
    found = ISSUED.findall(body.decode(errors="replace"))
    if found:
        issued(*found)


def all_issued() -> set[str]:
    """Return every secret of this session, of every process."""
    files = folder("issued").iterdir()
    return {line for file in files for line in file.read_text().splitlines()}


def hits(logs: Iterable[Path], secrets: Iterable[str]) -> Iterator[str]:
    """Yield a line for each secret in a log, showing neither."""
    known = [secret.encode() for secret in secrets]
    for log in logs:
        for number, line in enumerate(log.read_bytes().splitlines(), 1):
            for secret in known:
                if secret in line:
                    rest = line.replace(secret, b"<the secret>").decode(
                        errors="replace"
                    )
                    yield f"{log.name}:{number}: {rest[:300]}"


def leaks() -> list[str]:
    """Return where a log of this session shows a secret."""
    return list(hits(sorted(folder("logs").iterdir()), all_issued()))
