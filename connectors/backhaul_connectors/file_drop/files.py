"""Files of a drop folder: names and patterns, fingerprints, temporary copies."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from msgspec import Struct

from backhaul_connectors.file_drop.csv_reader import shown
from backhaul_connectors.file_drop.shipments import OrderIndex
from backhaul_sdk import CheckFailed
from backhaul_sdk.fields import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from backhaul_connectors.file_drop.parsing import FileKind
    from backhaul_connectors.file_drop.settings import Settings


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


_WILD = re.compile(r"[*?]|\[[^]]*\]")
KINDS = ("fulfillments", "cancellations", "stock_deltas", "stock_levels")


def shared(one: Settings, other: Settings, _is_one_store: bool) -> str:
    """Return which files both connections would take; empty if none.

    The store does not matter: orders of two stores may have the same number. Patterns
    are compared by example names, so unusual overlaps may be missed.
    """
    if _place(one) != _place(other):
        return ""
    both = [kind for kind in KINDS if _overlap(one, other, kind)]
    return f"files {getattr(other, both[0])} in {other.path}" if both else ""


def _place(settings: Settings) -> tuple[str, int, str]:
    """Return the folder's host, port and path, with visible links resolved."""
    if settings.sftp_host:
        path = os.path.normpath(settings.path)
        return settings.sftp_host.lower(), settings.sftp_port, path
    return "", 0, os.path.realpath(settings.path)


def _overlap(one: Settings, other: Settings, kind: str) -> bool:
    """Compare with every kind: a file of shipments here may be a count there."""
    mine = getattr(one, kind)
    theirs = [getattr(other, each) for each in KINDS]
    return any(_meet(mine, each) for each in theirs if mine and each)


def _meet(mine: str, theirs: str) -> bool:
    return any(matches(name, theirs) for name in _examples(mine)) or any(
        matches(name, mine) for name in _examples(theirs)
    )


def _examples(pattern: str) -> Iterator[str]:
    """Yield names that match a pattern."""
    for each in alternatives(pattern.lower()):
        yield _WILD.sub("", each)
        yield _WILD.sub("0", each)
