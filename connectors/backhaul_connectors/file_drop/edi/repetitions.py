"""Recognizes documents that one file has twice.

A sender that repeats an interchange can append it to the same file. Its shipments would
have twice as many units, and so would stock that is summed up.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

from backhaul_connectors.file_drop.files import FileUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi.syntax import Segment

    Seen: TypeAlias = Literal["new", "repeated", "changed"]

MOST_DOCUMENTS = 200_000
"""Most documents of a file that are compared; they take about 30 megabytes."""
DIGEST_BYTES = 8


class Content:
    """The segments of a message, which are digested while they are read."""

    def __init__(self, segments: Iterator[Segment]) -> None:
        self._segments = segments
        self._digest = blake2b(digest_size=DIGEST_BYTES)

    def __iter__(self) -> Iterator[Segment]:
        for segment in self._segments:
            # As Python writes it, bytes that are not text are escaped.
            self._digest.update(repr((segment.tag, segment.elements)).encode())
            yield segment

    @property
    def digest(self) -> int:
        """The digest of the segments so far: of all of them after the last one."""
        return int.from_bytes(self._digest.digest())


class Documents:
    """The documents of a file by their type, sender and number."""

    def __init__(self) -> None:
        self._contents = dict[int, int]()

    def add(self, message: Message, document: str, content: int) -> Seen:
        """Return whether the file had a document before, with the same content.

        A message without a number is a document of its own, unless its content is that
        of another one. Raises FileUnreadable if there are too many documents.
        """
        around = message.interchange
        sender = (around.sender_qualifier, around.sender)
        named = repr((message.type, sender, document or content))
        digest = blake2b(named.encode(), digest_size=DIGEST_BYTES).digest()
        key = int.from_bytes(digest)
        known = self._contents.get(key)
        if known is not None:
            return "repeated" if known == content else "changed"
        self._contents[key] = content
        if len(self._contents) > MOST_DOCUMENTS:
            raise FileUnreadable(
                f"the file has more than {MOST_DOCUMENTS:,} documents, which are too"
                " many to find those that are there twice. Split it into several files"
            )
        return "new"
