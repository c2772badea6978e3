"""Time, as a thing that can be handed in: the one home of the wall clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic seconds for timeouts, and waiting."""

    def now(self) -> datetime:
        """Return the aware UTC time."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def to_text(moment: datetime) -> str:
    """Return RFC 3339 in UTC with milliseconds: fixed width, so text order is time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def from_text(text: str) -> datetime:
    """Read RFC 3339; a time without zone is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def normalize(text: str) -> str:
    """Return any RFC 3339 time in the form of `to_text`. Raises ValueError."""
    if len(text) == 24 and text[10] == "T" and text[19] == "." and text[23] == "Z":
        return text
    return to_text(from_text(text))
