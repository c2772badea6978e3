"""Recognizes documents that one file has twice.

A sender that repeats an interchange can append it to the same file. Its shipments would
have twice as many units, and so would stock that is summed up.

Several messages can have one number all the same: one for each order of a despatch, or
one for each warehouse or article of a stock report. They have no part in common: no
order, or no SKU in a place. If they have, only a message with the same segments is a
repetition: rows can be equal although the messages are about different cartons.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple

from backhaul_connectors.file_drop.edi.rows import sender_of
from backhaul_connectors.file_drop.files import FileUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi.syntax import Segment

    Seen: TypeAlias = Literal["new", "repeated", "changed"]

MOST_DOCUMENTS = 200_000
"""Most documents of a file that are compared; they take about 90 megabytes."""
MOST_PARTS = 500_000
"""Most parts of documents with several messages; they take about 60 megabytes."""
_PARTS = "orders or SKUs in documents that have several messages"
DIGEST_BYTES = 8
WRITTEN = "137"
"""The code (2005) of the time of a message."""
OF_THE_MESSAGE: Mapping[str, frozenset[int]] = {
    "BGM": frozenset({3}),
    "BSN": frozenset({1, 3, 4}),
    "BIA": frozenset({1, 4, 5}),
}
"""Elements with the purpose or the time of a message: a repetition has others."""


class Content:
    """The segments of a message, which are digested while they are read."""

    def __init__(self, segments: Iterator[Segment]) -> None:
        self._segments = segments
        self._digest = blake2b(digest_size=DIGEST_BYTES)

    def __iter__(self) -> Iterator[Segment]:
        for segment in self._segments:
            if not (segment.tag == "DTM" and segment.value(1) == WRITTEN):
                # As Python writes it, bytes that are not text are escaped.
                self._digest.update(repr((segment.tag, _said(segment))).encode())
            yield segment

    @property
    def digest(self) -> int:
        """The digest of the segments so far: of all of them after the last one."""
        return int.from_bytes(self._digest.digest())


class _Several(NamedTuple):
    """The digests of several messages of a document, and of their parts."""

    contents: set[int]
    parts: set[int]


class Documents:
    """The documents of a file by their type, sender and number."""

    def __init__(self) -> None:
        # Of a single message its digest and those of its parts, in little memory.
        self._known: dict[int, array[int] | _Several] = {}
        self._parts = 0

    def add(
        self, message: Message, document: str, content: int, parts: array[int]
    ) -> Seen:
        """Return whether the file had a message, or some of its parts, before.

        A message without a number is a document of its own, unless its content is that
        of another one. Raises FileUnreadable if there is too much to compare.
        """
        key = digest_of((message.type, sender_of(message), document or content))
        known = self._known.get(key)
        if known is None:
            self._known[key] = array("Q", [content, *parts])
            _check(len(self._known), MOST_DOCUMENTS, "documents")
            return "new"
        if isinstance(known, array):
            known = self._known[key] = _Several({known[0]}, set(known[1:]))
            self._parts += len(known.parts)
        if content in known.contents:
            return "repeated"
        if not known.parts.isdisjoint(parts):
            return "changed"
        known.contents.add(content)
        self._parts -= len(known.parts)
        known.parts.update(parts)
        self._parts += len(known.parts)
        _check(self._parts, MOST_PARTS, _PARTS)
        return "new"


def digest_of(named: object) -> int:
    """Return a digest of texts and numbers."""
    # As Python writes them, bytes that are not text are escaped.
    text = repr(named).encode()
    return int.from_bytes(blake2b(text, digest_size=DIGEST_BYTES).digest())


def _said(segment: Segment) -> list[tuple[str, ...]]:
    left_out = OF_THE_MESSAGE.get(segment.tag, frozenset())
    numbered = enumerate(segment.elements, 1)
    return [each for number, each in numbered if number not in left_out]


def _check(count: int, most: int, what: str) -> None:
    if count > most:
        raise FileUnreadable(
            f"the file has more than {most:,} {what}. Backhaul cannot check so many"
            " for duplicates. Split the file into several files"
        )
