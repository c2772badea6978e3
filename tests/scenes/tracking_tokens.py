"""Finds the tracking tokens that servers issued, in files that must not hold any."""

from __future__ import annotations

import base64
import hashlib
import hmac
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from scenes import leftovers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

KEY, DATABASE = "token.key", "reference.db"
MAILS = "mails"
"""The folder of mails; a mail to the buyer may contain the token."""
TABLE = "SELECT 1 FROM sqlite_master WHERE name = 'orders'"
"""Missing if a server was killed before it started."""
ISSUED = "SELECT id, token_hash FROM orders WHERE token_hash IS NOT NULL"


def issued_by(data: Path) -> set[str]:
    """Compute every token of a reference server's folder from its key.

    Raise AssertionError unless the server stores only the token's hash.
    """
    key = (data / KEY).read_bytes()
    address = f"{(data / DATABASE).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        begun = connection.execute(TABLE).fetchone() is not None
        kept = connection.execute(ISSUED).fetchall() if begun else []
    tokens = {_token(key, order_id): hashed for order_id, hashed in kept}
    for token, hashed in tokens.items():
        assert hashlib.sha256(token.encode()).hexdigest() == hashed, data
    return set(tokens)


def _token(key: bytes, order_id: str) -> str:
    digest = hmac.digest(key, order_id.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def check_servers(folder: Path) -> None:
    """Check every file in a folder for tokens of the servers in that folder.

    The end of the test run checks all logs for these tokens.
    """
    tokens: set[str] = set()
    for key in folder.rglob(KEY):
        if (key.parent / DATABASE).exists():
            tokens |= issued_by(key.parent)
    if tokens:
        leftovers.issued(*tokens)
        check_files(folder, tokens)


def check_daemon(folder: Path) -> None:
    """Check a daemon's files for every token that was issued so far."""
    known = leftovers.all_issued()
    check_files(folder, {one for one in known if len(one) == leftovers.TOKEN_BYTES})


def check_files(folder: Path, tokens: Collection[str]) -> None:
    holders = {
        str(path) for path in _files(folder) if leftovers.contains_any(path, tokens)
    }
    assert not holders, f"tracking tokens are in {sorted(holders)}"


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and MAILS not in path.relative_to(folder).parts:
            yield path
