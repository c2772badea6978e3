"""A row of a stock list: which article it counts, when, and the record it becomes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul_connectors.file_drop.cells import key_of, same
from backhaul_sdk import StockLevel
from backhaul_sdk.fields import stock_of

if TYPE_CHECKING:
    from datetime import date, tzinfo

    from backhaul_connectors.file_drop.cells import Origin


class LevelRow(Struct, frozen=True, kw_only=True):
    """A row that can be used; `number` may be below 0 where that is taken as 0.

    `counted_at` (RFC 3339) and `counted_on` are as the row says, None where it does
    not; of a day alone both are there.
    """

    sku: str
    number: int
    counted_at: str | None
    counted_on: date | None
    zone: tzinfo
    negative_is_zero: bool
    named: tuple[Any, ...] = ()
    full_list: bool = False

    def __call__(self, origin: Origin, *, note: str = "") -> StockLevel:
        """Return the record; `note` says what was changed before."""
        quantity, changed = stock_of(
            self.number, negative_is_zero=self.negative_is_zero
        )
        as_of = self.as_of(origin.dated)
        # Lists of one day are told apart by when they were written.
        listed = [origin.dated] if self.counted_on else []
        content = [same(self.sku), quantity, as_of, *listed, *self.named]
        return StockLevel(
            key=key_of("stock level", content),
            sku=self.sku,
            quantity=quantity,
            as_of=as_of,
            listed_at=origin.dated,
            note="; ".join(filter(None, (note, changed))),
            full_list=self.full_list,
            locator=origin.locator,
            raw=origin.raw,
        )

    def as_of(self, dated: str) -> str:
        """Return when the article was counted; `dated` is when its list was written."""
        if self.counted_on is not None and dated:
            written = datetime.fromisoformat(dated).astimezone(self.zone)
            if written.date() == self.counted_on:
                return dated
        return self.counted_at or dated


def article_of(sku: str, counted_at: str | None) -> int:
    """Return what rows of one article and one `as_of` have in common; never 0."""
    return hash((same(sku), counted_at)) or 1
