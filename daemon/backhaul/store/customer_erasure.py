"""Finding and erasing the personal data of customers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.store.read_models import Describe


class CustomerTrace(Struct, frozen=True):
    """What the store holds of a customer: the id, documents, and the orders' ids.

    `erased_at` is when the customer was erased before, empty if never.
    """

    customer_id: str
    documents: tuple[str, ...]
    orders: tuple[str, ...]
    erased_at: str = ""


class ScannedRows(Struct, frozen=True):
    """One slice of a table: its last row, and how many rows were changed.

    `last` is None if no row was left.
    """

    last: int | None
    changed: int


class Eraser(Protocol):
    """Removes one customer from a text; None if the text does not mention them."""

    def document(self, kind: str, text: str) -> str:
        """Return an `order` or `customer` document without the customer."""
        ...

    def body(self, topic: str, body: bytes) -> bytes | None:
        """Return a webhook, read or response without the customer."""
        ...

    def text(self, text: str) -> str | None:
        """Return any other text without the customer."""
        ...


class Erasure(Protocol):
    """Erases a customer from everything that is stored. Writes may raise Busy."""

    async def find_customer(
        self, store: str, name: str, emails: Collection[str]
    ) -> CustomerTrace | None:
        """Return what is stored of the customer with this id or e-mail.

        `emails` also find orders without a customer id. Raises ReadFailed.
        """
        ...

    async def nearest(self, store: str, typed: str) -> Mapping[str, str]:
        """Return a few customers by id, with names, that are close to what was typed.

        They differ by one letter, begin with it, or have its words. Raises ReadFailed.
        """
        ...

    async def register(
        self, store: str, trace: CustomerTrace, digests: Sequence[bytes]
    ) -> None:
        """Make the fold redact this customer from now on, known by e-mail digests."""
        ...

    async def begin(self, store: str, customer_id: str) -> bool:
        """Record that an erasure is under way; return whether it was so already."""
        ...

    async def finish(self, store: str, customer_id: str) -> None:
        """Record that nothing of the customer is left."""
        ...

    async def redact(
        self, store: str, kind: str, ids: Sequence[str], eraser: Eraser, say: Describe
    ) -> int:
        """Redact customers or orders, the responses about them, and their index."""
        ...

    async def redact_rows(
        self, store: str, table: str, after: int, eraser: Eraser, slice_seconds: float
    ) -> ScannedRows:
        """Redact the rows of a table behind a row.

        `table` is `inbox`, `records`, `quarantine`, `deliveries`, `delivery_attempts`
        or `saved_views`, whose rows are of no store, and are deleted.
        Rows of other stores stay: the same person may be a customer there too.
        """
        ...

    async def audit(self, who: str, action: str, detail: str) -> None:
        """Add an audit entry."""
        ...

    async def compact_search(self, *, begin: bool) -> bool:
        """Remove deleted words from the search index; return whether more are left."""
        ...

    async def empty_log(self) -> bool:
        """Remove old bytes from the log file; False if a reader prevents it."""
        ...

    async def holds(self, texts: Sequence[str]) -> bool:
        """Return whether the files still contain one of these texts.

        An engine may leave copies of rows in unused parts of its files.
        """
        ...

    async def file_bytes(self) -> int:
        """Return the size of the database."""
        ...

    async def rewrite(self) -> None:
        """Rewrite the database without its unused parts."""
        ...


CHUNK_BYTES = 1 << 20


def spellings(texts: Iterable[str]) -> list[bytes]:
    """Return the bytes of texts in a file: plain, in JSON, and in JSON within JSON."""
    return sorted({each.encode().lower() for text in texts for each in _spelled(text)})


def _spelled(text: str) -> Iterator[str]:
    for is_ascii in (False, True):
        once = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield from (text, once, json.dumps(once, ensure_ascii=is_ascii)[1:-1])


def holds(path: Path, spelled: Sequence[bytes]) -> bool:
    """Return whether a file contains one of these; they are in lower case."""
    if not spelled or not path.exists():
        return False
    overlap = max(map(len, spelled))
    tail = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            window = tail + chunk.lower()
            if any(each in window for each in spelled):
                return True
            tail = window[-overlap:]
    return False
