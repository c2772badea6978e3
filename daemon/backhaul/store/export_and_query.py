"""What exports read from the inbox, and an operator's SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store.inbox import Arrival


class EventFilter(Struct, frozen=True):
    """Which events; None is any. Times are text in UTC, `until` is exclusive.

    `object` is an order by id, name, number or external id, a product by id or handle,
    a variant by SKU, or a customer by id or e-mail.
    """

    store: str | None = None
    kind: str | None = None
    topic: str | None = None
    since: str | None = None
    until: str | None = None
    object: str | None = None


class InboxExport(Protocol):
    """The inbox page by page: the events exactly as they arrived."""

    @property
    def pruned(self) -> int:
        """How many events `arrivals` left out because retention deleted them."""
        ...

    def facts(self) -> dict[str, str]:
        """Return the facts of each store, as JSON."""
        ...

    def outcomes(self) -> dict[str, int]:
        """Return how many events have each state."""
        ...

    def arrivals(self, wanted: EventFilter) -> Iterator[Arrival]:
        """Yield the events that are in the inbox now, in order of arrival.

        No read lasts long, so that the daemon's checkpoints do not wait.
        """
        ...


class QueryLimits(Struct, frozen=True):
    """How large a result may be; `bytes` counts values, and names for each row."""

    rows: int
    bytes: int


FILE = QueryLimits(100_000, 64 << 20)


TABLE = QueryLimits(20_000, 4 << 20)
"""For a table on a terminal, which takes much longer to lay out."""


LONGEST_SECONDS = 5.0
"""A longer query would keep the engine from cleaning up."""


class QueryResult(Struct, frozen=True):
    """The names of the columns, and the rows.

    `withheld` names the columns that are NULL because they hold secrets.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    withheld: tuple[str, ...] = ()


class SqlConsole(Protocol):
    """Runs an operator's SQL, and reads whole tables; it cannot write.

    Texts that are damaged in the database come with replacement characters.
    """

    def query(self, sql: str, limits: QueryLimits = ...) -> QueryResult:
        """Run one statement that reads. Raises BackhaulError with what is wrong."""
        ...

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the published columns of a table or view. Raises BackhaulError."""
        ...

    def pages(self, table: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield all rows of a table in the order of its key, each page a short read.

        So the rows are not of one moment: each page shows the table as it is then.
        """
        ...
