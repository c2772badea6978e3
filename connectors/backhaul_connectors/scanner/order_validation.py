"""Checks scans against the orders and articles of the store."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from backhaul_connectors.scanner import keyboard_layouts
from backhaul_connectors.scanner.codes import article_of, order_of, plain, why_no_order
from backhaul_connectors.scanner.scan import SEPARATOR, ScanRefused
from backhaul_sdk import NameInStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul_connectors.scanner.codes import ScannedArticle
    from backhaul_connectors.scanner.scan import Scan
    from backhaul_sdk import LineInStore, OrderInStore

NOTHING = NameInStore()


class StoreLookup:
    """What the texts of one scan name in the store; `None`: unknown now."""

    def __init__(self, named: Mapping[str, NameInStore] | None = None) -> None:
        self._named = named or {}
        self.is_known = named is not None

    def named(self, text: str) -> NameInStore:
        """Return what a text names; nothing if it was not looked up."""
        return self._named.get(text, NOTHING)

    def order(self, name: str) -> OrderInStore | None:
        """Return the only order with a name; None for none or several."""
        orders = self.named(name).orders
        return orders[0] if len(orders) == 1 else None

    def is_article(self, code: str) -> bool:
        """Return True if a code is exactly an article's SKU or GTIN."""
        return bool(self.named(_text(code)).variant_ids)

    def name_of(self, article: ScannedArticle) -> str:
        """Return the reading of a code that the store knows, else the likeliest."""
        known = (name for name in article.names if self.named(name).variant_ids)
        return next(known, article.name)


def names_in(scan: Scan, *, numeric_skus: bool) -> Sequence[str]:
    """Return every text that a scan may mean, for a single lookup."""
    names = [_text(scan.code)]
    names += (text for _, text in keyboard_layouts.readings(scan.code))
    if scan.order is not None:
        names.append(scan.order)
    with suppress(ScanRefused):
        names.append(order_of(scan.code))
    with suppress(ScanRefused):
        names += article_of(scan.code, numeric_skus=numeric_skus).names
    return list(dict.fromkeys(names))


def refuse_wrong_layout(scan: Scan, shop: StoreLookup) -> None:
    """Refuse a code with digits from another keyboard layout."""
    known = shop.named(_text(scan.code))
    found = keyboard_layouts.garbled(scan.code)
    if found and not known.orders and not known.variant_ids:
        raise ScanRefused(422, keyboard_layouts.words(scan.code, *found))


def order_named(code: str, shop: StoreLookup) -> str:
    """Return the order that a code names. Raises ScanRefused if it is certainly none.

    An order that the store knows by this name wins over every other reading. An unknown
    name may be an order that arrives in a moment.
    """
    text = _text(code)
    if shop.named(text).orders:
        return text
    if named := shop.named(text).skus:
        sku = min(named)
        raise ScanRefused(422, f"{text} is the SKU {sku}: scan the order's number")
    if reason := why_no_order(code):
        raise ScanRefused(422, f"{reason}: scan the order's number")
    name = order_of(code)
    if not shop.named(name).orders:
        _refuse_garbled(code, shop)
    return name


def refuse_unfit_order(name: str, shop: StoreLookup) -> None:
    """Refuse to start an order that cannot ship. Raises ScanRefused."""
    order = shop.order(name)
    if order is None:
        return
    if order.cancelled:
        raise ScanRefused(422, f"order {order.name} is cancelled: do not ship it")
    if not order.uncertain and not any(line.left > 0 for line in order.lines):
        raise ScanRefused(422, f"order {order.name} has nothing left to ship")


def fitting(
    order: str, name: str, lines: Sequence[LineInStore] | None, shop: StoreLookup
) -> Sequence[LineInStore]:
    """Return the order's lines that an article belongs to.

    `lines` are those of the order, None if the order is not known yet. Raises
    ScanRefused for an article that the order, or the whole store, does not have.
    """
    named = shop.named(name)
    if lines is not None:
        found = [line for line in lines if _is_of(line, name, named)]
        if found:
            return found
    if not shop.is_known:
        return ()
    if named.orders and not named.variant_ids:
        what = f"{name} is an order's number: finish order {order} first"
        raise ScanRefused(422, f"{what} (BH-CLOSE, or its own number)")
    _refuse_garbled(name, shop)
    if lines is not None:
        raise ScanRefused(
            422, f"order {order} has no SKU {name}: put the unit back and continue"
        )
    if not named.variant_ids:
        raise ScanRefused(
            422, f"the store has no SKU {name}: put the unit back and continue"
        )
    return ()


def refuse_surplus(
    order: str, name: str, lines: Sequence[LineInStore], before: int, units: int
) -> None:
    """Refuse more units than the order's lines have left. Raises ScanRefused."""
    left = sum(line.left for line in lines)
    if lines and before + units > left:
        so_far = f"{before} scanned so far" if before else "none scanned so far"
        what = f"order {order} has {left} x {name} left to ship, {so_far}"
        raise ScanRefused(
            422, f"{what}: {units} more are too many; continue without them"
        )


def _refuse_garbled(text: str, shop: StoreLookup) -> None:
    """Refuse a code that another keyboard layout would turn into a known one."""
    for layout, reading in keyboard_layouts.readings(text):
        found = shop.named(reading)
        if found.orders or found.variant_ids:
            raise ScanRefused(422, keyboard_layouts.words(text, layout, reading))


def _is_of(line: LineInStore, name: str, named: NameInStore) -> bool:
    return (
        line.sku == name
        or line.sku in named.skus
        or line.variant_id in named.variant_ids
    )


def _text(code: str) -> str:
    return plain(code).strip(SEPARATOR)
