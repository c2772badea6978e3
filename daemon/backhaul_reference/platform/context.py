"""The context object with the shared parts every surface works with."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import TypeVar

from aiohttp import web

from backhaul_reference.platform.clock import Clock
from backhaul_reference.platform.faults import Faults
from backhaul_reference.platform.formats import IdSource, sha256_hex
from backhaul_reference.platform.quirks import Quirks
from backhaul_reference.platform.rate_limits import Limits
from backhaul_reference.platform.state.api_keys import KeyUses
from backhaul_reference.platform.state.database import Reader, Rows, open_reader
from backhaul_reference.platform.state.writer import Writer

NOTICE_MS = 365 * 24 * 3600 * 1000
"""Nobody is given less time than this."""


@dataclass(slots=True)
class Retirement:
    """When the end of v1 was announced, and its date; None before the announcement."""

    deprecated_ms: int | None = None
    sunset_ms: int | None = None

    def announce(self, now_ms: int, sunset_ms: int) -> None:
        self.deprecated_ms, self.sunset_ms = now_ms, sunset_ms

    def take_back(self) -> None:
        self.deprecated_ms = self.sunset_ms = None

    def headers(self) -> dict[str, str]:
        if self.deprecated_ms is None or self.sunset_ms is None:
            return {}
        return {
            "Deprecation": f"@{self.deprecated_ms // 1000}",
            "Sunset": formatdate(self.sunset_ms // 1000, usegmt=True),
        }


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrackingTokens:
    """Derives the buyer's token of an order from the key, so it is never stored."""

    key: bytes

    def token(self, order_id: str) -> str:
        digest = hmac.digest(self.key, order_id.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def hash_of(self, token: str) -> str:
        return sha256_hex(token)


@dataclass(frozen=True, slots=True)
class Platform:
    """What the handlers need; built once, by the server."""

    clock: Clock
    ids: IdSource
    database: Path
    writer: Writer
    reader: Reader
    tokens: TrackingTokens
    limits: Limits
    allow_private_targets: bool
    quirks: Quirks
    faults: Faults
    key_uses: KeyUses
    wake_dispatcher: Callable[[], None]
    retirement: Retirement = field(default_factory=Retirement)

    @contextmanager
    def open_rows(self) -> Iterator[Rows]:
        """Open a separate reader, for use in another thread."""
        with closing(open_reader(self.database)) as connection:
            yield Rows(connection)


PLATFORM = web.AppKey("platform", Platform)
