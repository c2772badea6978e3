"""The drop folder: what every folder can do, and which entries are not read."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct, field

from backhaul_connectors.file_drop.csv_reader import shown
from backhaul_connectors.file_drop.files import (
    Fingerprint,
    FoundFile,
    leads_elsewhere,
    unfinished_name,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )

    from backhaul_connectors.file_drop.files import (
        FileNames,
        ReadableFile,
        TemporaryCopies,
    )


STRAY_SECONDS, UNFINISHED_SECONDS = 60.0, 3_600.0
"""How long an entry exists before it is reported."""
MOST_NAMED = 3
"""Most names in one sentence; it gives the number of the others."""
NO_PATTERN = (
    "no pattern matches this name. Rename the file, or set a pattern for it "
    "(fulfillments, cancellations, stock_deltas or stock_levels)"
)
EMPTY = "the file is empty. Write it again, or delete it"
UNFINISHED = (
    "the name says that the file is not complete yet. If its upload failed, upload it "
    "again. If it is complete, rename it"
)
ELSEWHERE = "the name has a slash, a backslash or a NUL character. Rename the file"
_NOT_FILES = (
    (stat.S_ISLNK, "a link is never followed. Put the file itself into the folder"),
    (
        stat.S_ISDIR,
        "folders are not read. Move the files of the folder into the drop folder",
    ),
    (stat.S_ISFIFO, "a named pipe is never opened. Write a file, and remove the pipe"),
    (stat.S_ISSOCK, "a socket is never opened. Remove it from the drop folder"),
    (stat.S_ISBLK, "a device is never opened. Remove it from the drop folder"),
    (stat.S_ISCHR, "a device is never opened. Remove it from the drop folder"),
)
_UNKNOWN = "the server does not say that this is a file. Put a regular file there"


class FolderEntry(NamedTuple):
    """One name in the folder; `mode` is its st_mode, which gives its type."""

    name: str
    mode: int
    fingerprint: Fingerprint


class IgnoredEntry(NamedTuple):
    """An entry that is not read; `why` says why, and what to do."""

    name: str
    why: str
    modified_ns: int


class FolderListing(Struct, frozen=True):
    """One listing of the folder; `modified` has the time of every regular file."""

    found: Sequence[FoundFile] = ()
    modified: dict[str, int] = field(default_factory=dict)
    strays: Sequence[IgnoredEntry] = ()


def listed(
    entries: Iterable[FolderEntry], names: FileNames, own_folders: Collection[str]
) -> FolderListing:
    """Classify the entries of the folder; names with a leading dot are left out."""
    listing = FolderListing([], {}, [])
    found, strays = list[FoundFile](), list[IgnoredEntry]()
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if stat.S_ISREG(entry.mode):
            listing.modified[entry.name] = entry.fingerprint.modified_ns
        form = names.form_of(entry.name)
        if why := _why_left(entry, names, own_folders):
            strays.append(IgnoredEntry(entry.name, why, entry.fingerprint.modified_ns))
        elif form is not None:
            found.append(FoundFile(entry.name, form, entry.fingerprint))
    return FolderListing(found, listing.modified, strays)


def _why_left(
    entry: FolderEntry, names: FileNames, own_folders: Collection[str]
) -> str:
    """Return why an entry is not read; empty for a file to read or our own."""
    if not stat.S_ISREG(entry.mode):
        ours = stat.S_ISDIR(entry.mode) and entry.name in own_folders
        return "" if ours else _kind(entry.mode)
    if leads_elsewhere(entry.name):
        return ELSEWHERE
    if names.is_marker(entry.name):
        return ""
    if names.is_unfinished(entry.name):
        return UNFINISHED
    if names.form_of(entry.name) is None:
        return NO_PATTERN
    # The writer of an empty file has not started.
    return "" if entry.fingerprint.size else EMPTY


def _kind(mode: int) -> str:
    return next((why for is_kind, why in _NOT_FILES if is_kind(mode)), _UNKNOWN)


def sentences(strays: Iterable[IgnoredEntry]) -> list[str]:
    """Return one sentence for each reason, with the names of the first entries."""
    by_reason: dict[str, list[str]] = {}
    for stray in sorted(strays):
        by_reason.setdefault(stray.why, []).append(repr(shown(stray.name)))
    return [f"{_named(names)} not read: {why}" for why, names in by_reason.items()]


def _named(names: Sequence[str]) -> str:
    first, more = ", ".join(names[:MOST_NAMED]), len(names) - MOST_NAMED
    if more > 0:
        return f"{first} and {more} more are"
    return f"{first} {'is' if len(names) == 1 else 'are'}"


class IgnoredEntries:
    """The notices about entries that are not read; `clock` never goes back.

    Programs use temporary names while they write, so a new entry is not reported at
    once.
    """

    shown: Sequence[IgnoredEntry] = ()

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[tuple[str, str], float] = {}

    def note(self, strays: Sequence[IgnoredEntry]) -> None:
        """Record a listing; report the entries that have existed for a while."""
        now = self._clock()
        keys = {(stray.name, stray.why) for stray in strays}
        self._since = {key: self._since.get(key, now) for key in keys}
        self.shown = [
            stray
            for stray in strays
            if now - self._since[stray.name, stray.why] >= _patience(stray)
        ]

    def note_once(self, strays: Sequence[IgnoredEntry], wall_seconds: float) -> None:
        """Report the entries of a single listing: unfinished files only if old."""
        self.shown = [
            stray
            for stray in strays
            if stray.why not in (EMPTY, UNFINISHED)
            or wall_seconds - stray.modified_ns / 1e9 >= _patience(stray)
        ]


def _patience(stray: IgnoredEntry) -> float:
    return UNFINISHED_SECONDS if stray.why == UNFINISHED else STRAY_SECONDS


class DropFolder(Protocol):
    """A drop folder. Any error that is not documented means that it is down."""

    failures: tuple[type[Exception], ...]
    """The exceptions that mean that the folder itself is down."""
    is_atomic: bool
    """Whether a file appears complete, and nobody can write to it afterwards."""

    def notices(self) -> Sequence[str]:
        """Return what an operator should know, one sentence each."""

    async def check(self) -> None:
        """Raise CheckFailed if the folder cannot be used. Changes nothing."""

    async def open(self) -> None:
        """Connect, and create the folders that files are moved to."""

    async def close(self) -> None:
        """Release everything. Safe to call twice."""

    async def listing(self) -> FolderListing:
        """Return the entries of the folder."""

    async def status(self, folder: str, name: str) -> Fingerprint | None:
        """Return the fingerprint of a regular file; None if there is none."""

    async def files(self, folder: str) -> Mapping[str, Fingerprint]:
        """Return the regular files in one of our own folders."""

    async def fetch(self, file: FoundFile, copies: TemporaryCopies) -> ReadableFile:
        """Return the file or a copy of it.

        May raise FileChanged, and FileUnreadable if it cannot be decoded.
        """

    async def begin(self, file: FoundFile) -> None:
        """Prepare to submit the fetched file's first row. May raise FileChanged."""

    async def free_name(self, folder: str, file: FoundFile) -> str:
        """Return the first unused name for the file in the folder."""

    async def archive(self, file: FoundFile, name: str) -> None:
        """Move an imported file to `archive/name`, or an unused name beside it.

        Does nothing if that was done before.
        """

    async def hold(self, file: FoundFile, reason: str) -> None:
        """Move a file to held/ unchanged, with the reason beside it."""

    async def read(self, folder: str, name: str) -> bytes | None:
        """Return a file's content; None if there is no such file."""

    async def write(self, folder: str, name: str, content: bytes) -> None:
        """Write a file atomically, replacing an older one."""


class ExportFolder(DropFolder, Protocol):
    """A drop folder to which change notifications can be written."""

    async def put(self, folder: str, name: str, content: bytes) -> None:
        """Write a temporary file durably."""

    async def publish(self, folder: str, name: str) -> None:
        """Rename the temporary file to its final name."""

    async def exists(self, folder: str, name: str) -> bool:
        """Return True if a file exists; raises if that cannot be determined."""

    async def was_published(self, folder: str, name: str) -> bool | None:
        """Return whether the temporary file is gone; None if that is unknown."""


class RenamingFolder:
    """What is common to folders in which a rename is one step, and that one daemon
    reads.
    """

    is_atomic = False

    def notices(self) -> Sequence[str]:
        return ()

    async def begin(self, file: FoundFile) -> None:
        return None

    async def exists(self, folder: str, name: str) -> bool:
        raise NotImplementedError

    async def was_published(self, folder: str, name: str) -> bool | None:
        return not await self.exists(folder, unfinished_name(name))
