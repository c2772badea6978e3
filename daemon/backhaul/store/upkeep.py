"""Search index, retention, erasure and samples: what maintenance asks of a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


class Words(Struct, frozen=True):
    """What an object can be found by: its title, and everything else."""

    title: str
    words: str


Describe: TypeAlias = Callable[[str, str], Words]
"""From kind (`order`, `product`, `customer`) and document to words."""


class Followed(Struct, frozen=True):
    """One slice of indexing.

    `more` where changes wait to be indexed, `folding` where events wait to be folded.
    """

    indexed: int
    more: bool
    folding: bool


class SearchIndex(Protocol):
    """The search index: follows the change feed by a cursor of its own."""

    async def follow(self, describe: Describe, slice_seconds: float) -> Followed:
        """Index what changed, for about `slice_seconds`. May raise Busy."""
        ...

    async def rebuild(self) -> None:
        """Empty the index and begin at the first change again. May raise Busy."""
        ...


class Pruned(Struct, frozen=True):
    """One slice of pruning: how many bodies were erased, whether there is more to do.

    `counts` is how many counts of stock were dropped.
    """

    erased: int
    more: bool
    counts: int = 0


class Retention(Protocol):
    """What arrived, as far as it is kept."""

    async def prune(self, before: str, slice_seconds: float) -> Pruned:
        """Erase bodies and headers received before that time, for about that long.

        What is not folded, waits or is in quarantine keeps them. The rows of jobs' runs
        go as well, and counts of stock that were done without a step: not the newest of
        an article that was made true, nor what a person decided. May raise Busy.
        """
        ...


class Trace(Struct, frozen=True):
    """What the mirror holds of a person: the customer's id, documents, orders' ids.

    `forgotten_at` is when the person was forgotten before, empty if never.
    """

    customer_id: str
    documents: tuple[str, ...]
    orders: tuple[str, ...]
    forgotten_at: str = ""


class Scanned(Struct, frozen=True):
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


class Forgetting(Protocol):
    """Erasing a person from everything that is kept. All verbs may raise Busy."""

    async def find_person(
        self, store: str, name: str, emails: Collection[str]
    ) -> Trace | None:
        """Return what is held of the customer with this id or e-mail.

        By their `emails` guests' orders are found as well.
        """
        ...

    async def remember(
        self, store: str, trace: Trace, digests: Sequence[bytes]
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

    async def scan(
        self, store: str, table: str, after: int, eraser: Eraser, slice_seconds: float
    ) -> Scanned:
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


class Sample(Struct, frozen=True):
    """Counts of a minute, mean seconds in it, and what waited at its end."""

    at: str
    webhooks: int
    folded: int
    applied: int
    platform_seconds: float | None
    heartbeat_seconds: float | None
    events_waiting: int
    commands_open: int
    parked: int


class Samples(Protocol):
    """Keeps a day of samples."""

    async def keep(self, sample: Sample, since: str) -> None:
        """Keep a sample; forget those before `since`. May raise Busy."""
        ...

    async def mirrored(self) -> Mapping[str, int]:
        """Count what is mirrored, by table: it reads an index from end to end."""
        ...
