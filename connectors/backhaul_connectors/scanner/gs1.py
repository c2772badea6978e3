"""Parses GS1 codes: element strings, bracketed text and Digital Links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import biip
from biip.gs1_digital_link_uris import GS1DigitalLinkURI
from biip.gs1_messages import GS1Message
from msgspec import Struct

from backhaul_connectors.scanner.scan import SEPARATOR, ScanRefused
from backhaul_sdk.records import MAX_DELTA

if TYPE_CHECKING:
    from biip.gs1_element_strings import GS1ElementStrings
    from biip.gtin import Gtin

MOST_WORDS = 160
SYMBOLOGY = re.compile(r"^\][A-Za-z][0-9A-Za-z]")
"""The AIM identifier that a scanner puts before a code: `]C1`, `]E0`, `]d2`."""
_GS1_SYMBOLOGIES = ("]C1", "]d2", "]e0", "]J1", "]Q3")
_ELEMENTS = re.compile(r"^(?:0[12]\d{14}|00\d{18}(?!\d))")
_BRACKETED = re.compile(r"^\(\d{2,4}\)")
_SQUARE = re.compile(r"\[(\d{2,4})\]")
_LINK = re.compile(r"^https?://", re.IGNORECASE)
_NAMED_SEPARATOR = re.compile(
    r"[\[{<(](?:GS|FNC1|0x1D)[\]}>)]|\\x1d|\\u001d|\\F|\^\]|[\u241d\u2194\x1c-\x1e]",
    re.IGNORECASE,
)
"""Spellings of the separator, which is not printable."""
_FOREIGN = re.compile(r"[|~^@$#`\\{}]")
"""Characters that no GS1 element contains: between two elements they are separators."""
SEPARATOR_HINT = (
    "the separator between its parts may be missing or replaced: set the scanner to "
    "send FNC1 as GS (ASCII 29)"
)


class InvalidGs1Code(ScanRefused):
    """A code that begins like a GS1 code but is not valid."""


class Gs1Content(Struct, frozen=True):
    """What a GS1 code identifies.

    `gtin` comes without padding zeros. `units` is the number of units that the code
    states (37); `several`: it holds several units and states no usable number. `sscc`
    has 18 digits. `postcode`: the code contains a postcode.
    """

    gtin: str | None = None
    units: int | None = None
    several: bool = False
    sscc: str | None = None
    postcode: bool = False


def without_symbology(code: str) -> str:
    """Return the code without the AIM identifier and leading separators."""
    text = SYMBOLOGY.sub("", code) if code.startswith("]") else code
    return text.lstrip(SEPARATOR)


def content_of(code: str) -> Gs1Content | None:
    """Parse a GS1 code; None for any other code.

    Raises ScanRefused, with a hint for the scanner, if a GS1 code is unreadable.
    """
    if _LINK.match(code):
        return _content_of_link(code)
    text = _normalized(code)
    is_message = code.startswith(_GS1_SYMBOLOGIES) or SEPARATOR in text
    try:
        if _BRACKETED.match(text):
            return _content(GS1Message.parse_hri(text).element_strings)
        if is_message or _ELEMENTS.match(text):
            return _content(GS1Message.parse(text.strip(SEPARATOR)).element_strings)
    except biip.ParseError as error:
        raise InvalidGs1Code(422, _unreadable(text, error)) from None
    return None


def wrong_check_digit(text: str) -> str:
    """Return the refusal of a misread number."""
    return f"the check digit of {text} is wrong: scan it again, or type it carefully"


def is_link(code: str) -> bool:
    """Return True if the code is a web address."""
    return _LINK.match(code) is not None


def _normalized(code: str) -> str:
    """Return the code with uniform brackets and separators."""
    text = without_symbology(code)
    if _SQUARE.match(text):
        return _SQUARE.sub(r"(\1)", text)
    spelled = _NAMED_SEPARATOR.sub(SEPARATOR, text).lstrip(SEPARATOR)
    if code.startswith(_GS1_SYMBOLOGIES) or _ELEMENTS.match(spelled):
        return _FOREIGN.sub(SEPARATOR, spelled)
    return spelled if spelled.count(SEPARATOR) and _starts_like_gs1(spelled) else text


def _starts_like_gs1(text: str) -> bool:
    return re.match(r"^(?:10|11|13|15|17|21|37)", text) is not None


def _content_of_link(code: str) -> Gs1Content | None:
    try:
        return _content(GS1DigitalLinkURI.parse(code).element_strings)
    except (biip.ParseError, ValueError):  # the latter if it is not a web address
        return None


def _content(elements: GS1ElementStrings) -> Gs1Content:
    sscc, gtin = elements.get(ai="00"), elements.get(ai="01")
    contained, count = elements.get(ai="02"), elements.get(ai="37")
    element = gtin or contained
    if element is not None and element.gtin is None:
        raise ScanRefused(422, wrong_check_digit(element.value))
    if sscc is not None and sscc.sscc is None:
        raise ScanRefused(422, wrong_check_digit(sscc.value))
    return Gs1Content(
        gtin=_without_filling(element.gtin) if element and element.gtin else None,
        units=_units(count.value) if gtin is None and count else None,
        several=elements.get(ai="30") is not None or bool(contained and not count),
        sscc=sscc.value if sscc else None,
        postcode=any(elements.get(ai=ai) for ai in ("420", "421")),
    )


def _units(text: str) -> int:
    if int(text) < 1:
        raise ScanRefused(422, "this GS1 code says that it holds 0 units (37)")
    if int(text) > MAX_DELTA:
        what = f"this GS1 code says that it holds more than {MAX_DELTA} units (37)"
        raise ScanRefused(422, what)
    return int(text)


def _without_filling(gtin: Gtin) -> str:
    length = int(gtin.format)
    return gtin.value[-length:].rjust(length, "0")


def _unreadable(text: str, error: Exception) -> str:
    """Return the refusal with a printable error text."""
    cause = str(error).rstrip(".").partition("\n")[0].replace(r"\x1d", "{GS}")
    words = cause[:MOST_WORDS]
    hint = SEPARATOR_HINT if len(text) > len("01") + 14 else "scan it again"
    return f"this GS1 code cannot be read: {words}; {hint}"
