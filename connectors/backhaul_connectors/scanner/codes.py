"""What a scanned code says: an article, a parcel, or an order's number (GS1)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import biip
from biip.gs1_digital_link_uris import GS1DigitalLinkURI
from biip.gs1_messages import GS1Message
from biip.gtin import Gtin
from biip.sscc import Sscc

from backhaul_connectors.scanner.scan import SEPARATOR, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

GTIN_LENGTHS = (8, 12, 13, 14)
_SYMBOLOGY = re.compile(r"^\][A-Za-z][0-9A-Za-z]")
_GS1_SYMBOLOGIES = ("]C1", "]d2", "]e0", "]J1", "]Q3")
_ELEMENTS = re.compile(r"^(01\d{14}|00\d{18}$)")
_LINK = re.compile(r"^https?://", re.IGNORECASE)


def plain(code: str) -> str:
    """Return the code without what its scanner says of its symbology."""
    return _SYMBOLOGY.sub("", code) if code.startswith("]") else code


def order_of(code: str) -> str:
    """Return the order's number that was scanned. Raises Refused."""
    return _printing(plain(code))


def article_of(code: str, *, numeric_skus: bool = False) -> str:
    """Return the SKU or GTIN that a code stands for. Raises Refused.

    A GTIN out of a GS1 code comes without the zeros that fill it up; lot, serial
    number and date are passed over.
    """
    if message := _message_of(code):
        return _gtin_in(message)
    if _LINK.match(code):
        return _gtin_of_link(code)
    text = _printing(plain(code))
    if not (text.isascii() and text.isdigit()) or numeric_skus:
        return text
    if len(text) in GTIN_LENGTHS:
        _verified(Gtin.parse, text)
    if len(text) == 18:
        _verified(Sscc.parse, text)
        raise Refused(422, f"{text} is the number of a parcel, not of an article")
    return text


def parcel_of(code: str) -> str | None:
    """Return the SSCC, where the code is a parcel's label. Raises Refused."""
    if message := _message_of(code):
        sscc = message.element_strings.get(ai="00")
        return sscc.value if sscc else None
    text = plain(code)
    if len(text) == 18 and text.isascii() and text.isdigit():
        _verified(Sscc.parse, text)
        return text
    return None


def warm() -> None:
    """Read the tables of prefixes, which takes a moment the first time."""
    biip.parse("4006381333931")


def _message_of(code: str) -> GS1Message | None:
    """Read element strings, with or without symbology, separators or brackets."""
    text = plain(code)
    is_message = code.startswith(_GS1_SYMBOLOGIES) or SEPARATOR in text
    try:
        if text.startswith("(") and re.match(r"^\((00|01)\)", text):
            return GS1Message.parse_hri(text)
        if is_message or _ELEMENTS.match(text):
            return GS1Message.parse(text.lstrip(SEPARATOR))
    except biip.ParseError as error:
        raise Refused(422, f"this GS1 code cannot be read: {_words(error)}") from None
    return None


def _gtin_in(message: GS1Message) -> str:
    element = message.element_strings.get(ai="01")
    if element is None:
        raise Refused(422, "this GS1 code names no article: it has no GTIN")
    if element.gtin is None:
        raise Refused(422, _wrong(element.value))
    return _without_filling(element.gtin)


def _gtin_of_link(code: str) -> str:
    try:
        link = GS1DigitalLinkURI.parse(code)
    except (biip.ParseError, ValueError) as error:  # the latter for no address at all
        problem = f"this link names no article: {_words(error)}"
        raise Refused(422, problem) from None
    element = link.element_strings.get(ai="01")
    if element is None or element.gtin is None:
        raise Refused(422, "this link names no article: it has no GTIN")
    return _without_filling(element.gtin)


def _without_filling(gtin: Gtin) -> str:
    return gtin.value[-int(gtin.format) :].rjust(int(gtin.format), "0")


def _verified(parse: Callable[[str], object], text: str) -> None:
    try:
        parse(text)
    except biip.ParseError:
        raise Refused(422, _wrong(text)) from None


def _wrong(text: str) -> str:
    return f"the check digit of {text} is wrong: scan it again, or type it carefully"


def _words(error: Exception) -> str:
    return str(error).rstrip(".").partition("\n")[0][:MOST_WORDS]


def _printing(text: str) -> str:
    if SEPARATOR in text:
        raise Refused(422, "code has characters that do not print")
    return text


MOST_WORDS = 160
