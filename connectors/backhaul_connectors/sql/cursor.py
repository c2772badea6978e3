"""How far each source was read, as the text that the host keeps."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from msgspec import Struct

from backhaul_connectors.sql.values import from_plain, to_json
from backhaul_sdk.reading import UNREADABLE

DIGEST_BYTES = 8


class Place(Struct, frozen=True):
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


class Cursor(Struct, frozen=True):
    """The place in each source, by its kind."""

    places: dict[str, Place]

    def moved(self, kind: str, place: Place | None) -> Cursor:
        """Return the cursor with another place; None forgets it."""
        others = {name: each for name, each in self.places.items() if name != kind}
        return Cursor(others if place is None else {**others, kind: place})

    def to_text(self) -> str:
        return to_json({kind: p.plain() for kind, p in sorted(self.places.items())})

    @classmethod
    def from_text(cls, text: str | None) -> Cursor:
        """Read the host's text; anything else means from the beginning.

        That is safe: what was taken before has the same keys.
        """
        try:
            found = json.loads(text or "{}")
            return cls(
                {
                    str(kind): Place(
                        from_plain(at), from_plain(id_), b64decode("".join(recent))
                    )
                    for kind, (at, id_, *recent) in found.items()
                }
            )
        except UNREADABLE:
            return cls({})
