"""The host's database: documents that a connector keeps, and names in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")
FindInStore: TypeAlias = (
    "Callable[[Sequence[str]], Awaitable[Mapping[str, NameInStore] | None]]"
)
"""Returns what each text names in the store; None while the host cannot answer."""
ReadSqlite: TypeAlias = (
    "Callable[[Path, str, Sequence[Any]], Awaitable[Sequence[tuple[Any, ...]]]]"
)
"""Returns the rows of a query, with its values, on an SQLite file; raises if the file
cannot be read."""
MOST_KEY_BYTES = 2_000
"""PostgreSQL's index takes no longer ones."""
MOST_LISTED = 1_000


class LineInStore(Struct, frozen=True):
    """A line of an order: `left` units are not in any shipment yet."""

    sku: str | None
    variant_id: str | None
    left: int


class OrderInStore(Struct, frozen=True):
    """An order in its present state in the store.

    `uncertain`: the outcome of an earlier shipment is unknown, so fewer units may be
    left.
    """

    name: str
    cancelled: bool
    lines: tuple[LineInStore, ...]
    uncertain: bool = False


class NameInStore(Struct, frozen=True):
    """What a text names in the store: orders by number or id, articles by SKU or GTIN.

    `skus` and `variant_ids` are those of the articles.
    """

    orders: tuple[OrderInStore, ...] = ()
    skus: frozenset[str] = frozenset()
    variant_ids: frozenset[str] = frozenset()


async def nothing_known(names: Sequence[str]) -> Mapping[str, NameInStore] | None:
    """Find nothing: no store data is available."""
    return None


class Documents(Protocol):
    """The documents of one connection, inside one transaction.

    A key is a text without NUL, of at most 2,000 bytes as UTF-8, such as `session/7`. A
    value is any bytes, best a few kilobytes.
    """

    def get(self, key: str) -> bytes | None:
        """Return a document, None if there is none."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Store a document, in place of an earlier one. Raises ValueError for a key."""
        ...

    def delete(self, key: str) -> None:
        """Delete a document, if there is one."""
        ...

    def list(
        self, prefix: str, *, after: str = "", limit: int = MOST_LISTED
    ) -> Sequence[tuple[str, bytes]]:
        """Return the first documents whose keys begin with `prefix`, in order of key.

        Keys are compared by code point. To go on behind `limit` documents, pass the
        last key as `after`.
        """
        ...

    def find_in_store(self, names: Sequence[str]) -> Mapping[str, NameInStore] | None:
        """Return what texts name in the store, as `Connector.find_in_store` does."""
        ...


class DocumentStore(Protocol):
    """The durable documents of one connection.

    They are in the host's database: they are backed up and restored with it, and stay
    with the connection wherever it runs. No other connection sees them.
    """

    def transact(self, work: Callable[[Documents], T]) -> Awaitable[T]:
        """Run `work` in a transaction; resolve after the commit with what it returned.

        The call puts the work into the queue; works run one after another, in the order
        of their calls, and many share one commit. An exception of `work` is raised here
        and leaves nothing behind. Raises another exception if nothing could be stored.

        `work` runs in the thread that does all writes of the host: it must take less
        than 5 milliseconds, and do nothing but compute and use its documents.
        """
        ...


class NoDocuments:
    """Refuses all work: the host has not given the connector its documents."""

    def transact(self, work: Callable[[Documents], T]) -> Awaitable[T]:
        raise OSError("the host has no database for documents")


async def no_sqlite(file: Path, query: str, values: Sequence[Any]) -> Sequence[Any]:
    """Refuse to read: the host has not given the connector its reader."""
    raise OSError(f"the host cannot read {file}")


def require_key(key: str) -> None:
    """Raise ValueError if a text cannot be a key."""
    if not 0 < len(key.encode()) <= MOST_KEY_BYTES or "\0" in key:
        raise ValueError(f"{key[:40]!r} cannot be the key of a connector document")


def end_of_prefix(prefix: str) -> str:
    """Return a text behind every key that begins with a prefix."""
    return f"{prefix}\U0010ffff"
