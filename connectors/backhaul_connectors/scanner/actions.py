"""Turns a scan into a shipment of a packed order or a goods receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.scanner import keyboard_layouts
from backhaul_connectors.scanner.codes import (
    article_of,
    order_of,
    parcel_of,
    plain,
)
from backhaul_connectors.scanner.labels import tracking_number
from backhaul_connectors.scanner.order_validation import (
    fitting,
    order_named,
    refuse_surplus,
)
from backhaul_connectors.scanner.scan import MODES, SEPARATOR, ScanRefused, bare
from backhaul_sdk import Fulfillment, Line, Record, StockAdjustment
from backhaul_sdk.fields import Unusable, identifier, label

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_connectors.scanner.order_validation import StoreLookup
    from backhaul_connectors.scanner.scan import Scan

CLOSE, DROP = "BH-CLOSE", "BH-DROP"
MODE_CODES = {f"BH-{mode.upper()}": mode for mode in MODES}
COMMANDS = frozenset({CLOSE, DROP, *MODE_CODES})
"""Codes to print; they control the device's session."""


class ScanAction(Struct, frozen=True):
    """The effect of a scan, and its name for people; `record` takes its key."""

    record: Callable[[str], Record]
    what: str


def normalized(scan: Scan) -> Scan:
    """Return a scan without the additions of scanner, symbol and keyboard layout.

    Raises ScanRefused for a scan that was certainly misread.
    """
    if (command := keyboard_layouts.command_in(scan.code, COMMANDS)) is not None:
        return scan._replace(code=command)
    number = tracking_number(scan.tracking_number) if scan.tracking_number else None
    try:
        return scan._replace(
            order=order_of(scan.order) if scan.order else None,
            tracking_number=identifier(number, "tracking number", is_text=True) or None,
            tracking_company=label(scan.tracking_company, "tracking company") or None,
        )
    except Unusable as error:
        raise ScanRefused(422, str(error)) from None


def action_of(scan: Scan, shop: StoreLookup, *, numeric_skus: bool) -> ScanAction:
    """Return what a scan in the mode `pack` or `receive` does. Raises Refused."""
    if scan.mode == "pack":
        return _pack(scan, shop, numeric_skus)
    return _receive(scan, shop, numeric_skus)


def names_the_parcel(scan: Scan, shop: StoreLookup) -> bool:
    """Return True if the code is the order's own or the parcel's label."""
    code = plain(scan.code)
    if scan.order is None or scan.tracking_number in (code, scan.code):
        return True
    if bare(code) == bare(scan.order):
        return True
    return not shop.is_article(scan.code) and parcel_of(scan.code) is not None


def tracking_of(scan: Scan) -> str | None:
    """Return the parcel's number: the given one, or the scanned label."""
    if scan.tracking_number or scan.order is None:
        return scan.tracking_number
    is_order = bare(plain(scan.code)) == bare(scan.order)
    return None if is_order else parcel_of(scan.code)


def order_packed(scan: Scan, shop: StoreLookup) -> str:
    """Return the order that a scan packs. Raises Refused."""
    return order_named(scan.order or scan.code, shop)


def _pack(scan: Scan, shop: StoreLookup, numeric_skus: bool) -> ScanAction:
    """Pack a whole order, or the units of one article that were scanned for it.

    A shipment cannot be undone: if both order and article are named, only the scanned
    units are shipped, never the rest.
    """
    order = order_packed(scan, shop)
    if names_the_parcel(scan, shop):
        refuse_quantity(scan)
        lines: tuple[Line, ...] = ()
        what = f"order {order} packed"
    else:
        line = _line_of(scan, order, shop, numeric_skus)
        lines = (line,)
        what = f"{line.quantity} x {line.sku} of order {order} packed"
    number = tracking_of(scan) if not lines else scan.tracking_number
    return ScanAction(
        lambda key: Fulfillment(
            key=key,
            order=order,
            tracking_company=scan.tracking_company,
            tracking_number=number,
            lines=lines,
            everything=not lines,
            shipped_at=scan.at,
            locator=scan.locator,
            raw=scan.raw,
        ),
        what,
    )


def refuse_quantity(scan: Scan) -> None:
    """Refuse a quantity without an article."""
    if scan.quantity is not None:
        raise ScanRefused(
            422,
            "a quantity needs a SKU: put the SKU into code, and the order's number"
            " into order",
        )


def _line_of(scan: Scan, order: str, shop: StoreLookup, numeric_skus: bool) -> Line:
    article = article_of(scan.code, numeric_skus=numeric_skus)
    name, units = shop.name_of(article), article.count(scan.quantity)
    known = shop.order(order)
    lines = fitting(order, name, known.lines if known else None, shop)
    if known is None or not known.uncertain:
        refuse_surplus(order, name, lines, 0, units)
    return Line(sku=name, quantity=units)


def refuse_label(code: str, shop: StoreLookup) -> None:
    """Refuse a parcel's label in place of an article. Raises ScanRefused."""
    if not shop.is_article(code) and parcel_of(code) is not None:
        shown = plain(code).replace(SEPARATOR, "")
        raise ScanRefused(422, f"{shown} is the number of a parcel, not a SKU")


def _receive(scan: Scan, shop: StoreLookup, numeric_skus: bool) -> ScanAction:
    """Add received units to the stock: an adjustment, never a level."""
    if not numeric_skus:
        refuse_label(scan.code, shop)
    article = article_of(scan.code, numeric_skus=numeric_skus)
    sku, units = shop.name_of(article), article.count(scan.quantity)
    return ScanAction(
        lambda key: StockAdjustment(
            key=key,
            sku=sku,
            delta=units,
            reason="RECEIVED",
            locator=scan.locator,
            raw=scan.raw,
        ),
        f"{units} x {sku} received",
    )
