"""Recognizes documents that one file has twice.

A sender that repeats an interchange can append it to the same file. Its shipments would
have twice as many units, and so would stock that is summed up.

Several messages can have one number all the same: one for each order of a despatch, or
one for each warehouse or article of a stock report. So the parts of a document are
compared: the rows of an order, or those of a SKU in a place.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from backhaul_connectors.file_drop.edi.rows import sender_of
from backhaul_connectors.file_drop.files import FileUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi.rows import EdiRow

MOST_DOCUMENTS = 200_000
"""Most documents of a file that are compared; they take about 30 megabytes."""
MOST_PARTS = 500_000
"""Most parts of documents with several messages; they take about 60 megabytes."""
DIGEST_BYTES = 8
NO_PART: Final = 0
_PARTS = "orders or SKUs in documents that have several messages"


class Rows:
    """The rows of a message as digests: of the part of each, and of its content."""

    def __init__(self, packed: bytes = b"") -> None:
        self._digests = array("Q", packed)

    def add(self, row: EdiRow) -> None:
        part = _digest(repr(row.part)) if row.part else NO_PART
        self._digests.extend((part, _digest(row.content)))

    def __bool__(self) -> bool:
        return bool(self._digests)

    @property
    def digest(self) -> int:
        """The digest of all rows in their order."""
        return int.from_bytes(blake2b(self.packed, digest_size=DIGEST_BYTES).digest())

    @property
    def packed(self) -> bytes:
        """The digests in as little memory as they need."""
        return self._digests.tobytes()

    def names(self) -> Iterator[int]:
        """Yield the part of each row; a row of no part is one by its content."""
        digests = iter(self._digests)
        for part, content in zip(digests, digests, strict=True):
            yield part or content

    def parts(self) -> dict[int, int]:
        """Return the content of each part."""
        found = dict[int, int]()
        digests = iter(self._digests)
        for part, content in zip(digests, digests, strict=True):
            if part == NO_PART:
                found[content] = content
            else:
                found[part] = hash((found.get(part), content))
        return found

    def without_parts(self) -> set[int]:
        """Return the contents of the rows that are of no part."""
        digests = iter(self._digests)
        pairs = zip(digests, digests, strict=True)
        return {content for part, content in pairs if part == NO_PART}


class Documents:
    """The documents of a file by their type, sender and number."""

    def __init__(self) -> None:
        # The rows of a document's only message, or the parts of several messages.
        self._known = dict[int, bytes | dict[int, int]]()
        self._parts = 0

    def add(self, message: Message, document: str, rows: Rows) -> set[int] | None:
        """Return the parts of a message that the file had before; None if changed.

        A message without a number is a document of its own, unless its content is that
        of another one. Raises FileUnreadable if there is too much to compare.
        """
        named = (message.type, sender_of(message), document or rows.digest)
        key = _digest(repr(named))
        known = self._known.get(key)
        if known is None:
            self._known[key] = rows.packed
            self._check(len(self._known), MOST_DOCUMENTS, "documents")
            return set()
        if isinstance(known, bytes):
            known = self._known[key] = Rows(known).parts()
            self._parts += len(known)
        parts = rows.parts()
        before = parts.keys() & known.keys()
        if any(parts[each] != known[each] for each in before):
            return None
        self._parts += len(parts) - len(before)
        self._check(self._parts, MOST_PARTS, _PARTS)
        known |= parts
        # A row of no part can be about what the rest of its message is about.
        is_new = len(before) < len(parts)
        return before - rows.without_parts() if is_new else before

    def _check(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise FileUnreadable(
                f"the file has more than {most:,} {what}. Backhaul cannot check so many"
                " for duplicates. Split the file into several files"
            )


def _digest(text: str) -> int:
    # Bytes that are not text are escaped, as `repr` writes them.
    found = blake2b(text.encode(), digest_size=DIGEST_BYTES)
    return int.from_bytes(found.digest())
