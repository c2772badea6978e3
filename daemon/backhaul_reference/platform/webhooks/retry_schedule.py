"""When to retry a failed delivery."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

DEFAULT_DELAYS = (0.0, 5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 36000.0)
JITTER = 0.1
MAX_RETRY_AFTER_SECONDS = 24 * 3600
RETRY_AFTER_STATUSES = {429, 503}


@dataclass(frozen=True, slots=True)
class Schedule:
    """Seconds to wait before each attempt of a series; the first is usually 0."""

    delays: tuple[float, ...] = DEFAULT_DELAYS

    def next_ms(
        self,
        attempt: int,
        now_ms: int,
        chance: Callable[[], float],
        asked_seconds: float | None = None,
    ) -> int | None:
        """Return when the attempt after `attempt` is due; None if it was the last."""
        if attempt >= len(self.delays):
            return None
        jitter = 1 + JITTER * (2 * chance() - 1)
        seconds = max(self.delays[attempt] * jitter, asked_seconds or 0)
        return now_ms + round(seconds * 1000)


def parse_schedule(text: str) -> Schedule:
    """Read `0,5,300`; ValueError for anything but non-negative numbers."""
    delays = tuple(float(part) for part in text.split(","))
    if not all(0 <= delay <= 30 * 24 * 3600 for delay in delays):
        raise ValueError("each delay must be 0 to 30 days, in seconds")
    return Schedule(delays)


def retry_after_seconds(
    status: int, headers: Mapping[str, str], now_ms: int
) -> float | None:
    """Return the Retry-After of a 429 or 503, at most a day."""
    text = headers.get("Retry-After", "").strip()
    if status not in RETRY_AFTER_STATUSES or not text:
        return None
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), MAX_RETRY_AFTER_SECONDS))
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, moment - now_ms / 1000), MAX_RETRY_AFTER_SECONDS)
