"""Makes text safe to show or log: no secrets, no control characters."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

REDACTED = "[redacted]"
SHORTEST = 4
"""Shorter secrets are not redacted: they would match parts of ordinary words."""
PATTERNS = (
    r"svc_live_[0-9A-Za-z]{20,}",
    r"whsec_[A-Za-z0-9+/=]{20,}",
    r"(?i:Bearer) \S+",
)


class Redactor:
    """Replaces known secrets, and text that resembles one, by `[redacted]`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._spellings: set[str] = set()
        self._pattern = re.compile("|".join(PATTERNS))
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Redact these secrets too, also as written in JSON, Python and URLs."""
        for secret in secrets:
            if len(secret) >= SHORTEST:
                self._spellings |= _spellings(secret)
        # Longest first: one secret may be a prefix of another.
        known = sorted(self._spellings, key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, known), *PATTERNS]))

    def __call__(self, text: str) -> str:
        return self._pattern.sub(REDACTED, text)

    def plain(self, value: object) -> object:
        """Return `value` as JSON types, without secrets."""
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if self(str(value)) == str(value) else REDACTED
        if isinstance(value, dict):
            return {self(_text(k)): self.plain(each) for k, each in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.plain(each) for each in value]
        return self(_text(value))


def _spellings(secret: str) -> set[str]:
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret),
        quote(secret, safe=""),
    }


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a value must not make its log line fail
        return f"<{type(value).__name__}>"


def printable(text: str) -> str:
    """Escape characters that could end the line or control the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
