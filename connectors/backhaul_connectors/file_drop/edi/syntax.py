"""Recognizes EDI files by their first bytes, and knows their delimiters.

Sources: ISO 9735 (EDIFACT syntax), ANSI X12.5 (interchange control).
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

HEAD_BYTES = 512
"""How many first bytes of a file show its syntax."""
TAIL_BYTES = 4_096
"""How many last bytes of a file show its end: some programs fill the last block."""
BLANKS = " \t\r\n"
"""What is between segments; Python counts the delimiters of ASCII as blanks too."""
AFTER_END = f"{BLANKS}\x1a"
"""What may follow the last segment: blanks, and the old mark of the end of a file."""
_BEFORE = b"\xef\xbb\xbf \t\r\n"
_WITH_ADVICE = re.compile(rb"UNA([^\w].[.,].{2}[^\w])\s*UNB", re.DOTALL)
_WITHOUT_ADVICE = re.compile(rb"UNB(?:\+UN[A-Z]{2}:\d|\x1dUN[A-Z]{2}\x1f\d)")
_DEFAULT_ADVICE = ":+.? '"
_UNPRINTABLE_ADVICE = "\x1f\x1d.\0 \x1c"
"""The delimiters of syntax level B: separators of ASCII, and no release character."""
_ISA_ELEMENTS = 16
_LINE_ENDS = "\r\n"


class Syntax(Struct, frozen=True, kw_only=True):
    """The delimiters of an interchange; `release` is empty if there is none.

    `length` is the number of characters of the service string advice (UNA), which is
    not a segment.
    """

    name: Literal["EDIFACT", "X12"]
    component: str
    element: str
    terminator: str
    release: str = ""
    length: int = 0

    @property
    def dropped(self) -> str:
        """The line ends that mean nothing: programs break lines for people.

        A line end that ends the segments is not one of them.
        """
        return "".join(each for each in _LINE_ENDS if each != self.terminator)


class Segment(Struct, frozen=True):
    """One segment: `number` counts the segments of the file from 1."""

    tag: str
    elements: tuple[tuple[str, ...], ...]
    number: int

    def value(self, element: int, component: int = 1) -> str:
        """Return a value by its place, both from 1; empty if it is not there.

        The numbers are those of the standards: BSN02 is `value(2)`.
        """
        if element > len(self.elements):
            return ""
        components = self.elements[element - 1]
        return (
            components[component - 1].strip(BLANKS)
            if component <= len(components)
            else ""
        )

    def values(self, first: int = 1, step: int = 1) -> list[str]:
        """Return the first component of every `step`th element, from `first` on."""
        return [
            self.value(number) for number in range(first, len(self.elements) + 1, step)
        ]


def syntax_of(head: bytes) -> Syntax | None:
    """Return the syntax of a file by its first bytes; None if it is not EDI."""
    plain = head.lstrip(_BEFORE)
    if plain.startswith(b"ISA"):
        return _x12(plain.decode("latin-1"))
    if _WITHOUT_ADVICE.match(plain):
        is_printable = plain[3:4] == b"+"
        return _edifact(_DEFAULT_ADVICE if is_printable else _UNPRINTABLE_ADVICE, 0)
    if found := _WITH_ADVICE.match(plain):
        return _edifact(found[1].decode("latin-1"), len("UNA") + 6)
    return None


def _edifact(advice: str, length: int) -> Syntax | None:
    component, element, _, release, _, terminator = tuple(advice)
    if len({component, element, terminator}) < 3:
        return None
    return Syntax(
        name="EDIFACT",
        component=component,
        element=element,
        terminator=terminator,
        release=release.strip(" \0"),
        length=length,
    )


def _x12(text: str) -> Syntax | None:
    """Return the delimiters: that after ISA, and the two after its 16th separator.

    The header has 105 characters and a terminator, but some programs remove blanks or
    break the line, so the separators are counted.
    """
    element = text[3:4]
    if not element or element.isalnum() or element in BLANKS:
        return None
    parts = text.split(element, _ISA_ELEMENTS)
    if len(parts) <= _ISA_ELEMENTS or not _is_header(parts):
        return None
    end = parts[-1]
    component, terminator = end[:1], end[1:2]
    if not terminator or terminator.isalnum() or component.isalnum():
        return None
    if len({component, element, terminator}) < 3:
        return None
    return Syntax(
        name="X12", component=component, element=element, terminator=terminator
    )


def _is_header(parts: list[str]) -> bool:
    """Return True if the qualifiers and the control number have their lengths."""
    plain = [part.replace("\r", "").replace("\n", "").strip(" ") for part in parts]
    return all(len(plain[at]) <= 2 for at in (1, 3, 5, 7)) and plain[13].isdigit()


def has_trailer(head: bytes, tail: bytes) -> bool | None:
    """Return whether an EDI file has its last segment; None if it is not EDI.

    Only blanks may follow that segment: something else begins another interchange,
    which is not complete.
    """
    syntax = syntax_of(head)
    if syntax is None:
        return None
    tag = "UNZ" if syntax.name == "EDIFACT" else "IEA"
    end = tail.decode("latin-1").translate(dict.fromkeys(map(ord, syntax.dropped)))
    last = f"{tag}{syntax.element}"
    _, found, trailer = end.rpartition(last)
    _, terminator, after = trailer.partition(syntax.terminator)
    return bool(found and terminator) and not after.strip(AFTER_END)
