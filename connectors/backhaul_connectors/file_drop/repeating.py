"""A file whose content was taken before: one event, or another one just like it.

Rows of stock changes without key columns have no key but their place in their file. So
a file of the same name and content is the same event, and one of another name may be a
copy or a second event: two days with the same write-off look so. An operator decides,
unless `same_content` says it for all.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul_connectors.file_drop.cells import key_of
from backhaul_connectors.file_drop.judging import Read, Sound, Unsound, count

if TYPE_CHECKING:
    from backhaul_connectors.file_drop.cursor import Cursor, Taken
    from backhaul_connectors.file_drop.found import Found, Source
    from backhaul_connectors.file_drop.settings import Settings

KEY = "same-content"


def is_repeat(file: Source, read: Read, cursor: Cursor) -> bool:
    """Tell whether this content was taken by another name, and only a person can say
    whether it is another event. A file without rows says nothing."""
    if file.form.follows_content or not read.cells:
        return False
    known = cursor.of(file.name, read.identity)
    if known.sha256 != read.identity:
        return cursor.has_content(read.identity)
    # What was taken in part, and got another name since, goes on where it ended.
    return not (known.is_held or known.is_partial or known.name == file.name)


async def judge_repeat(
    file: Source, read: Read, known: Taken, settings: Settings
) -> Sound | Unsound:
    """Hold, apply or pass over a file whose content was taken by another name."""
    before = _before(known)
    if settings.same_content == "apply":
        applied = replace(read, table=replace(read.table, salt=salt_of(file)))
        return await count(applied, 0, settings, is_sure=True)
    if settings.same_content == "ignore":
        end = await count(read, sys.maxsize, settings, is_sure=True)
        note = f"{file.name} is passed over: its content equals that of {before}"
        return replace(end, notes=(*end.notes, note)) if isinstance(end, Sound) else end
    return Unsound(
        read.identity,
        f"its content equals that of {before}, and nobody can tell whether it happened "
        "twice: apply it (backhaul quarantine retry), or discard it (backhaul "
        "quarantine drop); see same_content and key_columns",
        can_apply=True,
    )


def twin_of(file: Source, read: Read, cursor: Cursor) -> Taken | None:
    """Return the file whose rows said the same in other bytes; None if none is known.

    Programs save the same rows with other line ends, marks or encodings.
    """
    if not read.cells or not cursor.has_content(read.cells):
        return None
    twin = cursor.saying(read.cells, file.name)
    return None if twin.is_held or twin.is_partial else twin


async def judge_twin(
    file: Source, read: Read, twin: Taken, settings: Settings
) -> Sound | Unsound:
    """Judge a file with the rows of another one, written in another way."""
    if twin.name != file.name:
        return await judge_repeat(file, read, twin, settings)
    end = await count(read, sys.maxsize, settings, is_sure=True)
    note = (
        f"{file.name} came again with the same rows, written in another way: they are "
        "the same event, and change nothing"
    )
    return replace(end, notes=(*end.notes, note)) if isinstance(end, Sound) else end


def with_note(
    judged: Sound | Unsound, file: Source, known: Taken, cursor: Cursor
) -> Sound | Unsound:
    """Note that a file came again that was taken whole: it is the same event."""
    if isinstance(judged, Unsound) or known.row < judged.rows or not judged.rows:
        return judged
    seen = (file.name, judged.content, file.fingerprint.modified_ns)
    # After a kill the very same file still lies there.
    if any((w.name, w.sha256, w.modified_ns) == seen for w in cursor.watched):
        return judged
    at = f", taken at {known.at}" if known.at else ""
    note = (
        f"{file.name} came again with the same content{at}: its {judged.rows} rows are "
        "the same event, and change nothing"
    )
    return replace(judged, notes=(*judged.notes, note))


def key_of_repeat(file: Found, sha256: str) -> str:
    """Return the key under which an operator is asked about the file."""
    salt = salt_of(file)
    return f"{KEY}:{file.fingerprint.size}:{sha256}:{salt}"


def parsed_key(key: str) -> tuple[int, str, str]:
    """Return size, sha256 and salt of a key of `key_of_repeat`. Raises ValueError."""
    kind, size, sha256, salt = key.split(":")
    if kind != KEY:
        raise ValueError(key)
    return int(size), sha256, salt


def salt_of(file: Source | Found) -> str:
    """Return what tells this event from the other one of the same content."""
    said = [file.name, str(file.fingerprint.modified_ns)]
    return key_of("salt", said).removeprefix("salt:")[:16]


def _before(known: Taken) -> str:
    if not known.name:
        return "a file that was taken earlier"
    return f"{known.name}, taken at {known.at}" if known.at else known.name
