"""Recognizes carrier labels, and extracts the tracking number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.scanner.gs1 import (
    InvalidGs1Code,
    content_of,
    is_link,
    without_symbology,
    wrong_check_digit,
)
from backhaul_connectors.scanner.scan import SEPARATOR, ScanRefused

if TYPE_CHECKING:
    from collections.abc import Callable

_BLANKS = re.compile(r"[\s\u00a0\u200b]+")
_UNPRINTED = re.compile(rf"[^\S{SEPARATOR}]|\u200b")
"""Blanks, but not the separator, which Python counts among them."""
_POSTCODES = (5, 9)
_POSTAL_LENGTHS = (20, 22, 26, 30, 34)
_ENDS = f" {SEPARATOR}"
_TWO_NUMBERS = (
    "the label reads as tracking number {} or {}, depending on the length of its"
    " postcode: type the printed number"
)


class Label(Struct, frozen=True):
    """A parcel's label: its tracking number, and the kind of label."""

    number: str
    kind: str


def label_of(code: str) -> Label | None:
    """Return the label that was scanned; None for a code that is not a label.

    An SSCC has 20 digits, as carriers print it. Raises ScanRefused for a misread label,
    and for one without the tracking number.
    """
    if found := _postal(without_symbology(code)):
        return Label(found, "USPS")
    text = _BLANKS.sub("", without_symbology(code)).strip(SEPARATOR).upper()
    for pattern, kind, number in _KINDS:
        if match := pattern.fullmatch(text):
            return Label(number(match), kind)
    if _is_sscc(text):
        return Label(f"00{text}", "SSCC")
    return _gs1_label(code)


def tracking_number(given: str) -> str:
    """Return a tracking number without additions of the scanner or the symbol.

    Raises ScanRefused for a misread number, and for a web address.
    """
    text = without_symbology(given).strip(_ENDS)
    bare = _BLANKS.sub("", text)
    if found := _postal(text):
        return found
    if given != text or is_link(text) or text.startswith(("(00)", "[00]")):
        return _number_of_label(given, text)
    for pattern, _, number in _KINDS[:_WITHIN_LONGER]:
        if match := pattern.fullmatch(bare):
            return number(match)
    return text.replace(SEPARATOR, "")


def _number_of_label(given: str, text: str) -> str:
    try:
        if found := label_of(given):
            return found.number
    except InvalidGs1Code:
        pass
    if is_link(text):
        raise ScanRefused(422, f"{text} is a web address, not a tracking number")
    return text.replace(SEPARATOR, "")


def _postal(text: str) -> str | None:
    """Return the number behind `420` and a postcode of 5 or 9 digits.

    A separator ends the postcode. Without one, both lengths are tried. Raises
    ScanRefused if neither or each of them gives a number with the right check digit.
    """
    code = _UNPRINTED.sub("", text).strip(SEPARATOR)
    digits = code.replace(SEPARATOR, "")
    if not digits.startswith("420") or not digits.isascii() or not digits.isdigit():
        return None
    if len(digits) < len("420") + _POSTCODES[0] + _POSTAL_LENGTHS[0]:
        return None
    ends = code.find(SEPARATOR) - len("420")
    widths = (ends,) if ends in _POSTCODES else _POSTCODES
    found = [rest for width in widths if _is_postal(rest := digits[3 + width :])]
    if not found:
        raise ScanRefused(422, wrong_check_digit(digits))
    if len(found) > 1:
        raise ScanRefused(422, _TWO_NUMBERS.format(*found))
    return found[0]


def _is_postal(digits: str) -> bool:
    return len(digits) in _POSTAL_LENGTHS and digits[0] == "9" and _mod10(digits)


def _gs1_label(code: str) -> Label | None:
    content = content_of(code)
    if content is None:
        return None
    if content.sscc is not None:
        return Label(f"00{content.sscc}", "SSCC")
    if content.postcode and content.gtin is None:
        what = "this is the postcode of a parcel's label, not its tracking number"
        raise ScanRefused(422, f"{what}: scan the label's other barcode")
    return None


def _is_sscc(text: str) -> bool:
    """Return True if 18 digits are an SSCC. Raises ScanRefused if misread."""
    if len(text) != 18 or not text.isascii() or not text.isdigit():
        return False
    if not _mod10(text):
        raise ScanRefused(422, wrong_check_digit(text))
    return True


def _mod10(digits: str) -> bool:
    """Return True if the GS1 check digit is right; USPS uses it too."""
    weighed = sum(
        int(digit) * (1, 3)[place % 2] for place, digit in enumerate(reversed(digits))
    )
    return weighed % 10 == 0


def _ups(match: re.Match[str]) -> str:
    """Verify a UPS number: letters count as (their code - 63) mod 10."""
    text = match[0]
    values = [int(c) if c.isdigit() else (ord(c) - 63) % 10 for c in text[2:-1]]
    weighed = sum(value * (1, 2)[place % 2] for place, value in enumerate(values))
    if (-weighed) % 10 != int(text[-1]):
        raise ScanRefused(422, wrong_check_digit(text))
    return text


def _s10(match: re.Match[str]) -> str:
    """Verify an item number of the postal union (UPU S10)."""
    text = match[0]
    weighed = sum(
        int(digit) * weight
        for digit, weight in zip(text[2:10], (8, 6, 4, 2, 3, 5, 9, 7), strict=True)
    )
    if {10: 0, 11: 5}.get(rest := 11 - weighed % 11, rest) != int(text[10]):
        raise ScanRefused(422, wrong_check_digit(text))
    return text


def _fedex_34(match: re.Match[str]) -> str:
    """Return the number of 12 (Express) or 14 digits at the end of 34."""
    text = match[0]
    weighed = sum(
        int(digit) * (1, 7, 3)[place % 3] for place, digit in enumerate(text[-14:-1])
    )
    if weighed % 11 % 10 != int(text[-1]):
        raise ScanRefused(422, wrong_check_digit(text))
    return text[-12:] if text[-14:-12] == "00" else text[-14:]


def _verified(match: re.Match[str]) -> str:
    if not _mod10(match[0]):
        raise ScanRefused(422, wrong_check_digit(match[0]))
    return match[0]


def _fedex_22(match: re.Match[str]) -> str:
    number = match[0][7:]
    if not _mod10(number):
        raise ScanRefused(422, wrong_check_digit(match[0]))
    return number


def _whole(match: re.Match[str]) -> str:
    return match[0]


def _group(match: re.Match[str]) -> str:
    return match[1]


_KINDS: tuple[tuple[re.Pattern[str], str, Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?:100\d\d|96[23]\d\d)\d{29}"), "FedEx", _fedex_34),
    (re.compile(r"%[0-9A-Z]{7}(\d{14})\d{6}"), "DPD", _group),
    (re.compile(r"1Z[0-9A-Z]{15}\d"), "UPS", _ups),
    (re.compile(r"[A-Z]{2}\d{9}[A-Z]{2}"), "post (S10)", _s10),
    (re.compile(r"J[A-Z]{1,4}\d{10,22}"), "DHL", _whole),
    (re.compile(r"3S[A-Z]{3,8}\d{6,12}"), "PostNL", _whole),
    (re.compile(r"TB[A-Z]\d{12}"), "Amazon", _whole),
    (re.compile(r"9[1-5]\d{18}(?:\d\d)?"), "USPS", _verified),
    (re.compile(r"96\d{20}"), "FedEx", _fedex_22),
    (re.compile(r"\d[A-Z]\d{11}"), "Colissimo", _whole),
    (re.compile(r"H\d{19}"), "Hermes", _whole),
    (re.compile(r"[CD]\d{14}"), "OnTrac", _whole),
    (re.compile(r"(?:GM|YT)\d{16,18}"), "DHL eCommerce or YunExpress", _whole),
    (re.compile(r"SF\d{12,15}"), "SF Express", _whole),
)
"""Forms that no article or order number has, as the carriers publish them."""
_WITHIN_LONGER = 2
"""The first of these contain the tracking number among other parts."""
