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
from backhaul.platform.client import NOT_OFFERED, PAGE_ROWS, ReadRefused
from backhaul.sync.resource_types import LEVELS, SHOWN_LEVELS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable

    from backhaul.core.clock import Clock
    from backhaul.core.rate_limit import Priority
    from backhaul.platform.client import PlatformClient
    from backhaul.sync.resource_types import ListRow, ResourceType


MOST_STEPS = 8
"""How often a pass steps back at one page and total: deletions cause few steps."""
MOST_STALE_PAGES = 50
"""Pages in a row without a new row that end a pass, even if `has_more` is true."""
AHEAD = 4
"""Pages that are fetched concurrently, for a list without deletions."""
BUCKETS = 1_024
"""Sorted arrays of hashes, small enough that an insertion is cheap."""


def _buckets() -> list[array[int]]:
    return [array("q") for _ in range(BUCKETS)]


class SeenIds(Struct):
    """A set of ids, kept as 64-bit hashes: a million ids need about 9 MB.

    Two ids with the same hash count as one: with a million ids, this happens once in
    ten million passes.
    """

    _buckets: list[array[int]] = field(default_factory=_buckets)

    def add(self, ids: Iterable[str]) -> frozenset[str]:
        """Add ids; return those that are new."""
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
        """Return the bucket, hash and position of an id, present or not."""
        wanted = hash(id_)
        bucket = self._buckets[wanted % BUCKETS]
        return bucket, wanted, bisect_left(bucket, wanted)


class ListPage(Struct, frozen=True):
    """One page of a list, as the platform answered it."""

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
    kind: ResourceType, client: PlatformClient, clock: Clock, priority: Priority
) -> Fetch:
    """Return a function that reads a page of a list by its number."""

    async def fetch(number: int) -> ListPage:
        began, started = to_text(clock.now()), clock.monotonic()
        listing = await client.page(kind.path, number, priority)
        read_at = began
        if listing.dated is not None:
            # The platform's time minus the duration of the request: never too late.
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
    """Pages through a list from the page after `done`, where it had `total` rows."""

    fetch: Fetch
    deletable: bool
    pages_ignored: Callable[[], None]
    done: int = 0
    total: int | None = None
    _before: frozenset[str] = field(default_factory=frozenset)
    _known: SeenIds = field(default_factory=SeenIds)
    _fresh: bool = False
    _size: int = 0
    """Rows on a full page; 0 until a page shows it."""
    _stepped: Counter[tuple[int, int]] = field(default_factory=Counter)
    _stale: int = 0

    async def pages(self) -> AsyncIterator[ListPage]:
        """Yield every page at least once, in an order that skips no row."""
        # Read the last finished page again: rows may have moved up to its end.
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
        # Responses may be generated out of order. A later page that was generated
        # before a new row came has a smaller total, as after a deletion.
        return await asyncio.gather(*(self.fetch(n) for n in numbers))

    def _learn_size(self, page: ListPage) -> None:
        """Take the longest page so far as a full one; a pass may begin at any page."""
        if page.has_more is not False:
            self._size = max(self._size, page.elements)

    def _has_shrunk(self, page: ListPage) -> bool:
        if self.total is None or page.total is None:
            return False
        if page.page == 1 or page.total >= self.total:
            return False
        # A total that falls here repeatedly does not count the list.
        step = page.page, page.total
        self._stepped[step] += 1
        return self._stepped[step] <= MOST_STEPS

    def _pages_lost(self, page: ListPage) -> int:
        """Return how many pages to step back: all while no page size is known."""
        if not self._size:
            return page.page
        lost = (self.total or 0) - (page.total or 0)
        return -(-lost // self._size)

    def _is_beyond_the_end(self, page: ListPage) -> bool:
        """Return whether a page has no row that the previous page did not have.

        With `has_more` the pass continues: more than a page of new rows may have
        pushed the same rows down.
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
        """Return whether to read the list again: without totals, until it is stable."""
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


class NotOffered(Unusable):
    """No endpoint for the list is offered; the text is the last refusal."""


async def first_offered(
    kind: ResourceType, read: Callable[[ResourceType], Awaitable[T]]
) -> T:
    """Read a list from the first endpoint that is offered. Raises NotOffered.

    `read` must raise ReadRefused for the list itself only: a refusal of any other
    object says nothing about the list.
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
