"""Reads the envelopes of an interchange and checks their counts and references.

An envelope whose trailer disagrees with it means that a part of the file is missing or
was changed, so nothing of such a file is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn

from msgspec import Struct

from backhaul_connectors.file_drop.files import FileUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul_connectors.file_drop.edi.syntax import Segment


class Level(NamedTuple):
    """An envelope: its first and last segment, and the place of its reference.

    A last segment has a count and the same reference.
    """

    begin: str
    end: str
    reference_at: int


EDIFACT = (Level("UNB", "UNZ", 5), Level("UNG", "UNE", 5), Level("UNH", "UNT", 1))
X12 = (Level("ISA", "IEA", 13), Level("GS", "GE", 6), Level("ST", "SE", 2))
_TAGS = frozenset(tag for level in (*EDIFACT, *X12) for tag in level[:2])
ACKNOWLEDGEMENT = "TA1"
"""The segment of X12 that acknowledges an interchange; it is outside of any group."""
MOST_DIGITS = 9
"""Most digits of a count: the standards have six."""
_MOST_SHOWN = 40


class Interchange(Struct, frozen=True):
    """The outer envelope: who sent it to whom, and whether it is a test."""

    sender: str
    recipient: str
    sender_qualifier: str
    recipient_qualifier: str
    reference: str
    is_test: bool


class Message(Struct, frozen=True):
    """One message, or transaction set: its type, such as DESADV or 856.

    `segments` are those between its first and its last one; they can be read once.
    """

    type: str
    version: str
    reference: str
    interchange: Interchange
    segments: Iterator[Segment]

    @property
    def name(self) -> str:
        """The message's name in reasons, such as `UNH 3` or `ST 0001`."""
        tag = ACKNOWLEDGEMENT if self.type == ACKNOWLEDGEMENT else "UNH"
        return f"{'ST' if self.type.isdigit() else tag} {self.reference}"


class Envelopes:
    """The messages of a file; `messages` raises FileUnreadable if a count is wrong."""

    def __init__(self, segments: Iterator[Segment]) -> None:
        self._segments = segments
        self._open: list[tuple[Level, str]] = []
        self._counts = [0, 0, 0]
        self._levels = EDIFACT
        self._interchange: Interchange | None = None

    def messages(self) -> Iterator[Message]:
        """Yield each message; what is left of it is read before the next one.

        A TA1 segment is yielded as a message without segments.
        """
        for segment in self._segments:
            if segment.tag == "UNA" and not self._open:
                continue
            if not self._open:
                self._begin_interchange(segment)
            elif segment.tag == self._levels[1].begin:
                self._begin(1, segment)
            elif segment.tag == self._levels[2].begin:
                self._begin(2, segment)
                message = self._message(segment)
                yield message
                for _ in message.segments:
                    pass
            elif segment.tag == self._open[-1][0].end:
                self._end(segment)
            elif segment.tag == ACKNOWLEDGEMENT and self._open[-1][0] is X12[0]:
                yield self._message(segment)
            else:
                _refuse(segment, f"{segment.tag} is outside of a message")
        if self._open or self._interchange is None:
            end = self._levels[0].end if not self._open else self._open[-1][0].end
            raise FileUnreadable(
                f"the interchange is cut: its {end} is missing. Ask the sender to send"
                " the file again"
            )

    def _begin_interchange(self, segment: Segment) -> None:
        if segment.tag not in ("UNB", "ISA"):
            _refuse(segment, f"{segment.tag} is outside of an interchange")
        self._levels = EDIFACT if segment.tag == "UNB" else X12
        self._counts = [0, 0, 0]
        self._interchange = _interchange(segment)
        self._begin(0, segment)

    def _begin(self, depth: int, segment: Segment) -> None:
        level = self._levels[depth]
        inner = self._open[-1][0] if self._open else None
        if inner is not None and self._levels.index(inner) >= depth:
            _refuse(segment, f"{inner.end} is missing before {segment.tag}")
        self._open.append((level, segment.value(level.reference_at)))
        self._counts[depth] = 0
        # An interchange counts its groups, or its messages if it has no groups.
        if inner is not None:
            self._counts[self._levels.index(inner)] += 1

    def _end(self, segment: Segment) -> None:
        level, reference = self._open.pop()
        counted = self._counts[self._levels.index(level)]
        _check(segment, level, reference, counted)

    def _message(self, segment: Segment) -> Message:
        interchange = self._interchange
        if interchange is None:
            raise TypeError("a message outside of an interchange")
        body, version = self._body(), ""
        if segment.tag == ACKNOWLEDGEMENT:
            type_, reference, body = segment.tag, segment.value(1), iter(())
        elif segment.tag == "ST":
            type_, reference = segment.value(1), segment.value(2)
        else:
            type_, reference = segment.value(2, 1), segment.value(1)
            version = ":".join(segment.value(2, at) for at in (2, 3))
        type_, version, reference = map(_shown, (type_, version, reference))
        return Message(type_, version, reference, interchange, body)

    def _body(self) -> Iterator[Segment]:
        level, reference = self._open[-1]
        count = 1
        for segment in self._segments:
            count += 1
            if segment.tag == level.end:
                self._open.pop()
                _check(segment, level, reference, count)
                return
            if segment.tag in _TAGS:
                _refuse(segment, f"{level.end} is missing before {segment.tag}")
            yield segment


def _interchange(segment: Segment) -> Interchange:
    if segment.tag == "ISA":
        return Interchange(
            sender=segment.value(6),
            sender_qualifier=segment.value(5),
            recipient=segment.value(8),
            recipient_qualifier=segment.value(7),
            reference=segment.value(13),
            is_test=segment.value(15) != "P",
        )
    return Interchange(
        sender=segment.value(2),
        sender_qualifier=segment.value(2, 2),
        recipient=segment.value(3),
        recipient_qualifier=segment.value(3, 2),
        reference=segment.value(5),
        is_test=segment.value(11) not in ("", "0"),
    )


def _check(segment: Segment, level: Level, reference: str, counted: int) -> None:
    """Refuse a trailer that disagrees with its envelope."""
    said, also = segment.value(1), segment.value(2)
    if _number(said) != counted:
        what = "segment" if level in (EDIFACT[2], X12[2]) else "part"
        what = what if _number(said) == 1 else f"{what}s"
        _refuse(
            segment,
            f"{level.end} counts {said[:_MOST_SHOWN] or 'no'} {what}, but"
            f" {level.begin} {reference[:_MOST_SHOWN]} has {counted}",
        )
    if not _is_same(reference, also):
        _refuse(
            segment,
            f"{level.end} has the reference {also[:_MOST_SHOWN]!r}, but {level.begin}"
            f" has {reference[:_MOST_SHOWN]!r}",
        )


def _is_same(reference: str, other: str) -> bool:
    """Return True if references are equal; zeros before a number mean nothing."""
    if _is_number(reference) and _is_number(other):
        return reference.lstrip("0") == other.lstrip("0")
    return reference == other


def _number(text: str) -> int | None:
    """Return a count as a number; None if it is not one, or is too long.

    Python refuses to convert thousands of digits.
    """
    return int(text) if _is_number(text) and len(text) <= MOST_DIGITS else None


def _is_number(text: str) -> bool:
    # Python counts `²` as a digit.
    return text.isascii() and text.isdecimal()


def _shown(text: str) -> str:
    r"""Return a text with its bytes that are not text escaped, such as `\x80`.

    The text is part of reasons and notes, which are stored as UTF-8.
    """
    # Segments have such bytes as surrogates.
    content = text.encode("utf-8", "surrogateescape")
    return content.decode("utf-8", "backslashreplace")


def _refuse(segment: Segment, problem: str) -> NoReturn:
    raise FileUnreadable(
        "the interchange contradicts itself at segment"
        f" {segment.number}: {_shown(problem)}."
        " Perhaps a part of the file is missing, so Backhaul took nothing of it. Ask"
        " the sender to send it again"
    )
