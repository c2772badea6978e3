"""Identifiers and timestamps in the formats of the platform."""

import base64
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from backhaul_reference.platform.clock import Clock

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


CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PAIRS = tuple(high + low for high in CROCKFORD for low in CROCKFORD)

RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class IdSource:
    """Makes ids that sort by time of creation, and unguessable secrets."""

    clock: Clock
    random_bytes: RandomBytes = os.urandom

    def new(self, prefix: str) -> str:
        moment = self.clock.now_ms().to_bytes(6, "big")
        value = int.from_bytes(moment + self.random_bytes(10), "big")
        text = [PAIRS[(value >> shift) & 1023] for shift in range(120, -1, -10)]
        return f"{prefix}_{''.join(text)}"

    def api_key(self) -> str:
        return "svc_live_" + "".join(self._base62() for _ in range(40))

    def signing_secret(self) -> str:
        return "whsec_" + base64.b64encode(self.random_bytes(32)).decode()

    def _base62(self) -> str:
        # Bytes of 248 and more are thrown away: 256 is no multiple of 62.
        while (byte := self.random_bytes(1)[0]) >= 248:
            pass
        return BASE62[byte % 62]


def bytes_sent(text: str) -> bytes:
    """Return the bytes of a header, which need not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def sha256_hex(text: str) -> str:
    return hashlib.sha256(bytes_sent(text)).hexdigest()
