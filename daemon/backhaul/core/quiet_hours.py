"""Quiet hours: spans of the local day in which no work starts."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import TypeAlias

from msgspec import Struct

Span: TypeAlias = tuple[time, time]
"""Start (inclusive) and end (exclusive); it crosses midnight if the end is earlier."""


class QuietHours(Struct, frozen=True):
    """Spans of the local day in a time zone."""

    spans: tuple[Span, ...]
    zone: tzinfo

    def over(self, moment: datetime) -> datetime:
        """Return the end of the quiet hours around a moment, or the moment itself."""
        while (end := self._end(moment)) is not None:
            moment = end
        return moment

    def holds(self, moment: datetime) -> bool:
        """Return True if a moment lies in quiet hours."""
        return self._end(moment) is not None

    def _end(self, moment: datetime) -> datetime | None:
        local = moment.astimezone(self.zone)
        for span in self.spans:
            if within(local.time(), span):
                return self._coming(span[1], moment)
            # In the second pass of an hour, what began in the first one goes on.
            begun = self._coming(span[0], local.replace(fold=0))
            if begun < moment < (end := self._coming(span[1], begun)):
                return end
        return None

    def _coming(self, wall: time, moment: datetime) -> datetime:
        """Return when the local clock next shows a time, or skips it."""
        local = moment.astimezone(self.zone)
        day = local.date() + timedelta(days=local.time() >= wall)
        shown = datetime.combine(day, wall, self.zone)
        # A repeated hour shows each time twice; for a skipped hour, the two come in the
        # reverse order, before it and after it.
        first, second = (shown.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
        if second < first:
            return self._set_forward(second, first)
        return first if first > moment else second

    def _set_forward(self, before: datetime, after: datetime) -> datetime:
        """Return the minute between two moments at which the clock is set forward."""
        offset = after.astimezone(self.zone).utcoffset()
        while before.astimezone(self.zone).utcoffset() != offset:
            before += timedelta(minutes=1)
        return before


def within(wall: time, span: Span) -> bool:
    """Return True if a time of day lies in a span."""
    start, end = span
    if start < end:
        return start <= wall < end
    return wall >= start or wall < end
