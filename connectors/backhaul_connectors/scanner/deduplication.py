"""Recognizes repeated scans of a device that does not number its scans."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from backhaul_connectors.scanner.scan import Scan
    from backhaul_sdk import Documents

UNANSWERED_SECONDS = 600.0
"""How long a scan is remembered that may or may not have been stored."""
PREFIX = "repeat/"


class IssuedKey(Struct, frozen=True):
    """A key, and until when a repeat gets the same key, in seconds since 1970."""

    key: str
    until: float

    def is_valid(self, now: float) -> bool:
        """Return True if a repeat gets this key now."""
        # A later end was stored before the clock was set back.
        return now < self.until <= now + UNANSWERED_SECONDS


class RecentScans:
    """Remembers the last scans, inside one transaction.

    `now` are seconds since 1970: they go on while the program is down.
    """

    def __init__(self, documents: Documents, now: float) -> None:
        self._documents = documents
        self._now = now

    def key_of(self, scan: Scan) -> str:
        """Return the key of a scan that its device did not number."""
        known = self._known(scan)
        if known is None:
            key = f"scan:{scan.device}:{secrets.token_hex(16)}"
            known = IssuedKey(key, self._now + UNANSWERED_SECONDS)
            put_issued(self._documents, scan.identity, known)
        return known.key

    def answered(self, scan: Scan, dedupe_seconds: float) -> None:
        """Shorten the memory of a scan: its device knows the outcome."""
        if known := self._known(scan):
            until = min(known.until, self._now + dedupe_seconds)
            issued = IssuedKey(known.key, until)
            put_issued(self._documents, scan.identity, issued)

    def delete_expired(self, after: str, limit: int) -> str | None:
        """Delete expired keys of a page; return the page's last key, None at the end.

        `after` is the last key of the previous page.
        """
        page = self._documents.list(PREFIX, after=after, limit=limit)
        for key, value in page:
            if not _decoded(value).is_valid(self._now):
                self._documents.delete(key)
        return page[-1][0] if page else None

    def _known(self, scan: Scan) -> IssuedKey | None:
        value = self._documents.get(f"{PREFIX}{scan.identity}")
        known = None if value is None else _decoded(value)
        return known if known is not None and known.is_valid(self._now) else None


def put_issued(documents: Documents, identity: str, issued: IssuedKey) -> None:
    """Store the key of scans with an identity."""
    documents.put(f"{PREFIX}{identity}", msgspec.json.encode(issued))


def _decoded(value: bytes) -> IssuedKey:
    return msgspec.json.decode(value, type=IssuedKey)
