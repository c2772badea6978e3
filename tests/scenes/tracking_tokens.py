"""Tracking tokens: every one that a server issued, and no file that may hold one."""

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
"""The folder of the letters: the buyer's is where the token belongs."""
TABLE = "SELECT 1 FROM sqlite_master WHERE name = 'orders'"
"""Missing where a server was ended before it had begun."""
ISSUED = "SELECT id, token_hash FROM orders WHERE token_hash IS NOT NULL"


def issued_by(data: Path) -> set[str]:
    """Make again every token of a reference server's folder, from its key alone.

    What the server keeps must be the token's hash; AssertionError where it is not.
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
    """Hold every file beneath to the tokens of the servers that lived there.

    The tokens are kept, to be looked for in all logs at the end of the run.
    """
    tokens: set[str] = set()
    for key in folder.rglob(KEY):
        if (key.parent / DATABASE).exists():
            tokens |= issued_by(key.parent)
    if tokens:
        leftovers.issued(*tokens)
        check_files(folder, tokens)


def check_daemon(folder: Path) -> None:
    """Hold a daemon's files to every token that was issued so far, anywhere."""
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
