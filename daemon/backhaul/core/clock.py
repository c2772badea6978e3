"""Time, as a thing that can be handed in: the one home of the wall clock."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_NORMAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


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


async def rest(event: asyncio.Event, seconds: float, clock: Clock) -> None:
    """Wait for an event, for at most so long on that clock."""
    async with asyncio.TaskGroup() as group:
        waits = [
            group.create_task(event.wait()),
            group.create_task(clock.sleep(seconds)),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


def in_a_name(moment: datetime) -> str:
    """Return a moment for the name of a file: 20260301T120000Z."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def to_text(moment: datetime) -> str:
    """Return RFC 3339 in UTC with milliseconds: fixed width, so text order is time."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat("T", "milliseconds")[: -len("+00:00")] + "Z"


def from_text(text: str) -> datetime:
    """Read RFC 3339; a time without zone is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def earlier(text: str, by: timedelta) -> str:
    """Return a time so much before another; year 1, as programs write it, has none."""
    try:
        return to_text(from_text(text) - by)
    except OverflowError:
        return to_text(datetime.min.replace(tzinfo=UTC))


def normalize(text: str) -> str:
    """Return any RFC 3339 time in the form of `to_text`. Raises ValueError."""
    moment = from_text(text)
    if _NORMAL.fullmatch(text):
        return text
    try:
        return to_text(moment)
    except OverflowError:
        raise ValueError(f"{text!r} is outside of the years 1 to 9999") from None
