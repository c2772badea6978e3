"""The logs of a test run, and the secrets that it issued."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

VARIABLE = "TEST_SESSION_FOLDER"
SHORTEST = 12
"""The shortest value to search for; shorter ones occur in other words."""
ISSUED = re.compile(
    r"svc_live_\w+|whsec_[A-Za-z0-9+/=]+|(?<=\"trackingToken\":\")[\w-]+"
)
"""The secrets in a response of the platform: keys, secrets, tracking tokens."""

TOKEN_BYTES = 43
TOKEN = re.compile(rb"[\w-]{%d}" % TOKEN_BYTES)
FEW = 50
"""Up to this number, tokens are searched one by one."""
TOKENS = re.compile(rb"[\w-]{%d,}" % TOKEN_BYTES)
"""A tracking token is 32 bytes as base64url: a run of characters that may hold one."""


def begin() -> Path:
    """Create the session's folder, and export its path to child processes."""
    folder = Path(tempfile.mkdtemp(prefix="backhaul-tests-"))
    os.environ[VARIABLE] = str(folder)
    return folder


def folder(part: str) -> Path:
    """Return `logs`, `issued` or `told` of this session."""
    root = Path(os.environ.get(VARIABLE) or begin())
    found = root / part
    found.mkdir(exist_ok=True)
    return found


def new_log(name: str) -> Path:
    """Return a new file for a log."""
    handle, path = tempfile.mkstemp(".log", f"{name}-", folder("logs"))
    os.close(handle)
    return Path(path)


def add_report(line: str) -> None:
    """Add a text for the end of the run, because a worker's output is not shown."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    with (folder("told") / str(os.getpid())).open("a", encoding="utf-8") as file:
        file.write(f"{test}: {line}\n")


def all_reports() -> list[str]:
    """Return the reports of this session's tests."""
    files = sorted(folder("told").iterdir())
    return sorted(line for file in files for line in file.read_text().splitlines())


def keep_log(path: Path) -> None:
    """Keep a log that is written elsewhere, even if its folder is deleted."""
    path.touch()
    kept = new_log(path.stem)
    kept.unlink()
    try:
        kept.hardlink_to(path)
    except OSError:
        kept.symlink_to(path)


def keep_delivery(headers: Mapping[str, str], body: bytes) -> None:
    """Keep the body of a webhook, to search it for secrets like a log."""
    lines = [f"{name}: {value}\n".encode() for name, value in headers.items()]
    with (folder("logs") / f"webhooks-{os.getpid()}.log").open("ab") as file:
        file.writelines([*lines, body, b"\n"])


def issued(*secrets: str) -> None:
    """Register secrets that no log may contain."""
    told = [secret for secret in secrets if len(secret) >= SHORTEST]
    with (folder("issued") / str(os.getpid())).open("a", encoding="utf-8") as file:
        file.writelines(f"{secret}\n" for secret in told)


def issued_in(body: bytes) -> None:
    """Register every secret in a response."""
    found = ISSUED.findall(body.decode(errors="replace"))
    if found:
        issued(*found)


def all_issued() -> set[str]:
    """Return every secret of this session, of every process."""
    files = folder("issued").iterdir()
    return {line for file in files for line in file.read_text().splitlines()}


def hits(logs: Iterable[Path], secrets: Iterable[str]) -> Iterator[str]:
    """Yield a line for each secret in a log, showing neither."""
    search = Search([secret.encode() for secret in secrets])
    for log in logs:
        content = log.read_bytes()
        for at, secret in search.found_in(content):
            number = content.count(b"\n", 0, at) + 1
            line = content[content.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]
            shown = line.replace(secret, b"<the secret>").decode(errors="replace")
            yield f"{log.name}:{number}: {shown[:300]}"


def contains_any(file: Path, secrets: Iterable[str]) -> bool:
    """Return True if a file contains any of these values."""
    search = Search([secret.encode() for secret in secrets])
    return next(search.found_in(file.read_bytes()), None) is not None


class Search:
    """Searches for thousands of secrets at once.

    Only runs of base64url characters that are long enough can contain a token. There
    are few of them, so the time does not grow with the number of tokens.
    """

    def __init__(self, secrets: Iterable[bytes]) -> None:
        every = set(secrets)
        tokens = {one for one in every if TOKEN.fullmatch(one)}
        self._tokens = tokens if len(tokens) > FEW else set[bytes]()
        self._others = every - self._tokens

    def found_in(self, content: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the position and the index of each secret."""
        for run in TOKENS.finditer(content) if self._tokens else ():
            for at in range(run.start(), run.end() - TOKEN_BYTES + 1):
                if (found := content[at : at + TOKEN_BYTES]) in self._tokens:
                    yield at, found
        for secret in self._others:
            at = content.find(secret)
            while at >= 0:
                yield at, secret
                at = content.find(secret, at + 1)


def leaks() -> list[str]:
    """Return the places where a log of this session contains a secret."""
    return list(hits(sorted(folder("logs").iterdir()), all_issued()))
