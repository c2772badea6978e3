"""Where to begin in a file: at its first row, behind the rows taken before, or nowhere.

A file that grew after rows of it were taken goes on behind them. Where its last row had
no line end then, that row may have been half of one: nothing is made of the whole row
a second time, and an operator is asked.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.file_drop.cells import key_of
from backhaul_connectors.file_drop.completeness import LINE_ENDS
from backhaul_connectors.file_drop.cursor import Taken
from backhaul_connectors.file_drop.found import Copy
from backhaul_connectors.file_drop.judging import (
    STEP_ROWS,
    Read,
    Sound,
    Unsound,
    count,
    read_whole,
)
from backhaul_connectors.file_drop.repeating import (
    is_repeat,
    judge_repeat,
    judge_twin,
    twin_of,
    with_note,
)
from backhaul_connectors.file_drop.waiting import in_thread
from backhaul_sdk import Bad

if TYPE_CHECKING:
    from backhaul_connectors.file_drop.copies import Copies
    from backhaul_connectors.file_drop.cursor import Cursor, Watched
    from backhaul_connectors.file_drop.found import Source
    from backhaul_connectors.file_drop.settings import Settings

CHUNK_BYTES = 1_000_000
REWRITTEN = (
    "the file was written anew in the archive, after its rows were taken, and nothing "
    "more was read; compare it with what arrived, and drop the missing rows as a file"
)


class Begun(Struct, frozen=True):
    """The beginning of a file that was taken before: its bytes, and its rows."""

    sha256: str
    size: int
    rows: int


async def judge(
    file: Source, cursor: Cursor, settings: Settings, copies: Copies, *, is_sure: bool
) -> Sound | Unsound:
    """Judge a file in the drop folder. Raises as `read_whole` does."""
    read = await read_whole(file, settings, copies, is_sure=is_sure)
    if isinstance(read, Unsound):
        return read
    known = cursor.of(file.name, read.identity)
    if is_repeat(file, read, cursor):
        same = known if known.sha256 == read.identity else Taken()
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
    if not file.form.follows_content and (has_grown or known.is_partial):
        return Unsound(read.identity, _changed(known), known=known)
    if has_grown and known.row == known.rows:
        begun = Begun(known.sha256, known.size, known.rows)
        return await _judge_rest(file, read, begun, settings, copies)
    return await count(read, 0, settings, is_sure=is_sure)


async def judge_archived(
    file: Source, before: Watched, settings: Settings, copies: Copies, *, is_sure: bool
) -> Sound | Unsound | None:
    """Judge a file that is not as it was when it was archived; None if it is.

    Raises as `read_whole` does.
    """
    read = await read_whole(file, settings, copies, is_sure=is_sure)
    if isinstance(read, Unsound):
        return replace(read, reason=f"{REWRITTEN} ({read.reason})")
    if read.content == before.sha256:
        return None
    if not await in_thread(begins_with, file, before.size, before.sha256):
        return Unsound(read.identity, REWRITTEN)
    begun = Begun(before.sha256, before.size, before.rows)
    return await _judge_rest(file, read, begun, settings, copies)


async def _judge_rest(
    file: Source, read: Read, begun: Begun, settings: Settings, copies: Copies
) -> Sound | Unsound:
    """Judge the rows of a file behind its beginning, which was taken before."""
    row, bad = begun.rows, tuple[Bad, ...]()
    if row and not await in_thread(_ends_a_line, file, begun.size):
        is_count = file.form.dated_by_file
        if is_count or await _last_was_bad(file, begun.size, settings, copies):
            # A later count replaces the first one; of a bad row nothing was made.
            row -= 1
        else:
            bad = (_continued(file, begun),)
    judged = await count(read, row, settings, is_sure=True)
    return replace(judged, bad=bad) if isinstance(judged, Sound) else judged


def begins_with(file: Source, size: int, sha256: str) -> bool:
    """Tell whether the first `size` bytes of the file have this sha256."""
    digest, left = hashlib.sha256(), size
    with file.open() as stream:
        while left > 0 and (content := stream.read(min(left, CHUNK_BYTES))):
            digest.update(content)
            left -= len(content)
    began_as = digest.hexdigest()
    return size > 0 and left == 0 and began_as == sha256


def _ends_a_line(file: Source, size: int) -> bool:
    """Tell whether the first `size` bytes end a line, or a line end follows them."""
    with file.open() as stream:
        stream.seek(max(size - 4, 0))
        before = stream.read(min(size, 4))
        after = stream.read(4)
    return before.endswith(LINE_ENDS) or after.startswith(LINE_ENDS)


async def _last_was_bad(
    file: Source, size: int, settings: Settings, copies: Copies
) -> bool:
    """Tell whether the last row of the file's first `size` bytes could not be used."""
    beginning = Copy(file.name, file.form, file.fingerprint, copies.make())
    await in_thread(_copy_beginning, file, size, beginning)
    read = await read_whole(beginning, settings, copies, is_sure=True)
    if isinstance(read, Unsound):
        return True
    position, last_was_bad = read.table.layout.start, True
    while True:
        judged = await in_thread(read.table.judge, position, STEP_ROWS)
        if not judged.verdicts:
            return last_was_bad
        position = judged.position
        last_was_bad = judged.verdicts[-1].problem is not None


def _copy_beginning(file: Source, size: int, copy: Copy) -> None:
    left = size
    with file.open() as stream:
        while left > 0 and (content := stream.read(min(left, CHUNK_BYTES))):
            copy.stream.write(content)
            left -= len(content)


def _continued(file: Source, begun: Begun) -> Bad:
    """Return what to ask an operator about a row that was taken half."""
    return Bad(
        key=key_of("continued row", [begun.sha256, begun.rows]),
        raw=file.name,
        reason=f"the writer of {file.name} continued row {begun.rows} after Backhaul "
        "had taken it; the row was taken as it was then, and its rest was not read: "
        "compare the row with what arrived",
        locator=f"{file.name} row {begun.rows}",
    )


def _changed(known: Taken) -> str:
    return (
        f"the file was changed after its first {known.row} rows were taken; drop a "
        "file with the missing stock changes only"
    )
