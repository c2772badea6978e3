"""Keeps how far each file was imported, as the text that the host stores."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace

from backhaul_sdk.fields import UNREADABLE

MOST_REMEMBERED = 100
"""Most names of stock files; every row of a file beyond that looks new."""
MOST_CONTENTS = 4_000
"""Digests of stock files without key columns that are recognized under any name: two
of each file, of its bytes and of what its rows say."""
DIGEST_LETTERS = 10
"""Hex digits that are kept of each: 40 bits do not meet by chance among so many."""
MOST_WATCHED = 50
"""Most archived files that are checked for growth."""


class ImportedFile(Struct, frozen=True):
    """A file of which `row` of its `rows` data rows were submitted.

    `sha256` and `size` (bytes) are of the whole file, so that a file that has grown is
    recognized by its beginning. Rows `by_place` have no key but their position. A file
    that `is_held` was changed after its first rows; nothing more of it is imported.
    `salt` is part of the row keys of a file that was applied although its content was
    imported before. `cells` is a digest of the rows' content.
    """

    name: str = ""
    sha256: str = ""
    size: int = 0
    row: int = 0
    rows: int = 0
    by_place: bool = True
    is_held: bool = False
    salt: str = ""
    at: str = ""
    cells: str = ""

    @property
    def is_partial(self) -> bool:
        return 0 < self.row < self.rows and not self.is_held


class ArchivedFile(Struct, frozen=True):
    """A file in the archive, as it was when its last row was imported.

    `stored_as` is its name there, `name` its original name, `kind` the kind of its
    form. `sha256` and `size` (bytes) are of its content alone.
    """

    name: str
    stored_as: str
    kind: str
    sha256: str
    size: int
    modified_ns: int
    rows: int


class FileCursor(Struct, frozen=True):
    """The file imported last, and those `by_place` of other names, newest first.

    `contents` are short digests of the contents imported `by_place`, joined, newest
    first. `watched` are the files that were archived last, newest first.
    """

    last: ImportedFile = field(default_factory=ImportedFile)
    earlier: tuple[ImportedFile, ...] = ()
    contents: str = ""
    watched: tuple[ArchivedFile, ...] = ()

    def of(self, name: str, sha256: str) -> ImportedFile:
        """Return the file with this content, else the last one of that name."""
        known = self._known()
        same = [each for each in known if each.sha256 == sha256]
        same.sort(key=lambda each: each.name != name)
        named = [each for each in known if each.name == name]
        return next(iter((*same, *named)), ImportedFile())

    def saying(self, cells: str, name: str) -> ImportedFile:
        """Return the file with the same rows; one of that name comes first."""
        same = [each for each in self._known() if each.cells == cells != ""]
        same.sort(key=lambda each: each.name != name)
        return next(iter(same), ImportedFile())

    def has_content(self, sha256: str) -> bool:
        """Return True if this content was imported `by_place`, under any name."""
        digest = sha256[:DIGEST_LETTERS]
        each = range(0, len(self.contents), DIGEST_LETTERS)
        return any(self.contents.startswith(digest, at) for at in each)

    def followed_by(self, taken: ImportedFile) -> FileCursor:
        """Return the cursor after that file; the oldest name may be dropped."""
        before = (self.last, *self.earlier) if self.last.by_place else self.earlier
        others = [each for each in before if each.name not in ("", taken.name)]
        contents = self.contents
        if taken.by_place:
            both = dict.fromkeys((taken.sha256, taken.cells))
            new = [each for each in both if each and not self.has_content(each)]
            contents = "".join(each[:DIGEST_LETTERS] for each in new) + contents
        return FileCursor(
            taken,
            tuple(others[:MOST_REMEMBERED]),
            contents[: MOST_CONTENTS * DIGEST_LETTERS],
            self.watched,
        )

    def holding(
        self, known: ImportedFile, name: str, sha256: str, size: int
    ) -> FileCursor:
        """Return the cursor after the file changed; nothing of it is imported."""
        held = replace(known, name=name, sha256=sha256, size=size, is_held=True)
        return self.followed_by(held)

    def watching(self, archived: ArchivedFile) -> FileCursor:
        """Return the cursor with an archived file; the oldest is dropped."""
        others = [w for w in self.watched if w.stored_as != archived.stored_as]
        return replace(self, watched=(archived, *others[: MOST_WATCHED - 1]))

    def to_text(self) -> str:
        return json.dumps(
            {
                **asdict(self.last),
                "earlier": [astuple(each) for each in self.earlier],
                "contents": self.contents,
                "watched": [astuple(each) for each in self.watched],
            }
        )

    @classmethod
    def from_text(cls, text: str | None) -> FileCursor:
        """Parse the host's text; invalid text means from the beginning.

        That is safe if rows have keys of their own: they are the same. Older versions
        remembered one file only.
        """
        try:
            found = json.loads(text or "{}")
            earlier = found.pop("earlier", ())
            contents = str(found.pop("contents", ""))
            watched = tuple(_watched(*each) for each in found.pop("watched", ()))
            return cls(
                _taken(**found),
                tuple(_taken(*each) for each in earlier),
                contents,
                watched,
            )
        except UNREADABLE:
            return cls()

    def _known(self) -> tuple[ImportedFile, ...]:
        return (self.last, *self.earlier)


def _taken(
    name: Any,
    sha256: Any,
    size: Any,
    row: Any,
    rows: Any,
    by_place: Any = True,
    is_held: Any = False,
    salt: Any = "",
    at: Any = "",
    cells: Any = "",
) -> ImportedFile:
    numbers = int(size), int(row), int(rows)
    flags = bool(by_place), bool(is_held)
    texts = str(salt), str(at), str(cells)
    return ImportedFile(str(name), str(sha256), *numbers, *flags, *texts)


def _watched(
    name: Any,
    stored_as: Any,
    kind: Any,
    sha256: Any,
    size: Any,
    modified_ns: Any,
    rows: Any,
) -> ArchivedFile:
    numbers = int(size), int(modified_ns), int(rows)
    return ArchivedFile(str(name), str(stored_as), str(kind), str(sha256), *numbers)
