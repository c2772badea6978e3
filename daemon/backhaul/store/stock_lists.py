"""The list of stock: each variant with its stock, and what Backhaul pushes."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - a field of a record
from enum import StrEnum

from msgspec import Struct


class PushState(StrEnum):
    """What Backhaul pushes for a variant, in the states that a filter selects.

    `uncertain` and `adjusting` are about the adjustment, of a stock target or of a
    record; the others are states of the newest stock target. An adjustment can be
    `parked` too.
    """

    WAITING = "waiting"
    ADJUSTING = "adjusting"
    UNCERTAIN = "uncertain"
    HELD = "held"
    PARKED = "parked"


class StockPlace(Struct, frozen=True):
    """The place of a variant in a list; it is one in each order of the list."""

    store: str
    id: str
    stock: int
    sku: str

    def __str__(self) -> str:
        """Return the place as one text."""
        return f"{self.store} {self.id} {self.stock} {self.sku}"

    @classmethod
    def of(cls, text: str | None) -> StockPlace | None:
        """Return the place that a text names, or None."""
        parts = (text or "").split(" ", 3)
        if len(parts) != len(cls.__struct_fields__):
            return None
        store, id_, stock, sku = parts
        try:
            return cls(store, id_, int(stock[:19]), sku)
        except ValueError:
            return None


class ListedStock(Struct, frozen=True, kw_only=True):
    """The stock of a variant at the platform; `since` is when it last changed.

    `stock` is None if it is not known. `push` is what Backhaul pushes, a PushState or
    how the newest stock target ended, and `command` is the page to open for it.
    `counted` and `counted_at` are those of the newest stock target, which came from
    the connection `counted_by`.

    The last movement has the platform's `reason`. It belongs to `order`, or to the
    command `changed_by` of the connection `source`, whose record was at `locator`.
    """

    store: str
    sku: str | None
    product: str | None
    variant: str | None
    stock: int | None
    since: str | None
    push: str | None = None
    command: str | None = None
    counted: int | None = None
    counted_at: str | None = None
    counted_by: str | None = None
    source: str | None = None
    locator: str | None = None
    changed_by: str | None = None
    order: str | None = None
    order_id: str | None = None
    reason: str | None = None
    barcode: str | None
    product_id: str
    variant_id: str

    @property
    def place(self) -> StockPlace:
        """The place of the variant in the list."""
        return StockPlace(self.store, self.variant_id, self.stock or 0, self.sku or "")


class StockPage(Struct, frozen=True):
    """Rows of the list; `further` is the place where their search ended, if it did.

    Behind that place there may be more rows that match.
    """

    rows: Sequence[ListedStock]
    further: StockPlace | None = None
