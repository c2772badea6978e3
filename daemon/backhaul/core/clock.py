"""Clocks, the time format of the database, durations, and task cancellation."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from typing import Protocol

_NORMAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d\.\d{3}Z", re.ASCII)
_RARE = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:)(\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_LEAP_SECOND = "60"
_FIRST_SECOND_ENDS = time_of_day(0, 0, 1)


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


def pause(seconds: float) -> None:
    """Block this thread; Ctrl-C ends it with KeyboardInterrupt.

    A wait for an Event would not do: a Ctrl-C while it gives up its lock becomes a
    RuntimeError.
    """
    time.sleep(seconds)


def for_file_name(moment: datetime) -> str:
    """Return a time for a file name: 20260301T120000Z."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def to_text(moment: datetime) -> str:
    """Return RFC 3339 in UTC with milliseconds: fixed width, so text order is time."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat("T", "milliseconds")[: -len("+00:00")] + "Z"


def from_text(text: str) -> datetime:
    """Read RFC 3339; a time without zone is UTC. Raises ValueError.

    A leap second counts as the first second of the next day, as in POSIX time.
    """
    try:
        return _aware(text)
    except ValueError:
        return _rarely_written(text)


def _aware(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _rarely_written(text: str) -> datetime:
    """Parse RFC 3339 that `fromisoformat` refuses. Raises ValueError."""
    parts = _RARE.fullmatch(text)
    if parts is None:
        raise ValueError(
            f"{text!r} is not a time in the format of RFC 3339, such as"
            " 2026-03-01T12:00:00Z"
        )
    minute, second, fraction, zone = parts.groups(default="")
    is_leap = second == _LEAP_SECOND
    before = _aware(f"{minute}{'59' if is_leap else second}{fraction}{zone.upper()}")
    if not is_leap:
        return before
    try:
        after = before.astimezone(UTC) + timedelta(seconds=1)
    except OverflowError:
        raise ValueError(f"{text!r} is outside of the years 1 to 9999") from None
    if after.time() >= _FIRST_SECOND_ENDS:
        raise ValueError(
            f"the time {text!r} has the second 60, but is not a leap second"
            " (23:59:60 UTC)"
        )
    return after


def earlier(text: str, by: timedelta) -> str:
    """Return a time `by` earlier, at the earliest the start of year 1."""
    try:
        return to_text(from_text(text) - by)
    except OverflowError:
        return to_text(datetime.min.replace(tzinfo=UTC))


def normalize(text: str) -> str:
    """Return any RFC 3339 time in the form of `to_text`. Raises ValueError."""
    if _NORMAL.fullmatch(text):
        datetime.fromisoformat(text)  # refuses a day that its month does not have
        return text
    try:
        return to_text(from_text(text))
    except OverflowError:
        raise ValueError(f"{text!r} is outside of the years 1 to 9999") from None


_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def ago(text: str | None, now: datetime) -> str:
    """Return the time since or until `text`, a time as the database stores it."""
    if not text:
        return "never"
    seconds = (now - from_text(text)).total_seconds()
    said = span(abs(seconds))
    if said is None:
        return "now"
    return f"{said} ago" if seconds > 0 else f"in {said}"


def span(seconds: float) -> str | None:
    """Return a duration in its largest whole unit; None below a second."""
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return None


def is_cancelled() -> bool:
    """Return True if the current task is being cancelled.

    Before Python 3.13 a TaskGroup raises only the failure of a task that fails during
    the cancellation; a loop that retries after failures would then never end.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
