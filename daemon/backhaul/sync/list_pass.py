"""Pages through a list whose rows move; falls back to another endpoint."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct, field

from backhaul.core.clock import to_text
from backhaul.errors import Unusable
from backhaul.platform.client import PAGE_ROWS, ReadRefused
from backhaul.sync.resource_types import LEVELS, SHOWN_LEVELS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable

    from backhaul.core.clock import Clock
    from backhaul.core.rate_limit import Priority
    from backhaul.platform.client import ShopClient
    from backhaul.sync.resource_types import ListRow, ResourceType


MOST_STEPS = 8
"""Back from a page, because of a total; deletions just then are hardly more."""
MOST_STALE_PAGES = 50
"""In a row without a row that the one before did not show, whatever is said of more."""
AHEAD = 4
"""Pages of a list without deletions that are asked for at once."""
BUCKETS = 1_024
"""Each in order: small enough that it costs little to put one more in."""


def _buckets() -> list[array[int]]:
    return [array("q") for _ in range(BUCKETS)]


class SeenIds(Struct):
    """Ids by their 64-bit hashes, of which a million need about 9 MB.

    Two that share a hash are taken for one: of a million, once in ten million walks.
    """

    _buckets: list[array[int]] = field(default_factory=_buckets)

    def add(self, ids: Iterable[str]) -> frozenset[str]:
        """Take ids in; return those that were not known."""
        return frozenset(id_ for id_ in ids if self._add(id_))

    def _add(self, id_: str) -> bool:
        bucket, wanted, at = self._find(id_)
        is_new = at == len(bucket) or bucket[at] != wanted
        if is_new:
            bucket.insert(at, wanted)
        return is_new

    def __contains__(self, id_: str) -> bool:
        bucket, wanted, at = self._find(id_)
        return at < len(bucket) and bucket[at] == wanted

    def _find(self, id_: str) -> tuple[array[int], int, int]:
        """Return where an id stands, or is to stand."""
        wanted = hash(id_)
        bucket = self._buckets[wanted % BUCKETS]
        return bucket, wanted, bisect_left(bucket, wanted)


class ListPage(Struct, frozen=True):
    """One page as it was shown."""

    page: int
    rows: tuple[ListRow, ...]
    elements: int
    began_at: str
    total: int | None = None
    has_more: bool | None = None

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(row.id or row.body.hex() for row in self.rows)


Fetch: TypeAlias = "Callable[[int], Coroutine[None, None, ListPage]]"


def page_fetcher(
    kind: ResourceType, client: ShopClient, clock: Clock, priority: Priority
) -> Fetch:
    """Return what reads a page of a kind."""

    async def fetch(number: int) -> ListPage:
        began, started = to_text(clock.now()), clock.monotonic()
        listing = await client.page(kind.path, number, priority)
        read_at = began
        if listing.dated is not None:
            # The platform's clock, less what the request took: not after the reading.
            took = timedelta(seconds=clock.monotonic() - started)
            read_at = to_text(listing.dated - took)
        rows = [row for body in listing.rows for row in kind.rows(body, read_at)]
        return ListPage(
            number,
            tuple(rows),
            len(listing.rows),
            began,
            listing.total,
            listing.has_more,
        )

    return fetch


class ListPass(Struct):
    """A walk from the page after `done`, where the list had `total` rows."""

    fetch: Fetch
    deletable: bool
    pages_ignored: Callable[[], None]
    done: int = 0
    total: int | None = None
    _before: frozenset[str] = field(default_factory=frozenset)
    _known: SeenIds = field(default_factory=SeenIds)
    _fresh: bool = False
    _size: int = 0
    """Rows that the platform shows on a page; 0 until one tells."""
    _stepped: Counter[tuple[int, int]] = field(default_factory=Counter)
    _stale: int = 0

    async def pages(self) -> AsyncIterator[ListPage]:
        """Yield every page at least once, in an order that skips no row."""
        # The last page that is done is read again: rows may have come up to its end.
        number = max(self.done, 1)
        if self.total is None and self.deletable:
            number = 1
        while True:
            for page in await self._window(number):
                self._learn_size(page)
                if self._has_shrunk(page):
                    number = max(page.page - self._pages_lost(page), 1)
                    self.total, self._before = page.total, frozenset()
                    break
                is_over = self._is_beyond_the_end(page)
                if not is_over:
                    yield self._accept(page)
                    number = page.page + 1
                    is_over = page.has_more is False
                if is_over:
                    if not self._must_repeat():
                        return
                    number = 1
                    break

    async def _window(self, number: int) -> list[ListPage]:
        """Fetch a page, or several at once while nothing moves the list."""
        if self.deletable or self.total is None:
            return [await self.fetch(number)]
        last = max(-(-self.total // (self._size or PAGE_ROWS)), number)
        numbers = range(number, min(number + AHEAD, last + 1))
        # Answered in another order than asked, a page that should be later may be of
        # before a new row came: its total is smaller then, as after a deletion.
        return await asyncio.gather(*(self.fetch(n) for n in numbers))

    def _learn_size(self, page: ListPage) -> None:
        """Take the longest page for a full one: a walk may begin at any."""
        if page.has_more is not False:
            self._size = max(self._size, page.elements)

    def _has_shrunk(self, page: ListPage) -> bool:
        if self.total is None or page.total is None:
            return False
        if page.page == 1 or page.total >= self.total:
            return False
        # A total that falls there again and again is no count of the list.
        step = page.page, page.total
        self._stepped[step] += 1
        return self._stepped[step] <= MOST_STEPS

    def _pages_lost(self, page: ListPage) -> int:
        """Return how far to step back: to the first page while no size is known."""
        if not self._size:
            return page.page
        lost = (self.total or 0) - (page.total or 0)
        return -(-lost // self._size)

    def _is_beyond_the_end(self, page: ListPage) -> bool:
        """Tell whether a page shows nothing that the one before it did not.

        More than a page of new rows may have come in between: `has_more` knows better.
        """
        if not page.elements:
            return True
        same = page.page > 1 and page.rows and page.ids <= self._before
        self._stale = self._stale + 1 if same else 0
        is_believed = page.has_more and self._stale < MOST_STALE_PAGES
        if same and not is_believed and page.page > self.done + 1:
            self.pages_ignored()
            return True
        return False

    def _must_repeat(self) -> bool:
        """Without totals a list that moves both ways is walked until it is stable."""
        if not self.deletable or self.total is not None or not self._fresh:
            return False
        self._fresh, self._before = False, frozenset()
        return True

    def _accept(self, page: ListPage) -> ListPage:
        self._before = page.ids
        self.total = page.total
        if page.total is None and self.deletable:
            self._fresh = bool(self._known.add(page.ids)) or self._fresh
        return page


T = TypeVar("T")

NOT_OFFERED = frozenset({403, 404, 405})
"""Answers to a list that the key or the platform does not offer."""


class NotOffered(Unusable):
    """No way to read the list is offered; the text is the last refusal."""


async def first_offered(
    kind: ResourceType, read: Callable[[ResourceType], Awaitable[T]]
) -> T:
    """Read by the first way that is offered. Raises NotOffered where none is.

    `read` raises ReadRefused for the list itself only: any other object that is
    refused says nothing about the list.
    """
    refused = ""
    for way in (kind, SHOWN_LEVELS) if kind is LEVELS else (kind,):
        try:
            return await read(way)
        except ReadRefused as error:
            if error.status not in NOT_OFFERED:
                raise
            refused = str(error)
    raise NotOffered(refused)
