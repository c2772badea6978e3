"""Converts epoch milliseconds to and from RFC 3339 UTC text."""

from datetime import UTC, datetime
from functools import lru_cache

MAX_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


@lru_cache(maxsize=4096)
def to_text(ms: int) -> str:
    seconds, rest = divmod(ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC).isoformat()
    return f"{moment[:19]}.{rest:03d}Z"


def to_text_or_none(ms: int | None) -> str | None:
    return None if ms is None else to_text(ms)


def from_text(text: str) -> int:
    """Parse an RFC 3339 instant with an offset; ValueError for anything else."""
    if not text.isascii() or len(text) > 40 or "T" not in text.upper():
        raise ValueError("not an RFC 3339 instant")
    moment = datetime.fromisoformat(text.upper())
    if moment.tzinfo is None:
        raise ValueError("has no offset")
    try:
        seconds = moment.replace(microsecond=0).timestamp()
    except OverflowError as error:
        raise ValueError("out of range") from error
    ms = int(seconds) * 1000 + moment.microsecond // 1000
    if not 0 <= ms <= MAX_MS:
        raise ValueError("out of range")
    return ms
