"""Follows the changes of commands, quarantine, events and deliveries for a stream."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.read_records import RecentChange

ROWS = 500
"""The rows of each table that one poll reads."""
LATE_SECONDS = 10.0
"""Numbers of PostgreSQL appear out of order for as long as a transaction lasts."""
OPEN_SECONDS = 600.0
"""How long the place waits for a row that is open, such as a request under way."""
MOST_STATES = 20_000


class Change(Struct, frozen=True):
    """A command, a row in quarantine, an event or a delivery, and its new state."""

    type: str
    id: str
    state: str
    store: str


class Follower:
    """Turns rows behind a place into changes, each state of an object once.

    A row stays behind the place until it is closed, and old enough that no row with a
    lower number appears any more. So a stream that goes on at the place misses nothing,
    and repeats the last seconds.
    """

    def __init__(self, places: Mapping[str, int]) -> None:
        self.places = dict(places)
        self._seen: dict[tuple[str, int], float] = {}
        self._states: OrderedDict[tuple[str, str], str] = OrderedDict()

    def take(
        self, found: Mapping[str, Sequence[RecentChange]], now: float
    ) -> list[Change]:
        """Return the changes among the rows, and move the place."""
        changes = [
            Change(row.type, row.id, row.state, row.store)
            for rows in found.values()
            for row in rows
            if row.type and self._is_new(row)
        ]
        for source, rows in found.items():
            self._move(source, rows, now)
        return changes

    def _is_new(self, row: RecentChange) -> bool:
        key = (row.type, row.id)
        known = self._states.pop(key, None)
        self._states[key] = row.state
        while len(self._states) > MOST_STATES:
            self._states.popitem(last=False)
        return known != row.state

    def _move(self, source: str, rows: Sequence[RecentChange], now: float) -> None:
        """Move the place behind the rows that need not be read again."""
        ages = [now - self._seen.setdefault((source, r.number), now) for r in rows]
        passed = ROWS // 2 if len(rows) >= ROWS else 0  # or a backlog would end it
        for place, (row, age) in enumerate(zip(rows, ages, strict=True)):
            is_over = age >= (OPEN_SECONDS if row.is_open else LATE_SECONDS)
            if not is_over and place >= passed:
                break
            self.places[source] = row.number
        for key in [k for k in self._seen if k[1] <= self.places[k[0]]]:
            del self._seen[key]

    @property
    def id(self) -> str:
        """Return the place as the id of an event."""
        return ".".join(str(number) for number in self.places.values())
