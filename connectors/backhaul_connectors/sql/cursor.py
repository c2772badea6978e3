"""Keeps how far each source was read, and the known rows of its overlap window.

A long transaction commits a row with an earlier time than rows that were already read.
The rows of a window before the cursor are therefore read again for a while; only new or
changed rows go to the host.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul_connectors.sql.values import earlier, from_plain, to_json
from backhaul_sdk.fields import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul_sdk import Bad, Record

    Row: TypeAlias = tuple[Any, Record | Bad]


DIGEST_BYTES = 8
MOST_REMEMBERED = 50_000
"""Remembered rows of one source. Other rows are submitted again, and the host ignores
their keys."""
MOST_KEPT = 2_000
"""Rows that are remembered after a restart: the cursor stays below 30 kB."""
REST_SECONDS = 10.0
"""The pause between two readings of the window."""


class RowPosition(Struct, frozen=True):
    """The row read last: its time and id.

    `at` is the row's `changed_at`; for a full stock list it is when the reading began.
    `recent` holds the digests of the last submitted rows, DIGEST_BYTES each.
    """

    at: Any
    id: Any
    recent: bytes = b""

    def plain(self) -> list[Any]:
        """Return the position in its stored form."""
        place = [self.at, self.id]
        return [*place, b64encode(self.recent).decode()] if self.recent else place


class SqlCursor(Struct, frozen=True):
    """The position in each source, by its kind."""

    places: dict[str, RowPosition]

    def moved(self, kind: str, place: RowPosition | None) -> SqlCursor:
        """Return the cursor with another position; None removes it."""
        others = {name: each for name, each in self.places.items() if name != kind}
        return SqlCursor(others if place is None else {**others, kind: place})

    def to_text(self) -> str:
        return to_json({kind: p.plain() for kind, p in sorted(self.places.items())})

    @classmethod
    def from_text(cls, text: str | None) -> SqlCursor:
        """Parse the host's text; invalid text means from the beginning.

        That is safe: rows that were read before have the same keys.
        """
        try:
            found = json.loads(text or "{}")
            return cls(
                {
                    str(kind): RowPosition(
                        from_plain(at), from_plain(id_), b64decode("".join(recent))
                    )
                    for kind, (at, id_, *recent) in found.items()
                }
            )
        except UNREADABLE:
            return cls({})


class OverlapWindow:
    """The window of one source: the submitted rows, and when to read it again.

    `clock` returns seconds that never go back.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.seconds = seconds
        self._clock = clock
        self._handed_over: dict[bytes, Any] = {}
        self._read_at: float | None = None
        self._finished: tuple[Any, Any] | None = None

    def resume(self, place: RowPosition) -> None:
        """Restore the rows of the cursor, unless more rows are known already."""
        if not self._handed_over:
            kept = place.recent
            for start in range(0, len(kept), DIGEST_BYTES):
                self._handed_over[kept[start : start + DIGEST_BYTES]] = place.at

    def is_due(self, place: RowPosition) -> bool:
        """Return True if the window before a position should be read now."""
        if not self.seconds or (place.at, place.id) == self._finished:
            return False
        read_at = self._read_at
        return read_at is None or self._clock() - read_at >= REST_SECONDS

    def was_read(self, place: RowPosition, *, is_past: bool) -> None:
        """Record that the window was read; `is_past`: no row can be added to it."""
        self._read_at = self._clock()
        if is_past:
            self._finished = (place.at, place.id)

    def new(self, rows: Sequence[Row]) -> list[Record | Bad]:
        """Return the records of new or changed rows."""
        known = self._handed_over
        return [record for _, record in rows if _digest(record) not in known]

    def remember(self, rows: Sequence[Row], place: RowPosition) -> RowPosition:
        """Record submitted rows; return the position that includes them."""
        if not self.seconds:
            return place
        for at, record in rows:
            digest = _digest(record)
            self._handed_over.pop(digest, None)
            self._handed_over[digest] = at
        start = earlier(place.at, self.seconds)
        self._drop_old(start)
        last = islice(reversed(self._handed_over.items()), MOST_KEPT)
        recent = [digest for digest, at in last if not _is_before(at, start)]
        return RowPosition(place.at, place.id, b"".join(reversed(recent)))

    def _drop_old(self, start: Any) -> None:
        """Drop the oldest rows: those before the window, or beyond the limit."""
        while self._handed_over:
            digest, at = next(iter(self._handed_over.items()))
            if len(self._handed_over) <= MOST_REMEMBERED and not _is_before(at, start):
                return
            del self._handed_over[digest]


def _is_before(at: Any, start: Any) -> bool:
    try:
        return start is not None and bool(at < start)
    except TypeError:  # a column of SQLite holds values of several kinds
        return False


def _digest(record: Record | Bad) -> bytes:
    text = f"{type(record).__name__}\0{record.key}\0{record.raw}"
    data = text.encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
