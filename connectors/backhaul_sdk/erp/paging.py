"""Reads an ERP page by page: shipments by windows of time, then the whole stock."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from backhaul_sdk.contract import Batch
from backhaul_sdk.erp.failures import ServerFailed
from backhaul_sdk.fields import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from backhaul_sdk.erp.settings import ErpSettings
    from backhaul_sdk.records import Bad, Record

SAME_PAGE = "the server returned the same page again, though more was asked for"
BEGINNING = "1970-01-01T00:00:00+00:00"


class ErpCursor(Struct, frozen=True):
    """How far was read.

    Shipments that were written from `since` to before `until` are being read, in the
    order of their ids, and `shipment` is the last one; with an empty `until` everything
    before `since` was read. `product` is the last product while the stock is being
    read, `counted` is when the last stock reading began, in seconds since 1970.

    ERPs show times without their fractions of a second, or compare them without. So a
    position (time, id) could skip a shipment of the same second. Within a window that
    has ended the id alone is exact. A shipment that is written again leaves its window,
    and comes with a later one.
    """

    since: str = ""
    until: str = ""
    shipment: int | str = ""
    product: int | str = ""
    counted: float = 0.0

    def to_text(self) -> str:
        return json.dumps(
            [self.since, self.until, self.shipment, self.product, self.counted]
        )

    @classmethod
    def from_text(cls, text: str | None) -> ErpCursor:
        """Read the host's text; invalid text means from the beginning."""
        try:
            since, until, shipment, product, counted = json.loads(text or "")
            found = cls(since, until, shipment, product, float(counted))
            return found if found.is_valid() else cls()
        except UNREADABLE:
            return cls()

    def is_valid(self) -> bool:
        """Return True if the times have offsets, and the ids are texts or numbers."""
        lasts = (self.shipment, self.product)
        if not all(type(last) in (int, str) for last in lasts):
            return False
        return math.isfinite(self.counted) and None not in (
            each.tzinfo for each in self.window
        )

    @property
    def window(self) -> tuple[datetime, datetime]:
        """The times in UTC between which shipments are being read."""
        since, until = self.since or BEGINNING, self.until or BEGINNING
        return datetime.fromisoformat(since), datetime.fromisoformat(until)

    def needs_present_time(self, known: datetime) -> bool:
        """Return True if the next page needs a later time than the `known` one.

        Within a window the time of the server's last answer is sufficient: it is only
        compared with the end of the window.
        """
        return not self.until or datetime.fromisoformat(self.until) > known

    def in_window(self, now: datetime, lag_seconds: float) -> ErpCursor | None:
        """Return the cursor with a window; None if nothing is old enough to be read.

        If the server's clock was set back, new shipments would sort before the cursor:
        then all are read again, and the host ignores known keys.
        """
        cursor = self
        if datetime.fromisoformat(self.until or self.since or BEGINNING) > now:
            cursor = replace(self, since="", until="", shipment="")
        if cursor.until:
            return cursor
        until = (now - timedelta(seconds=lag_seconds)).replace(microsecond=0)
        if until <= datetime.fromisoformat(cursor.since or BEGINNING):
            return None
        return replace(cursor, until=until.isoformat(), shipment="")

    def after(self, last: int | str | None, *, more: bool) -> ErpCursor:
        """Return the cursor after a page of shipments that ended with `last`."""
        if more and last is not None:
            return replace(self, shipment=last)
        if last is None and not self.shipment:
            # Nothing was in the window: it grows until the next pull.
            return replace(self, until="")
        return replace(self, since=self.until, until="", shipment="")

    def is_stock_due(self, now: datetime, every_seconds: float) -> bool:
        """Return True if a stock reading is due, or has not ended."""
        since = now.timestamp() - self.counted
        # A clock that was set back must not delay the stock until the old time.
        is_due = self.product != "" or abs(since) >= every_seconds
        return bool(every_seconds) and is_due

    def after_stock(
        self, last: int | str | None, as_of: datetime, *, more: bool
    ) -> ErpCursor:
        """Return the cursor after a page of products that ended with `last`."""
        counted = self.counted if self.product != "" else as_of.timestamp()
        product = last if more and last is not None else ""
        return replace(self, product=product, counted=counted)

    def without_stock(self) -> ErpCursor:
        """Return the cursor from which the whole stock is read again."""
        return replace(self, product="", counted=0.0)


class Cursor(Protocol):
    """A position that the host keeps as a text."""

    def to_text(self) -> str: ...


CursorT = TypeVar("CursorT", bound=Cursor)


class RecordPage(Struct, Generic[CursorT], frozen=True):
    """Records, the cursor after them, and whether there may be more."""

    records: Sequence[Record | Bad]
    cursor: CursorT
    more: bool


class ErpReader(Protocol[CursorT]):
    """Reads pages of one ERP."""

    async def shipments(self, cursor: CursorT) -> RecordPage[CursorT]:
        """Return the next finished shipments."""
        ...

    async def is_stock_due(self, cursor: CursorT) -> bool:
        """Return True if the stock must be read now."""
        ...

    async def stock(self, cursor: CursorT) -> RecordPage[CursorT]:
        """Return the next stock counts."""
        ...


async def read_batches(
    reader: ErpReader[CursorT], cursor: CursorT, settings: ErpSettings
) -> AsyncGenerator[Batch]:
    """Yield what is new: shipments, and the stock when it is due.

    Raises ServerFailed for a server that returns the same page again.
    """
    more = settings.shipments
    while more:
        page = await reader.shipments(cursor)
        moved, cursor, more = page.cursor != cursor, page.cursor, page.more
        if more and not moved:
            raise ServerFailed(SAME_PAGE)
        if moved:
            yield Batch(records=page.records, cursor=cursor.to_text())
    more = bool(settings.stock_seconds) and await reader.is_stock_due(cursor)
    while more:
        page = await reader.stock(cursor)
        if page.more and page.cursor == cursor:
            raise ServerFailed(SAME_PAGE)
        cursor, more = page.cursor, page.more
        yield Batch(records=page.records, cursor=cursor.to_text())


async def all_rows(
    page_after: Callable[[Any], Awaitable[Sequence[dict[str, Any]]]],
    field: str,
    size: int,
    *,
    first: int | str,
) -> list[dict[str, Any]]:
    """Return all rows of a list, read page by page in the order of `field`.

    `page_after` returns the next `size` rows whose field is above a value; `first` is
    below all. Raises ServerFailed for a server that returns the same page again.
    """
    rows: list[dict[str, Any]] = []
    last: Any = first
    while True:
        page = await page_after(last)
        rows += page
        if len(page) < size:
            return rows
        if page[-1][field] == last:
            raise ServerFailed(SAME_PAGE)
        last = page[-1][field]
