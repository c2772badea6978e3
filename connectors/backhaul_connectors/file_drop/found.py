"""A file that was found, wherever it lies, and what can be wrong with it."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Protocol

from msgspec import Struct

from backhaul_connectors.file_drop.csv_rows import shown
from backhaul_sdk import CheckFailed
from backhaul_sdk.reading import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from backhaul_connectors.file_drop.parsing import Form


class Changed(Exception):
    """The file is not the one that was found; it is looked at again later."""


class Unreachable(CheckFailed):
    """The folder cannot be worked with now; the text says why and what to do."""


class Incomplete(Exception):
    """The file looks as if its writer has not finished; the text says why."""


class Unreadable(Exception):
    """No row of the file can be used; the text says why and what to do."""


class Fingerprint(Struct, frozen=True):
    """What changes when a file is written to, or another takes its name.

    `identity` is its inode, where that can be known.
    """

    size: int
    modified_ns: int
    identity: int = 0

    @property
    def dated(self) -> str | None:
        """When the file was written last, RFC 3339; None outside of the calendar."""
        try:
            return rfc3339(datetime.fromtimestamp(self.modified_ns // 1_000 / 1e6, UTC))
        except (ValueError, OverflowError, OSError):
            return None


class Source(Protocol):
    """A file whose content can be read; `name` is what people are told."""

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> Form: ...

    @property
    def fingerprint(self) -> Fingerprint: ...

    def open(self) -> AbstractContextManager[BinaryIO]:
        """Open the content at its beginning; `Changed` if it is no longer that."""


class Copy(Struct, frozen=True):
    """A file's content in a nameless file of ours."""

    name: str
    form: Form
    fingerprint: Fingerprint
    stream: BinaryIO

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        self.stream.seek(0)
        yield self.stream


class Found(Struct, frozen=True):
    """A file that is there: `file_name` is its name in the folder, as it is.

    `moved_to` is where it lies below the folder, where that is no longer its name.
    """

    file_name: str
    form: Form
    fingerprint: Fingerprint
    moved_to: str = ""

    @property
    def path(self) -> str:
        return self.moved_to or self.file_name

    @property
    def name(self) -> str:
        return shown(self.file_name)
