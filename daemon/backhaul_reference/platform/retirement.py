"""The announced end of v1: Deprecation and Sunset headers."""

from dataclasses import dataclass
from email.utils import formatdate

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
