"""How far each source was read, and which rows of its overlap window are known.

A long transaction commits a row with an earlier time than rows that were already read.
The rows of a window before the cursor are therefore read again for a while; only those
that were not handed over in the same form go to the host.
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
"""Rows of one source. Others are handed over again, and the host knows their keys."""
MOST_KEPT = 2_000
"""Rows that are also known after a restart: the cursor stays below 30 kB."""
REST_SECONDS = 10.0
"""How long the window is left alone after it was read."""


class RowPosition(Struct, frozen=True):
    """The row read last: its time and id. `at` is the row's `changed_at`.

    Of levels that are read as a whole, `at` is when the reading began. `recent` holds
    the digests of the last rows that were handed over, of DIGEST_BYTES each.
    """

    at: Any
    id: Any
    recent: bytes = b""

    def plain(self) -> list[Any]:
        """Return the place as it is kept."""
        place = [self.at, self.id]
        return [*place, b64encode(self.recent).decode()] if self.recent else place


class SqlCursor(Struct, frozen=True):
    """The place in each source, by its kind."""

    places: dict[str, RowPosition]

    def moved(self, kind: str, place: RowPosition | None) -> SqlCursor:
        """Return the cursor with another place; None forgets it."""
        others = {name: each for name, each in self.places.items() if name != kind}
        return SqlCursor(others if place is None else {**others, kind: place})

    def to_text(self) -> str:
        return to_json({kind: p.plain() for kind, p in sorted(self.places.items())})

    @classmethod
    def from_text(cls, text: str | None) -> SqlCursor:
        """Read the host's text; anything else means from the beginning.

        That is safe: what was taken before has the same keys.
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
    """The window of one source: what was handed over, and when to read it again.

    `clock` returns seconds that never go back.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.seconds = seconds
        self._clock = clock
        self._handed_over: dict[bytes, Any] = {}
        self._read_at: float | None = None
        self._finished: tuple[Any, Any] | None = None

    def resume(self, place: RowPosition) -> None:
        """Take over what the cursor knows, unless more is known already."""
        if not self._handed_over:
            kept = place.recent
            for start in range(0, len(kept), DIGEST_BYTES):
                self._handed_over[kept[start : start + DIGEST_BYTES]] = place.at

    def is_due(self, place: RowPosition) -> bool:
        """Tell whether the window before a place is to be read now."""
        if not self.seconds or (place.at, place.id) == self._finished:
            return False
        read_at = self._read_at
        return read_at is None or self._clock() - read_at >= REST_SECONDS

    def was_read(self, place: RowPosition, *, is_past: bool) -> None:
        """Note that the window was read; `is_past`: nothing can be added to it."""
        self._read_at = self._clock()
        if is_past:
            self._finished = (place.at, place.id)

    def new(self, rows: Sequence[Row]) -> list[Record | Bad]:
        """Return the records of the rows that were not handed over in this form."""
        known = self._handed_over
        return [record for _, record in rows if _digest(record) not in known]

    def remember(self, rows: Sequence[Row], place: RowPosition) -> RowPosition:
        """Note that these rows are handed over; return the place that says so."""
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
        """Forget the oldest rows: those before the window, or beyond the limit."""
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
