"""Recognizes repeated scans of a device that does not number its scans."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from backhaul_connectors.scanner.scan import Scan

UNANSWERED_SECONDS = 600.0
"""How long a scan is remembered that may or may not have been stored."""


class IssuedKey(Struct):
    """A key, and until when a repeat gets the same key."""

    key: str
    until: float


class RecentScans:
    """Remembers the last scans in memory, if no folder is configured."""

    def __init__(self, dedupe_seconds: float, clock: Callable[[], float]) -> None:
        self._dedupe_seconds = dedupe_seconds
        self._clock = clock
        self._known: dict[str, IssuedKey] = {}

    def key_of(self, scan: Scan) -> str:
        """Return the key of a scan that its device did not number."""
        now = self._clock()
        self._known = {
            i: known for i, known in self._known.items() if known.until > now
        }
        fresh = IssuedKey(_fresh_key(scan), 0.0)
        known = self._known.setdefault(scan.identity, fresh)
        if known is fresh:
            known.until = now + UNANSWERED_SECONDS
        return known.key

    def answered(self, scan: Scan) -> None:
        """Shorten the memory of a scan: its device knows the outcome."""
        if known := self._known.get(scan.identity):
            known.until = min(known.until, self._clock() + self._dedupe_seconds)


class StoredRecentScans:
    """Remembers the last scans in the file, in one transaction for each.

    `second` is the time since 1970: it continues while the program is down.
    """

    def __init__(self, connection: sqlite3.Connection, second: float) -> None:
        self._db = connection
        self._second = second

    def key_of(self, scan: Scan) -> str:
        """Return the key of a scan that its device did not number."""
        longest = self._second + UNANSWERED_SECONDS
        # A later end was stored before the clock was set back.
        self._db.execute(
            "DELETE FROM repeats WHERE until <= ? OR until > ?", (self._second, longest)
        )
        self._db.execute(
            "INSERT OR IGNORE INTO repeats VALUES (?, ?, ?)",
            (scan.identity, _fresh_key(scan), longest),
        )
        (key,) = self._db.execute(
            "SELECT key FROM repeats WHERE identity = ?", (scan.identity,)
        ).fetchone()
        return str(key)

    def answered(self, scan: Scan, dedupe_seconds: float) -> None:
        """Shorten the memory of a scan: its device knows the outcome."""
        self._db.execute(
            "UPDATE repeats SET until = min(until, ?) WHERE identity = ?",
            (self._second + dedupe_seconds, scan.identity),
        )


def _fresh_key(scan: Scan) -> str:
    return f"scan:{scan.device}:{secrets.token_hex(16)}"
