"""Finding and erasing the personal data of customers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from backhaul.store.read_models import Describe


class CustomerTrace(Struct, frozen=True):
    """What the mirror holds of a person: the customer's id, documents, orders' ids.

    `forgotten_at` is when the person was forgotten before, empty if never.
    """

    customer_id: str
    documents: tuple[str, ...]
    orders: tuple[str, ...]
    forgotten_at: str = ""


class ScannedRows(Struct, frozen=True):
    """One slice of looking through a table: the last row, how many were changed.

    `last` is None where nothing was left.
    """

    last: int | None
    changed: int


class Eraser(Protocol):
    """What is left of a person's data; None where it says nothing of the person."""

    def document(self, kind: str, text: str) -> str:
        """Return an `order` or `customer` without the person."""
        ...

    def body(self, topic: str, body: bytes) -> bytes | None:
        """Return a delivery, read or answer without the person."""
        ...

    def text(self, text: str) -> str | None:
        """Return a row of any kind without the person."""
        ...


class Erasure(Protocol):
    """Erasing a person from everything that is kept. All verbs may raise Busy."""

    async def find_customer(
        self, store: str, name: str, emails: Collection[str]
    ) -> CustomerTrace | None:
        """Return what is held of the customer with this id or e-mail.

        By their `emails` guests' orders are found as well.
        """
        ...

    async def register(
        self, store: str, trace: CustomerTrace, digests: Sequence[bytes]
    ) -> None:
        """From now on the fold redacts this person; addresses are known by digest."""
        ...

    async def begin(self, store: str, customer_id: str) -> bool:
        """Note that erasing is under way; tell whether it was so already."""
        ...

    async def finish(self, store: str, customer_id: str) -> None:
        """Note that nothing is left to do."""
        ...

    async def redact(
        self, store: str, kind: str, ids: Sequence[str], eraser: Eraser, say: Describe
    ) -> int:
        """Redact customers or orders, their answers, and what they are found by."""
        ...

    async def redact_rows(
        self, store: str, table: str, after: int, eraser: Eraser, slice_seconds: float
    ) -> ScannedRows:
        """Redact what `inbox`, `records` or `quarantine` hold beyond a row.

        What is another store's stays: the same person may be a customer there too.
        """
        ...

    async def compact_search(self, *, begin: bool) -> bool:
        """Drop what the index has only marked as gone; True while more is to do."""
        ...

    async def empty_log(self) -> bool:
        """Take the old bytes out of the log file; False where a reader holds it."""
        ...

    async def holds(self, texts: Sequence[str]) -> bool:
        """Tell whether the file still holds one of these.

        SQLite leaves copies of rows behind in pages that it has put in order.
        """
        ...

    async def file_bytes(self) -> int:
        """Return how large the file is."""
        ...

    async def rewrite(self) -> None:
        """Write the file anew, without what is in no table any more."""
        ...

    async def audit(self, who: str, action: str, detail: str) -> None:
        """Write down who did what."""
        ...
