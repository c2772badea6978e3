"""Whether a file looks complete: each format has an end of its own.

A writer that pauses leaves a file whose size and time stand still. What such a file
lacks is its end: the line end of its last row, the closing bracket of a JSON array, or
the end record of an archive, as an XLSX file is one.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.csv_rows import END_OF_FILE
from backhaul_connectors.file_drop.found import Incomplete

if TYPE_CHECKING:
    from typing import BinaryIO

    from backhaul_connectors.file_drop.found import Source

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


def check_end(file: Source) -> None:
    """Raise Incomplete where the end of the file is missing; Changed as `open` does."""
    with file.open() as stream:
        head = stream.read(_TEXT_TAIL)
        size = file.fingerprint.size
        is_archive = head.startswith(ZIP)
        tail = _tail(stream, size, _LONGEST_COMMENT + _END.size if is_archive else 0)
    if is_archive:
        problem = "" if has_end_record(tail, size) else "its end record is missing"
    elif _is_array(file, head):
        is_closed = _plain(tail).endswith(b"]")
        problem = "" if is_closed else "its last bracket is missing"
    else:
        is_ended = tail.rstrip(END_OF_FILE).endswith(LINE_ENDS)
        problem = "" if is_ended else "its last line has no end"
    if problem:
        raise Incomplete(problem)


def _is_array(file: Source, head: bytes) -> bool:
    is_json = file.name.lower().endswith(JSON)
    return is_json and _plain(head).startswith(b"[")


def _plain(text: bytes) -> bytes:
    """Return the text without marks, blanks and the empty halves of UTF-16."""
    return text.replace(b"\0", b"").strip(b"\xef\xbb\xbf\xff\xfe \t\r\n")


def _tail(stream: BinaryIO, size: int, length: int) -> bytes:
    stream.seek(max(size - max(length, _TEXT_TAIL), 0))
    return stream.read()


def has_end_record(tail: bytes, size: int) -> bool:
    """Tell whether a ZIP archive of `size` bytes ends with its own end record.

    A file inside the archive may be an archive too: the end record of that one does
    not fit the place where it stands.
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
