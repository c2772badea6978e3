"""What a scan does that stands for itself: a shipment, or goods that came in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.scanner.codes import (
    article_of,
    order_of,
    parcel_of,
    plain,
)
from backhaul_connectors.scanner.scan import Refused, bare
from backhaul_sdk import Fulfillment, Line, Record, StockAdjustment

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_connectors.scanner.scan import Scan


class Action(Struct, frozen=True):
    """What a scan does, and how a person calls it; `record` takes its key.

    One that `adds` does more when it is done twice: a whole order leaves only once.
    """

    record: Callable[[str], Record]
    what: str
    adds: bool


def action_of(scan: Scan, *, numeric_skus: bool) -> Action:
    """Return what a scan in the mode `pack` or `receive` does. Raises Refused."""
    if scan.mode == "pack":
        return _pack(scan, numeric_skus)
    return _receive(scan, numeric_skus)


def names_the_parcel(scan: Scan) -> bool:
    """Tell whether the code is the order's own or the parcel's label, no article."""
    if scan.order is None or scan.code == scan.tracking_number:
        return True
    return (
        bare(plain(scan.code)) == bare(scan.order) or parcel_of(scan.code) is not None
    )


def tracking_of(scan: Scan) -> str | None:
    """Return the parcel's number: the one given, or the label that was scanned."""
    if scan.tracking_number or scan.order is None:
        return scan.tracking_number
    return parcel_of(scan.code)


def _pack(scan: Scan, numeric_skus: bool) -> Action:
    """Pack a whole order, or the units of one article that were scanned for it.

    Shipping cannot be undone: where both order and article are named, only what was
    scanned is shipped, never the rest.
    """
    order = scan.order or order_of(scan.code)
    if names_the_parcel(scan):
        refuse_quantity(scan)
        lines: tuple[Line, ...] = ()
        what = f"order {order} packed"
    else:
        sku = article_of(scan.code, numeric_skus=numeric_skus)
        line = Line(sku=sku, quantity=scan.quantity or 1)
        lines = (line,)
        what = f"{line.quantity} x {line.sku} of order {order} packed"
    return Action(
        lambda key: Fulfillment(
            key=key,
            order=order,
            tracking_company=scan.tracking_company,
            tracking_number=tracking_of(scan),
            lines=lines,
            everything=not lines,
            shipped_at=scan.at,
            locator=scan.locator,
            raw=scan.raw,
        ),
        what,
        adds=bool(lines),
    )


def refuse_quantity(scan: Scan) -> None:
    """Refuse a number of units where no article is named."""
    if scan.quantity is not None:
        raise Refused(
            422,
            "a quantity needs an article: put its SKU into code and the order's "
            "number into order",
        )


def _receive(scan: Scan, numeric_skus: bool) -> Action:
    """Put what came in on the shelf: a difference, never a level."""
    sku = article_of(scan.code, numeric_skus=numeric_skus)
    units = scan.quantity or 1
    return Action(
        lambda key: StockAdjustment(
            key=key,
            sku=sku,
            delta=units,
            reason="RECEIVED",
            locator=scan.locator,
            raw=scan.raw,
        ),
        f"{units} x {sku} received",
        adds=True,
    )
