"""Recognizes what was imported before: rows to skip, and files of equal content.

A file that grew after rows of it were imported continues after them. If its last row
had no line end then, that row may have been incomplete: the completed row is not
imported a second time, and an operator decides.

Rows of stock changes without key columns have no key but their position in their file.
A file of the same name and content is therefore the same event. A file of another name
may be a copy or a second event: two days with the same write-off look the same. An
operator decides, unless `same_content` decides for every file.
"""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.file_drop.completeness import LINE_ENDS
from backhaul_connectors.file_drop.csv_reader import key_of
from backhaul_connectors.file_drop.files import FileCopy, ImportedFile
from backhaul_connectors.file_drop.inspection import (
    STEP_ROWS,
    InspectedFile,
    UnusableFile,
    UsableFile,
    count,
    read_whole,
)
from backhaul_sdk import Bad
from backhaul_sdk.files import in_thread

if TYPE_CHECKING:
    from backhaul_connectors.file_drop.files import (
        ArchivedFile,
        FileCursor,
        FoundFile,
        ReadableFile,
        TemporaryCopies,
    )
    from backhaul_connectors.file_drop.settings import Settings


KEY = "same-content"
CHUNK_BYTES = 1_000_000
REWRITTEN = (
    "the file changed in the archive after Backhaul had imported its rows, and"
    " Backhaul did not read it again; compare the file with the imported rows, and"
    " drop a file with the missing rows"
)


def is_repeat(file: ReadableFile, read: InspectedFile, cursor: FileCursor) -> bool:
    """Return True if this content came under another name, and nothing proves an event.

    A file without rows is never a repeat.
    """
    if read.table.file.form.follows_content or not read.cells:
        return False
    known = cursor.of(file.name, read.identity)
    if known.sha256 != read.identity:
        return cursor.has_content(read.identity)
    # A partly imported file that was renamed continues where it ended.
    return not (known.is_held or known.is_partial or known.name == file.name)


async def judge_repeat(
    file: ReadableFile, read: InspectedFile, known: ImportedFile, settings: Settings
) -> UsableFile | UnusableFile:
    """Hold, apply or skip a file whose content came under another name."""
    before = _before(known)
    if settings.same_content == "apply":
        applied = replace(read, table=replace(read.table, salt=salt_of(file)))
        return await count(applied, 0, settings, is_sure=True)
    if settings.same_content == "ignore":
        end = await count(read, sys.maxsize, settings, is_sure=True)
        note = f"{file.name} is skipped: its content equals that of {before}"
        return (
            replace(end, notes=(*end.notes, note))
            if isinstance(end, UsableFile)
            else end
        )
    return UnusableFile(
        read.identity,
        f"its content equals that of {before}, so it is unknown whether the event"
        " happened twice. If it did, apply the file: backhaul quarantine retry. If"
        " not, discard the file: backhaul quarantine discard. See same_content and"
        " key_columns",
        can_apply=True,
    )


def twin_of(
    file: ReadableFile, read: InspectedFile, cursor: FileCursor
) -> ImportedFile | None:
    """Return the file with the same rows in other bytes; None if none is known.

    Programs save the same rows with other line ends, marks or encodings.
    """
    if not read.cells or not cursor.has_content(read.cells):
        return None
    twin = cursor.saying(read.cells, file.name)
    return None if twin.is_held or twin.is_partial else twin


async def judge_twin(
    file: ReadableFile, read: InspectedFile, twin: ImportedFile, settings: Settings
) -> UsableFile | UnusableFile:
    """Judge a file with the rows of another file, written in another way."""
    if twin.name != file.name:
        return await judge_repeat(file, read, twin, settings)
    end = await count(read, sys.maxsize, settings, is_sure=True)
    note = (
        f"{file.name} arrived again with the same rows in another notation. Backhaul"
        " treats them as the same event and changes nothing"
    )
    return (
        replace(end, notes=(*end.notes, note)) if isinstance(end, UsableFile) else end
    )


def with_note(
    judged: UsableFile | UnusableFile,
    file: ReadableFile,
    known: ImportedFile,
    cursor: FileCursor,
) -> UsableFile | UnusableFile:
    """Note that a completely imported file came again: it is the same event."""
    if isinstance(judged, UnusableFile) or known.row < judged.rows or not judged.rows:
        return judged
    seen = (file.name, judged.content, file.fingerprint.modified_ns)
    # After a kill the same file is still in the folder.
    if any((w.name, w.sha256, w.modified_ns) == seen for w in cursor.watched):
        return judged
    at = f", taken at {known.at}" if known.at else ""
    note = (
        f"{file.name} arrived again with the same content{at}. Backhaul treats its"
        f" {judged.rows} rows as the same event and changes nothing"
    )
    return replace(judged, notes=(*judged.notes, note))


def key_of_repeat(file: FoundFile, sha256: str) -> str:
    """Return the key of the question to the operator about the file."""
    salt = salt_of(file)
    return f"{KEY}:{file.fingerprint.size}:{sha256}:{salt}"


def parsed_key(key: str) -> tuple[int, str, str]:
    """Return size, sha256 and salt of a key of `key_of_repeat`. Raises ValueError."""
    kind, size, sha256, salt = key.split(":")
    if kind != KEY:
        raise ValueError(key)
    return int(size), sha256, salt


def salt_of(file: ReadableFile | FoundFile) -> str:
    """Return what distinguishes this event from another of the same content."""
    said = [file.name, str(file.fingerprint.modified_ns)]
    return key_of("salt", said).removeprefix("salt:")[:16]


def _before(known: ImportedFile) -> str:
    if not known.name:
        return "a file that was imported earlier"
    return f"{known.name}, taken at {known.at}" if known.at else known.name


class ImportedBeginning(Struct, frozen=True):
    """The beginning of a file that was imported before: its bytes, and its rows."""

    sha256: str
    size: int
    rows: int


async def judge(
    file: ReadableFile,
    cursor: FileCursor,
    settings: Settings,
    copies: TemporaryCopies,
    *,
    is_sure: bool,
) -> UsableFile | UnusableFile:
    """Judge a file in the drop folder. Raises as `read_whole` does."""
    read = await read_whole(file, settings, copies, is_sure=is_sure)
    if isinstance(read, UnusableFile):
        return read
    known = cursor.of(file.name, read.identity)
    if is_repeat(file, read, cursor):
        same = known if known.sha256 == read.identity else ImportedFile()
        return await judge_repeat(file, read, same, settings)
    if known.sha256 == read.identity and not known.is_held:
        salted = replace(read, table=replace(read.table, salt=known.salt))
        again = await count(salted, known.row, settings, is_sure=is_sure)
        return with_note(again, file, known, cursor)
    has_grown = await in_thread(begins_with, file, known.size, known.sha256)
    twin = None if has_grown else twin_of(file, read, cursor)
    if twin is not None:
        return await judge_twin(file, read, twin, settings)
    ended = has_grown and await in_thread(_ends_a_line, file, known.size)
    if ended and not known.is_held:
        return await count(read, known.row, settings, is_sure=is_sure)
    if not read.table.file.form.follows_content and (has_grown or known.is_partial):
        return UnusableFile(read.identity, _changed(known), known=known)
    if has_grown and known.row == known.rows:
        begun = ImportedBeginning(known.sha256, known.size, known.rows)
        return await _judge_rest(file, read, begun, settings, copies)
    return await count(read, 0, settings, is_sure=is_sure)


async def judge_archived(
    file: ReadableFile,
    before: ArchivedFile,
    settings: Settings,
    copies: TemporaryCopies,
    *,
    is_sure: bool,
) -> UsableFile | UnusableFile | None:
    """Judge a file that has changed since it was archived; None if it has not.

    Raises as `read_whole` does.
    """
    read = await read_whole(file, settings, copies, is_sure=is_sure)
    if isinstance(read, UnusableFile):
        return replace(read, reason=f"{REWRITTEN} ({read.reason})")
    if read.content == before.sha256:
        return None
    if not await in_thread(begins_with, file, before.size, before.sha256):
        return UnusableFile(read.identity, REWRITTEN)
    begun = ImportedBeginning(before.sha256, before.size, before.rows)
    return await _judge_rest(file, read, begun, settings, copies)


async def _judge_rest(
    file: ReadableFile,
    read: InspectedFile,
    begun: ImportedBeginning,
    settings: Settings,
    copies: TemporaryCopies,
) -> UsableFile | UnusableFile:
    """Judge the rows after the beginning that was imported before."""
    row, bad = begun.rows, tuple[Bad, ...]()
    if row and not await in_thread(_ends_a_line, file, begun.size):
        is_count = read.table.file.form.dated_by_file
        if is_count or await _last_was_bad(file, begun.size, settings, copies):
            # A later count replaces the first one; a bad row had no effect.
            row -= 1
        else:
            bad = (_continued(file, begun),)
    judged = await count(read, row, settings, is_sure=True)
    return replace(judged, bad=bad) if isinstance(judged, UsableFile) else judged


def begins_with(file: ReadableFile, size: int, sha256: str) -> bool:
    """Return True if the first `size` bytes of the file have this sha256."""
    digest, left = hashlib.sha256(), size
    with file.open() as stream:
        while left > 0 and (content := stream.read(min(left, CHUNK_BYTES))):
            digest.update(content)
            left -= len(content)
    began_as = digest.hexdigest()
    return size > 0 and left == 0 and began_as == sha256


def _ends_a_line(file: ReadableFile, size: int) -> bool:
    """Return True if the first `size` bytes end with, or before, a line end."""
    with file.open() as stream:
        stream.seek(max(size - 4, 0))
        before = stream.read(min(size, 4))
        after = stream.read(4)
    return before.endswith(LINE_ENDS) or after.startswith(LINE_ENDS)


async def _last_was_bad(
    file: ReadableFile, size: int, settings: Settings, copies: TemporaryCopies
) -> bool:
    """Return True if the last row of the first `size` bytes was unusable."""
    beginning = FileCopy(file.name, file.form, file.fingerprint, copies.make())
    await in_thread(_copy_beginning, file, size, beginning)
    read = await read_whole(beginning, settings, copies, is_sure=True)
    if isinstance(read, UnusableFile):
        return True
    position, last_was_bad = read.table.layout.start, True
    while True:
        judged = await in_thread(read.table.judge, position, STEP_ROWS)
        if not judged.verdicts:
            return last_was_bad
        position = judged.position
        last_was_bad = judged.verdicts[-1].problem is not None


def _copy_beginning(file: ReadableFile, size: int, copy: FileCopy) -> None:
    left = size
    with file.open() as stream:
        while left > 0 and (content := stream.read(min(left, CHUNK_BYTES))):
            copy.stream.write(content)
            left -= len(content)


def _continued(file: ReadableFile, begun: ImportedBeginning) -> Bad:
    """Return the question to an operator about a row that was imported incomplete."""
    return Bad(
        key=key_of("continued row", [begun.sha256, begun.rows]),
        raw=file.name,
        reason=f"the writer of {file.name} continued row {begun.rows} after"
        " Backhaul had read it. Backhaul used the row as it was then,"
        " and did not read its rest; compare the row with the file",
        locator=f"{file.name} row {begun.rows}",
    )


def _changed(known: ImportedFile) -> str:
    return (
        f"the file was changed after its first {known.row} rows were taken; drop a "
        "file with the missing stock changes only"
    )
