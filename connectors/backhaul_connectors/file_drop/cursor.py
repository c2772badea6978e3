"""How far each file was taken, as the text that the host keeps."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace

from backhaul_sdk.reading import UNREADABLE

MOST_REMEMBERED = 100
"""Names of stock files; of one that is forgotten every row looks new."""


class Taken(Struct, frozen=True):
    """A file of which `row` of its `rows` data rows were handed over.

    `sha256` and `size` (bytes) are of the whole file, so that one that grew since is
    recognized by its beginning. Rows `by_place` have no other key than where they
    stand. A file that `is_held` was changed behind its first rows; nothing more is
    taken of it.
    """

    name: str = ""
    sha256: str = ""
    size: int = 0
    row: int = 0
    rows: int = 0
    by_place: bool = True
    is_held: bool = False

    @property
    def is_partial(self) -> bool:
        return 0 < self.row < self.rows and not self.is_held


class Cursor(Struct, frozen=True):
    """The file taken last, and those `by_place` of other names, newest first."""

    last: Taken = field(default_factory=Taken)
    earlier: tuple[Taken, ...] = ()

    def of(self, name: str, sha256: str) -> Taken:
        """Return what is known of this content, else of the file last of that name."""
        known = (self.last, *self.earlier)
        same = [each for each in known if each.sha256 == sha256]
        named = [each for each in known if each.name == name]
        return next(iter((*same, *named)), Taken())

    def followed_by(self, taken: Taken) -> Cursor:
        """Return the cursor behind that file; the oldest name may be forgotten."""
        before = (self.last, *self.earlier) if self.last.by_place else self.earlier
        others = [each for each in before if each.name not in ("", taken.name)]
        return Cursor(taken, tuple(others[:MOST_REMEMBERED]))

    def holding(self, known: Taken, name: str, sha256: str, size: int) -> Cursor:
        """Return the cursor when the file became another, of which nothing is taken."""
        held = replace(known, name=name, sha256=sha256, size=size, is_held=True)
        return self.followed_by(held)

    def to_text(self) -> str:
        earlier = [astuple(each) for each in self.earlier]
        return json.dumps({**asdict(self.last), "earlier": earlier})

    @classmethod
    def from_text(cls, text: str | None) -> Cursor:
        """Read the host's text; anything else means from the beginning.

        That is safe where rows have keys of their own: what was taken before has the
        same. Older versions remembered one file only.
        """
        try:
            found = json.loads(text or "{}")
            earlier = found.pop("earlier", ())
            return cls(_taken(**found), tuple(_taken(*each) for each in earlier))
        except UNREADABLE:
            return cls()


def _taken(
    name: Any,
    sha256: Any,
    size: Any,
    row: Any,
    rows: Any,
    by_place: Any = True,
    is_held: Any = False,
) -> Taken:
    numbers = int(size), int(row), int(rows)
    return Taken(str(name), str(sha256), *numbers, bool(by_place), bool(is_held))
