"""Checks that a file is complete: its end, age and marker, and growth once archived.

A writer that pauses leaves a file whose size and time do not change. Such a file lacks
its end: the line end of its last row, the closing bracket of a JSON array, or the end
record of an archive (an XLSX file is an archive).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from backhaul_connectors.file_drop.csv_reader import END_OF_FILE
from backhaul_connectors.file_drop.edi.syntax import (
    HEAD_BYTES,
    TAIL_BYTES,
    has_trailer,
    syntax_of,
)
from backhaul_connectors.file_drop.files import ARCHIVE, FileIncomplete, FoundFile
from backhaul_connectors.file_drop.folder import FolderListing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from backhaul_connectors.file_drop.files import (
        ArchivedFile,
        FileCursor,
        FileNames,
        Fingerprint,
        ReadableFile,
    )
    from backhaul_connectors.file_drop.folder import DropFolder
    from backhaul_connectors.file_drop.parsing import FileKind
    from backhaul_connectors.file_drop.settings import Settings


JSON = (".json", ".jsonl", ".ndjson")
ZIP = b"PK\x03\x04"
_END_MARK = b"PK\x05\x06"
_END = struct.Struct("<4s4H2LH")
_LONGEST_COMMENT = 65_535
_ELSEWHERE = 0xFFFFFFFF
"""Stands for a number that only the larger kind of end record holds."""
LINE_ENDS = (b"\n", b"\r", b"\n\0", b"\r\0", b"\n\0\0\0")
"""What the last byte, or letter of UTF-16 or UTF-32, of a row is."""
_TEXT_TAIL = 64
"""Blanks at the end of a JSON array are passed over; there are no more than these."""
UNDECLARED_SECONDS = 600.0
"""A file that waits this long for its marker is reported: the marker was probably
forgotten."""
SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 600.0
"""The interval of checks of a file: doubled each time that it has not changed."""
NOTICE_SECONDS = 3_600.0
"""How long a notice about a file that grew is shown."""


def check_end(file: ReadableFile) -> None:
    """Raise FileIncomplete if the file has no end; FileChanged as `open` does."""
    with file.open() as stream:
        head = stream.read(HEAD_BYTES)
        size = file.fingerprint.size
        is_archive = head.startswith(ZIP)
        is_edi = syntax_of(head) is not None
        length = TAIL_BYTES if is_edi else 0
        tail = _tail(
            stream, size, _LONGEST_COMMENT + _END.size if is_archive else length
        )
    if is_archive:
        problem = "" if has_end_record(tail, size) else "its end record is missing"
    elif is_edi:
        is_whole = has_trailer(head, tail)
        problem = "" if is_whole else "the last segment of its interchange is missing"
    elif _is_array(file, head):
        is_closed = _plain(tail).endswith(b"]")
        problem = "" if is_closed else "its last bracket is missing"
    else:
        is_ended = tail.rstrip(END_OF_FILE).endswith(LINE_ENDS)
        problem = "" if is_ended else "its last line has no line end"
    if problem:
        raise FileIncomplete(problem)


def _is_array(file: ReadableFile, head: bytes) -> bool:
    is_json = file.name.lower().endswith(JSON)
    return is_json and _plain(head).startswith(b"[")


def _plain(text: bytes) -> bytes:
    """Return the text without marks, blanks and the zero bytes of UTF-16."""
    return text.replace(b"\0", b"").strip(b"\xef\xbb\xbf\xff\xfe \t\r\n")


def _tail(stream: BinaryIO, size: int, length: int) -> bytes:
    stream.seek(max(size - max(length, _TEXT_TAIL), 0))
    return stream.read()


def has_end_record(tail: bytes, size: int) -> bool:
    """Return True if a ZIP archive of `size` bytes ends with its own end record.

    A file inside the archive may be an archive too: its end record does not fit its
    place in the outer archive.
    """
    at = tail.rfind(_END_MARK)
    while at >= 0:
        if _fits(tail, at, size):
            return True
        at = tail.rfind(_END_MARK, 0, at)
    return False


def _fits(tail: bytes, at: int, size: int) -> bool:
    if len(tail) - at < _END.size:
        return False
    *_, directory_size, directory_start, comment = _END.unpack_from(tail, at)
    if at + _END.size + comment != len(tail):
        return False
    if _ELSEWHERE in (directory_size, directory_start):
        return True
    return bool(directory_start + directory_size == size - _END.size - comment)


class SeenFile(Struct):
    """A file in the last listing: unchanged `since`, in seconds of the clock.

    A file that `looks_cut` was read, and its end was missing.
    """

    fingerprint: Fingerprint
    since: float
    looks_cut: bool = False
    is_declared: bool = False


class StabilityTracker:
    """Remembers since when each file has not changed.

    `clock` returns seconds that never go back. If the folder `is_atomic`, no file needs
    to wait.
    """

    undeclared: Sequence[FoundFile] = ()
    """What the last look found to wait for its marker for so long."""

    def __init__(
        self,
        settings: Settings,
        names: FileNames,
        clock: Callable[[], float],
        *,
        require_done_file: bool,
        is_atomic: bool,
    ) -> None:
        unchanged = 0.0 if is_atomic else settings.unchanged_seconds
        incomplete = 0.0 if is_atomic else settings.incomplete_seconds
        self._unchanged_seconds = unchanged
        self._incomplete_seconds = max(incomplete, unchanged)
        self._require_done_file = require_done_file
        self._names = names
        self._clock = clock
        self._seen: dict[str, SeenFile] = {}

    def ready(self, listing: FolderListing, first: str) -> list[FoundFile]:
        """Return the files that may be read: `first` first, then the oldest."""
        names = {file.path for file in listing.found}
        self._seen = {n: seen for n, seen in self._seen.items() if n in names}
        for file in listing.found:
            self._note(file, listing)
        ready = [file for file in listing.found if self._may_be_read(file)]
        self.undeclared = [file for file in listing.found if self._lacks_marker(file)]
        return sorted(
            ready,
            key=lambda file: (
                file.name != first,
                file.fingerprint.modified_ns,
                file.name,
            ),
        )

    def is_sure(self, file: FoundFile) -> bool:
        """Return True if the file is complete even if its end is missing."""
        seen = self._seen.get(file.path)
        if seen is None or seen.fingerprint != file.fingerprint:
            return False
        return seen.is_declared or self._waited(seen) >= self._incomplete_seconds

    def wait_longer(self, file: FoundFile) -> None:
        """Delay a file without an end, until it changes or has waited long."""
        seen = self._seen.get(file.path)
        if seen is not None and seen.fingerprint == file.fingerprint:
            seen.looks_cut = True

    def remove(self, file: FoundFile) -> None:
        """Remove a file that was moved away."""
        self._seen.pop(file.path, None)

    def _note(self, file: FoundFile, listing: FolderListing) -> None:
        # An older marker belongs to the previous file of this name.
        marked = listing.modified.get(self._names.marker_of(file.file_name), -1)
        declared = marked >= file.fingerprint.modified_ns
        seen = self._seen.get(file.path)
        if seen is None or seen.fingerprint != file.fingerprint:
            seen = self._seen[file.path] = SeenFile(file.fingerprint, self._clock())
        seen.is_declared = declared

    def _may_be_read(self, file: FoundFile) -> bool:
        seen = self._seen[file.path]
        if seen.is_declared:
            return True
        if self._require_done_file:
            return False
        wait = self._incomplete_seconds if seen.looks_cut else self._unchanged_seconds
        return self._waited(seen) >= wait

    def _lacks_marker(self, file: FoundFile) -> bool:
        seen = self._seen[file.path]
        waits = self._require_done_file and not seen.is_declared
        return waits and self._waited(seen) >= UNDECLARED_SECONDS

    def _waited(self, seen: SeenFile) -> float:
        return self._clock() - seen.since


class GrownFile(NamedTuple):
    """A file in the archive that has changed and may be read now."""

    before: ArchivedFile
    file: FoundFile


class ArchiveWatcher:
    """Checks the archived files of a cursor, each at times of its own.

    `clock` returns seconds that never go back. `stability` says when a changed file may
    be read; it is for archived files alone.
    """

    def __init__(
        self,
        place: DropFolder,
        forms: Sequence[FileKind],
        stability: StabilityTracker,
        clock: Callable[[], float],
    ) -> None:
        self._place = place
        self._forms = {form.kind: form for form in forms}
        self.stability = stability
        self._clock = clock
        self._due: dict[str, tuple[float, float]] = {}
        self._said: dict[str, float] = {}

    async def grown(self, cursor: FileCursor) -> list[GrownFile]:
        """Return the archived files that changed and are stable by now."""
        if self._place.is_atomic:
            return []
        names = {watched.stored_as for watched in cursor.watched}
        self._due = {name: due for name, due in self._due.items() if name in names}
        changed = [each for w in cursor.watched if (each := await self._changed(w))]
        ready = self.stability.ready(FolderListing([each.file for each in changed]), "")
        by_path = {each.file.path: each for each in changed}
        return [by_path[file.path] for file in ready]

    def notices(self) -> list[str]:
        """Return the notices about files that grew during the last hour."""
        now = self._clock()
        self._said = {
            n: at for n, at in self._said.items() if now - at < NOTICE_SECONDS
        }
        return list(self._said)

    def add_notice(self, notice: str) -> None:
        """Show a notice for an hour."""
        self._said[notice] = self._clock()

    async def _changed(self, watched: ArchivedFile) -> GrownFile | None:
        now = self._clock()
        due, interval = self._due.get(watched.stored_as, (now, SHORTEST_SECONDS))
        form = self._forms.get(watched.kind)
        if form is None or now < due:
            return None
        found = await self._place.status(ARCHIVE, watched.stored_as)
        if found is None or _is_as_before(watched, found):
            following = min(interval * 2, LONGEST_SECONDS)
            self._due[watched.stored_as] = (now + interval, following)
            return None
        self._due[watched.stored_as] = (now, SHORTEST_SECONDS)
        path = f"{ARCHIVE}/{watched.stored_as}"
        return GrownFile(watched, FoundFile(watched.name, form, found, path))


def _is_as_before(watched: ArchivedFile, found: Fingerprint) -> bool:
    seen = (found.size, found.modified_ns)
    return seen == (watched.size, watched.modified_ns)
