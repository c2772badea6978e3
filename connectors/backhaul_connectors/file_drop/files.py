"""Files of a folder: names, fingerprints, copies, and how far each was imported."""

from __future__ import annotations

import json
import re
import tempfile
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace

from backhaul_connectors.file_drop.csv_reader import shown
from backhaul_connectors.file_drop.shipments import OrderIndex
from backhaul_sdk import CheckFailed
from backhaul_sdk.fields import UNREADABLE, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from backhaul_connectors.file_drop.parsing import FileKind


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


ARCHIVE, HELD, REJECTED = "archive", "held", "rejected"
EXPORTED = "exported"
REASON = ".reason.txt"
"""Suffix of the file that says why another file was held."""
_LEADING_ELSEWHERE = re.compile(r"[/\\\0]")
_CHOICE = re.compile(r"\{([^{}]*)\}")


class FileChanged(Exception):
    """The file is not the one that was found; it is checked again later."""


class FolderUnreachable(CheckFailed):
    """The folder cannot be used now; the text says why and what to do."""


class FileIncomplete(Exception):
    """The writer seems not to have finished the file; the text says why."""


class FileUnreadable(Exception):
    """No row of the file can be used; the text says why and what to do."""


class Fingerprint(Struct, frozen=True):
    """Changes when a file is written to, or another file takes its name.

    `identity` is its inode, if known.
    """

    size: int
    modified_ns: int
    identity: int = 0

    @property
    def dated(self) -> str | None:
        """When the file was last written, RFC 3339; None outside of the calendar."""
        try:
            return rfc3339(datetime.fromtimestamp(self.modified_ns // 1_000 / 1e6, UTC))
        except (ValueError, OverflowError, OSError):
            return None


class ReadableFile(Protocol):
    """A file whose content can be read; `name` is its name in messages."""

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> FileKind: ...

    @property
    def fingerprint(self) -> Fingerprint: ...

    def open(self) -> AbstractContextManager[BinaryIO]:
        """Open the content at its beginning; raises FileChanged."""


class FileCopy(Struct, frozen=True):
    """A file's content in a temporary file without a name."""

    name: str
    form: FileKind
    fingerprint: Fingerprint
    stream: BinaryIO

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        self.stream.seek(0)
        yield self.stream


class FoundFile(Struct, frozen=True):
    """A file in the folder: `file_name` is its exact name there.

    `moved_to` is its place below the folder, if it was moved.
    """

    file_name: str
    form: FileKind
    fingerprint: Fingerprint
    moved_to: str = ""

    @property
    def path(self) -> str:
        return self.moved_to or self.file_name

    @property
    def name(self) -> str:
        return shown(self.file_name)


class FileNames:
    """Classifies file names by the settings.

    `unfinished` are patterns of files that are still written. `done_file` is the name
    of the marker of a complete file: `{name}` is the file's whole name, `{stem}` its
    name without the ending.
    """

    def __init__(
        self, forms: Sequence[FileKind], unfinished: Sequence[str], done_file: str
    ) -> None:
        self.forms = forms
        self._unfinished = unfinished
        self._done_file = done_file
        self._any_marker = done_file.format(name="*", stem="*").lower()

    def form_of(self, name: str) -> FileKind | None:
        """Return what a file of this name holds; None for one that is not for us."""
        # A server may return any name; a slash would lead to another folder.
        if leads_elsewhere(name) or name.startswith("."):
            return None
        if self.is_unfinished(name) or self.is_marker(name):
            return None
        lower = name.lower()
        return next((form for form in self.forms if matches(lower, form.pattern)), None)

    def is_unfinished(self, name: str) -> bool:
        """Tell whether the name is that of a file that is still written."""
        return any(matches(name.lower(), pattern) for pattern in self._unfinished)

    def is_marker(self, name: str) -> bool:
        """Tell whether a file of this name says that another file is complete."""
        return fnmatchcase(name.lower(), self._any_marker)

    def marker_of(self, name: str) -> str:
        """Return the name of the file that says that this one is complete."""
        stem, dot, _ = name.rpartition(".")
        return self._done_file.format(name=name, stem=stem if dot and stem else name)


def leads_elsewhere(name: str) -> bool:
    """Return True if the name could be a file in another folder."""
    return _LEADING_ELSEWHERE.search(name) is not None


def matches(lower: str, pattern: str) -> bool:
    """Return True if the name fits; `{csv,xlsx}` in a pattern is either of them."""
    return any(fnmatchcase(lower, each.lower()) for each in alternatives(pattern))


def alternatives(pattern: str) -> Iterator[str]:
    """Yield the patterns of a pattern with choices, each without a choice."""
    choice = _CHOICE.search(pattern)
    if choice is None:
        yield pattern
        return
    before, after = pattern[: choice.start()], pattern[choice.end() :]
    for each in choice[1].split(","):
        yield from alternatives(f"{before}{each}{after}")


def free_name(name: str, number: int) -> str:
    """Return the name for the copy of that number: `courier-2.csv`."""
    if number == 1:
        return name
    stem, dot, ending = name.rpartition(".")
    return f"{stem}-{number}.{ending}" if dot and stem else f"{name}-{number}"


def unfinished_name(name: str) -> str:
    """Return the name of a file while it is written; no reader takes it."""
    return f".{name}.tmp"


def own_folders(exports: str) -> tuple[str, ...]:
    """Return the folders that we create; those for exports only if configured."""
    return (ARCHIVE, HELD, REJECTED, *((exports, EXPORTED) if exports else ()))


class TemporaryCopies:
    """The temporary files without a name for one file."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def make(self) -> BinaryIO:
        """Return an empty file that no other program can open."""
        stream = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - see close
        return cast("BinaryIO", self._stack.enter_context(stream))

    def index_orders(self) -> OrderIndex:
        """Return an empty index of the rows of a file of shipments."""
        return OrderIndex(self.make(), self.make())

    def close(self) -> None:
        self._stack.close()
