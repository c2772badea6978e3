"""Classifies a scanned code: an article, an order number or a parcel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

import biip
from biip.gtin import Gtin
from biip.upc import Upc
from msgspec import Struct

from backhaul_connectors.scanner.gs1 import (
    content_of,
    is_link,
    without_symbology,
    wrong_check_digit,
)
from backhaul_connectors.scanner.labels import label_of
from backhaul_connectors.scanner.scan import SEPARATOR, ScanRefused
from backhaul_sdk.fields import counted

if TYPE_CHECKING:
    from backhaul_connectors.scanner.gs1 import Gs1Content

GTIN_LENGTHS = (8, 12, 13, 14)
_RETAIL_SYMBOLOGIES = ("]E", "]I1")
"""EAN, UPC and ITF with a check digit: they contain only article numbers."""
_ORDER_PATH = re.compile(r"/orders?/([^/?#]*\d[^/?#]*)", re.IGNORECASE)
_ORDER_QUERIES = ("order", "order_id", "order_number", "orderId", "orderNumber")
_NO_ORDER = re.compile(
    r"^(?:WIFI|MAILTO|TEL|SMSTO|GEO|BEGIN|MECARD|OTPAUTH|MATMSG):", re.IGNORECASE
)


class ScannedArticle(Struct, frozen=True):
    """The article in a code: a SKU or a GTIN.

    `others` are further readings of the same code. `units` is the number of units that
    the code itself states; `several`: it holds several units and states no number.
    """

    name: str
    others: tuple[str, ...] = ()
    units: int | None = None
    several: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Every reading, the likeliest first."""
        return (self.name, *self.others)

    def count(self, quantity: int | None) -> int:
        """Return the units of one scan. Raises ScanRefused."""
        if self.several and quantity is None:
            what = f"this code holds several units of {self.name} and states no number"
            raise ScanRefused(422, f"{what}: scan a single unit, or send quantity")
        if self.units and quantity not in (None, self.units):
            units = counted(self.units, "unit")
            what = f"the code itself says {units}, quantity says {quantity}"
            raise ScanRefused(422, f"{what}: leave quantity out")
        return self.units or quantity or 1


def plain(code: str) -> str:
    """Return the code without the scanner's symbology identifier."""
    return without_symbology(code)


def order_of(code: str) -> str:
    """Return the order's number in a code. Raises ScanRefused."""
    text = plain(code).strip(SEPARATOR)
    if is_link(text):
        return _order_in_link(text)
    return _printing(text)


def why_no_order(code: str) -> str | None:
    """Return why a code is certainly not an order's number; None if it may be one."""
    text = plain(code).strip(SEPARATOR)
    if is_link(text) and _linked_order(text) is not None:
        return None
    if reason := _label_or_article(code, text):
        return reason
    if is_link(text):
        return "this link names no order: it has no /orders/NUMBER in it"
    if code.startswith(_RETAIL_SYMBOLOGIES) or _is_long_gtin(text):
        return f"{text} is the EAN, UPC or GTIN of a variant, not an order"
    if _NO_ORDER.match(text) or not any(c.isdigit() for c in text):
        return f"{text!r} is not an order's number"
    return None


def _label_or_article(code: str, text: str) -> str | None:
    try:
        if label := label_of(code):
            return f"{text} is a parcel's label ({label.kind}), not an order"
        if (content := content_of(code)) and content.gtin:
            return f"{text} is a variant ({content.gtin}), not an order"
    except ScanRefused as refused:
        # Some marketplaces have order numbers as long as a label's number.
        return None if text.isdigit() else f"this is not an order: {refused}"
    return None


def article_of(code: str, *, numeric_skus: bool = False) -> ScannedArticle:
    """Return the SKU or GTIN in a code. Raises ScanRefused.

    A GTIN of a GS1 code comes without padding zeros; lot, serial number and date are
    ignored.
    """
    if content := content_of(code):
        return _article_in(content)
    if is_link(code):
        raise ScanRefused(422, "this link contains no GTIN, so it names no variant")
    text = _printing(plain(code))
    if not (text.isascii() and text.isdigit()) or numeric_skus:
        return ScannedArticle(text)
    if len(text) == 8:
        return _short(text)
    if len(text) in GTIN_LENGTHS:
        _verify(text)
    if label_of(text) is not None:
        raise ScanRefused(422, f"{text} is the number of a parcel, not a SKU")
    return ScannedArticle(text)


def parcel_of(code: str) -> str | None:
    """Return the tracking number if the code is a parcel's label. Raises ScanRefused.

    Any other code is None: it may be an article or an order.
    """
    label = label_of(code)
    return label.number if label else None


def warm() -> None:
    """Load the tables of prefixes, which takes a moment the first time."""
    biip.parse("4006381333931")


def _article_in(content: Gs1Content) -> ScannedArticle:
    if content.gtin is None:
        raise ScanRefused(422, "this GS1 code contains no GTIN, so it names no variant")
    return ScannedArticle(content.gtin, units=content.units, several=content.several)


def _short(text: str) -> ScannedArticle:
    """Parse 8 digits: EAN-8, or UPC-E, a short form of a UPC of 12 digits.

    No EAN-8 in trade begins with 0, so such a number is UPC-E.
    """
    upc, is_ean = _expanded(text), _parses(text)
    if upc is None and not is_ean:
        raise ScanRefused(422, wrong_check_digit(text))
    if upc is None:
        return ScannedArticle(text)
    if is_ean and not text.startswith("0"):
        return ScannedArticle(text, (upc,))
    return ScannedArticle(upc, (text,))


def _expanded(text: str) -> str | None:
    try:
        return Upc.parse(text).as_upc_a()
    except biip.ParseError:
        return None


def _parses(text: str) -> bool:
    try:
        Gtin.parse(text)
    except biip.ParseError:
        return False
    return True


def _verify(text: str) -> None:
    if not _parses(text):
        raise ScanRefused(422, wrong_check_digit(text))


def _is_long_gtin(text: str) -> bool:
    return (
        text.isascii() and text.isdigit() and len(text) in (12, 13, 14)
    ) and _parses(text)


def _order_in_link(text: str) -> str:
    found = _linked_order(text)
    if found is None:
        raise ScanRefused(
            422, "this link names no order: it has no /orders/NUMBER in it"
        )
    return _printing(found)


def _linked_order(text: str) -> str | None:
    """Return the order of `https://store.example/orders/1001` or `?order=1001`."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    for place in (parts.path, parts.fragment):
        if found := _ORDER_PATH.findall(place):
            return unquote(found[-1]).strip()
    values = parse_qs(parts.query)
    return next((values[name][0] for name in _ORDER_QUERIES if name in values), None)


def _printing(text: str) -> str:
    if not text.isprintable():
        raise ScanRefused(422, "code contains characters that cannot be printed")
    return text
