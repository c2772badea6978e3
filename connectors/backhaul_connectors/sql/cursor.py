"""How far each source was read, as the text that the host keeps."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from backhaul_connectors.sql.values import from_plain, to_json
from backhaul_sdk.reading import UNREADABLE


class Place(Struct, frozen=True):
    """The row read last: its time and id. `at` is the row's `changed_at`.

    Of levels that are read as a whole, `at` is when the reading began.
    """

    at: Any
    id: Any


class Cursor(Struct, frozen=True):
    """The place in each source, by its kind."""

    places: dict[str, Place]

    def moved(self, kind: str, place: Place | None) -> Cursor:
        """Return the cursor with another place; None forgets it."""
        others = {name: each for name, each in self.places.items() if name != kind}
        return Cursor(others if place is None else {**others, kind: place})

    def to_text(self) -> str:
        return to_json({kind: [p.at, p.id] for kind, p in sorted(self.places.items())})

    @classmethod
    def from_text(cls, text: str | None) -> Cursor:
        """Read the host's text; anything else means from the beginning.

        That is safe: what was taken before has the same keys.
        """
        try:
            found = json.loads(text or "{}")
            return cls(
                {
                    str(kind): Place(from_plain(at), from_plain(id_))
                    for kind, (at, id_) in found.items()
                }
            )
        except UNREADABLE:
            return cls({})
