"""A JSON array as JSON lines: one object a line, read as a stream.

The line of an object is its number in the array, from 1.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, BinaryIO

from backhaul_connectors.file_drop.csv_rows import MAX_ROW_BYTES
from backhaul_connectors.file_drop.found import Unreadable

if TYPE_CHECKING:
    from collections.abc import Generator

CHUNK_BYTES = 65_536
STEP_OBJECTS = 1_000
START_BYTES = 1_024

_BLANKS = re.compile(r"[\s\ufeff]*")
_BETWEEN = re.compile(r"\s*(,?)\s*")
_LINE_ENDS = re.compile(r"[\r\n]+")
_SCAN = json.JSONDecoder().raw_decode


def is_array(stream: BinaryIO, *, is_lines: bool) -> bool:
    """Tell whether the file is an array, or one object over several lines.

    Where its name says that it has one object a line, only an array is.
    """
    start = stream.read(START_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")
    if is_lines:
        return re.match(rb"\[\s*(\{|$)", start) is not None
    return re.match(rb"\[|\{\s*\n", start) is not None


class _Text:
    """The file's text, as much of it as is looked at."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text = ""
        self.at = 0

    def more(self) -> bool:
        """Read on; tell whether there was more. What was passed is dropped."""
        content = self._stream.read(CHUNK_BYTES)
        if not content:
            self.text += self._decoder.decode(b"", final=True)
            return False
        self.text = self.text[self.at :] + self._decoder.decode(content)
        self.at = 0
        return True

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Pass over what the pattern matches, and return it."""
        while (found := pattern.match(self.text, self.at)) is None or (
            found.end() == len(self.text) and self.more()
        ):
            pass
        self.at = found.end()
        return found.group()


def spread_array(stream: BinaryIO, lines: BinaryIO) -> Generator[None]:
    """Write each object to a line, stopping now and then. Raises Unreadable."""
    text = _Text(stream)
    text.skip(_BLANKS)
    in_brackets = text.text.startswith("[", text.at)
    text.at += in_brackets
    number = 0
    while (element := _next(text, number, in_brackets)) is not None:
        number += 1
        lines.write(_line(element))
        if number % STEP_OBJECTS == 0:
            yield
    yield


def _line(element: str) -> bytes:
    return f"{_LINE_ENDS.sub(' ', element)}\n".encode("utf-8", "surrogateescape")


def _next(text: _Text, number: int, in_brackets: bool) -> str | None:
    """Return the text of the next element; None behind the last one."""
    between = text.skip(_BETWEEN)
    if text.at == len(text.text):
        if in_brackets:
            raise Unreadable(_cut(number))
        return None
    if in_brackets and text.text.startswith("]", text.at):
        text.at += 1
        text.skip(_BLANKS)
        if text.at < len(text.text):
            raise Unreadable(f"{_where(number)}: something follows the array's end")
        return None
    if in_brackets and number and "," not in between:
        raise Unreadable(f"{_where(number)}: a comma is missing")
    return _element(text, number)


def _element(text: _Text, number: int) -> str:
    while True:
        try:
            _, end = _SCAN(text.text, text.at)
        except (ValueError, RecursionError) as error:
            if len(text.text) - text.at > MAX_ROW_BYTES:
                problem = f"the next object has over {MAX_ROW_BYTES:,} letters"
                raise Unreadable(f"{_where(number)}: {problem}") from None
            if not text.more():
                raise Unreadable(f"{_where(number)}: {_words(error)}") from None
            continue
        # A number may go on in what was not read yet.
        if end < len(text.text) or not text.more():
            element, text.at = text.text[text.at : end], end
            return element


def _where(number: int) -> str:
    return f"the JSON array cannot be read behind its first {number} objects"


def _cut(number: int) -> str:
    return f"{_where(number)}: its end is missing; the file may be cut"


def _words(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}; write an array of objects, or one object a line"
    return "what follows is no JSON; write an array of objects, or one object a line"
