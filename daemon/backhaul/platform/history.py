"""The platform's stock history: who changed what, newest first."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.core import strict_json
from backhaul.core.clock import from_text, to_text
from backhaul.core.effect_proof import Move
from backhaul.core.identity import TAG_PREFIX
from backhaul.core.rate_limit import Priority
from backhaul.errors import Unusable
from backhaul.platform import decoding, schemas
from backhaul.platform.client import PAGE_ROWS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from backhaul.core.clock import Clock
    from backhaul.platform.client import PlatformClient
    from backhaul.platform.responses import Listing

PATH = "/inventory/history"
INITIAL_STOCK = "INITIAL_STOCK"
"""The reason of a new variant's first stock, which its product reports already."""
MOST_PAGES = 50
"""Most pages of one product, or pages in a row without a new row."""
MOST_READINGS = 8
MOST_REUSED_SECONDS = 60.0
"""For how long a reading is used again. Readings take memory."""


class History(Struct, frozen=True):
    """Moves, the newest first; `complete` if every requested move was read."""

    moves: tuple[Move, ...]
    complete: bool


async def of_product(
    client: PlatformClient, product_id: str, since: str | None
) -> History:
    """Read a product's moves made after the adjustment `since` (or all).

    Moves of the same time as `since` are included: a platform may report whole seconds
    only. Raises NotSent, OutcomeUnknown, ReadRefused or Unusable.
    """
    marks: list[str] = []

    def enough(move: Move, at: str) -> bool:
        if move.adjustment_id == since:
            marks.append(at)
        return bool(marks) and at < marks[0]

    history = await _read(client, {"productId": product_id}, enough)
    kept = (
        move
        for move in history.moves
        if move.product_id == product_id and move.adjustment_id != since
    )
    return History(tuple(kept), history.complete)


class _Reading(Struct, frozen=True):
    history: History
    began_at: str
    began: float


class ProductHistories:
    """Readings of the histories of products, each used for all checks due before it.

    After a restore, thousands of commands of one product may have to be checked.
    """

    def __init__(self, client: PlatformClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._readings = OrderedDict[tuple[str, str | None], _Reading]()

    async def read(self, product_id: str, since: str | None, due_at: str) -> History:
        """Return what `of_product` returned at or after `due_at`, if need be now.

        Raises what `of_product` raises.
        """
        key = product_id, since
        known = self._readings.pop(key, None)
        if known is None or not self._serves(known, due_at):
            began_at, began = to_text(self._clock.now()), self._clock.monotonic()
            history = await of_product(self._client, product_id, since)
            known = _Reading(history, began_at, began)
        self._readings[key] = known
        if len(self._readings) > MOST_READINGS:
            self._readings.popitem(last=False)
        return known.history

    def _serves(self, known: _Reading, due_at: str) -> bool:
        """Return True if a reading began after `due_at`, by both clocks.

        A wall clock that was set since would make one of the two answers wrong.
        """
        now, ago = self._clock.now(), self._clock.monotonic() - known.began
        if not due_at < known.began_at <= to_text(now):
            return False
        return ago <= min(
            MOST_REUSED_SECONDS, (now - from_text(due_at)).total_seconds()
        )


async def back_to(
    client: PlatformClient, since: str, skipped: Callable[[Unusable], None]
) -> AsyncIterator[list[Move]]:
    """Yield the store's moves of that time and later, page by page, newest first.

    A row that cannot be read and has no tag of our own is passed to `skipped`. Rows
    that arrive meanwhile push others onto the next page; no row is missed or yielded
    twice. After more than a page of new rows, the next page has no new ones.
    """
    seen: set[str] = set()
    stale_pages = 0
    for number in count(1):
        listing = await client.page(PATH, number, Priority.PROOF)
        rows = list(_readable(listing, skipped))
        fresh = [row for row in rows if row.id not in seen]
        seen |= {row.id for row in fresh}
        yield [_move(row) for row in fresh if row.created_at >= since]
        stale_pages = 0 if fresh else stale_pages + 1
        ends = _is_last(listing, has_new=bool(fresh)) or stale_pages >= MOST_PAGES
        if ends or is_past([row.created_at for row in rows], since):
            return


def is_past(times: Iterable[str], since: str) -> bool:
    """Return True if a page reaches the time before `since`; one odd row is ignored.

    A row dated in year 1, as some programs write it, may be among those of today.
    """
    return sum(at < since for at in times) > 1


async def _read(
    client: PlatformClient,
    filters: Mapping[str, str | int],
    enough: Callable[[Move, str], bool],
) -> History:
    found: dict[str, Move] = {}
    unread: list[Unusable] = []
    for number in range(1, MOST_PAGES + 1):
        listing = await client.page(PATH, number, Priority.PROOF, filters)
        before = len(found)
        for row in _readable(listing, unread.append):
            move = _move(row)
            if enough(move, row.created_at):
                return History(tuple(found.values()), complete=not unread)
            found[row.id] = move
        if _is_last(listing, has_new=len(found) > before):
            # If all rows are known, they may come from the page before, pushed here.
            pushed = listing.has_more is None and len(listing.rows) >= PAGE_ROWS
            return History(tuple(found.values()), complete=not (pushed or unread))
    return History(tuple(found.values()), complete=False)


def _is_last(listing: Listing, *, has_new: bool) -> bool:
    """Return True if a page is the last; if it does not say so, without new rows."""
    if listing.has_more is None:
        return not has_new
    return not (listing.has_more and listing.rows)


def _readable(
    listing: Listing, skipped: Callable[[Unusable], None]
) -> Iterator[schemas.Moved]:
    """Parse the rows of a page; foreign rows may have any shape."""
    for body in listing.rows:
        try:
            yield decoding.moved(strict_json.decode_object(body))
        except Unusable as error:
            if TAG_PREFIX.encode() in body:
                raise
            skipped(error)


def _move(entry: schemas.Moved) -> Move:
    """Return an entry as a move; missing ids become empty texts."""
    return Move(
        adjustment_id=entry.adjustment_id or "",
        product_id=entry.product_id or "",
        variant_id=entry.variant_id or "",
        delta=entry.adjustment or 0,
        note=entry.note,
        source_id=entry.source.id if entry.source else None,
        at=entry.created_at,
        order_id=str(entry.order_id) if entry.order_id else None,
    )


class HistoryMove(Struct, frozen=True):
    """A row of the stock history that moved the stock of a variant."""

    adjustment_id: str
    product_id: str
    variant_id: str
    entry: schemas.Entry

    @property
    def is_whole(self) -> bool:
        return None not in (self.entry.adjustment, self.entry.stock_after)


def move_of(row: schemas.Entry) -> HistoryMove | None:
    """Return the move that a row describes; None for a new variant's first stock."""
    ids = (row.adjustment_id, row.product_id, row.variant_id)
    adjustment, product, variant = (id_ or "" for id_ in ids)
    if not (adjustment and product and variant) or row.reason == INITIAL_STOCK:
        return None
    return HistoryMove(adjustment, product, variant, row)


def adjustments(moves: Iterable[HistoryMove]) -> list[dict[str, Any]]:
    """Group moves into events: an order causes one event for each product."""
    grouped: dict[tuple[str, str], list[HistoryMove]] = defaultdict(list)
    for move in moves:
        grouped[move.adjustment_id, move.product_id].append(move)
    return [_adjustment(parts) for parts in grouped.values()]


def _adjustment(parts: list[HistoryMove]) -> dict[str, Any]:
    first = parts[0]
    return {
        "adjustmentId": first.adjustment_id,
        "productId": first.product_id,
        "reason": first.entry.reason or "",
        "orderId": first.entry.order_id,
        "updatedAt": first.entry.created_at,
        "levels": [
            {
                "variantId": part.variant_id,
                "stock": part.entry.stock_after,
                "adjustment": part.entry.adjustment,
            }
            for part in parts
        ],
    }
