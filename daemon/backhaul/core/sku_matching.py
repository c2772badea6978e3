"""Compares SKUs with look-alike characters, and validates GTINs."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


LENGTHS = frozenset({8, 12, 13, 14})
_WHOLE = 14


def has_gtin_length(text: str) -> bool:
    """Return True if a text has as many digits as a GTIN."""
    return text.isascii() and text.isdigit() and len(text) in LENGTHS


def normalized(text: str) -> str | None:
    """Return the 14 digits of a GTIN; None if it is not one, or a digit is wrong."""
    if not has_gtin_length(text):
        return None
    whole = text.zfill(_WHOLE)
    weighed = sum(int(digit) * (3, 1)[n % 2] for n, digit in enumerate(whole[:-1]))
    return whole if (weighed + int(whole[-1])) % 10 == 0 else None


def spellings(gtin: str) -> list[str]:
    """Return every spelling of 14 digits, with fewer and fewer leading zeros."""
    return [
        gtin[_WHOLE - length :]
        for length in sorted(LENGTHS)
        if not gtin[: _WHOLE - length].strip("0")
    ]


_POINT_ZERO = re.compile(r"(\d+)\.0+", re.ASCII)
_WORD = re.compile(r"\S+")
_ALIKE = {
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a": "ABEZHIK",
    "\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7": "MNOPTYX",
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420": "ABEKMHOP",
    "\u0421\u0422\u0423\u0425\u0405\u0406\u0408": "CTYXSIJ",
}
"""Capital letters of Greek and Cyrillic that look like Latin ones, and these."""
_LATIN = {
    ord(letter): latin
    for letters, alike in _ALIKE.items()
    for one, meant in zip(letters, alike, strict=True)
    for letter, latin in ((one, meant), (one.lower(), meant.lower()))
}
MOST_NAMED = 3
ALPHABET = "the alphabet"


def same_text(sku: str) -> str:
    """Return a key that SKUs share if they look the same.

    A spreadsheet's `42.0` stands for 42, as connectors read it.
    """
    if sku.isascii():
        text = sku.strip()
    else:
        seen = "".join(x for x in sku if unicodedata.category(x) != "Cf")
        text = unicodedata.normalize("NFC", seen).strip()
    found = _POINT_ZERO.fullmatch(text)
    return found[1] if found else text


def near_text(sku: str) -> str:
    """Return a key that SKUs share if a person may confuse them."""
    text = same_text(sku)
    for change in _CHANGES.values():
        text = change(text)
    return text


def _letters(text: str) -> str:
    # Not of blanks, which are a difference of their own.
    return _WORD.sub(lambda word: unicodedata.normalize("NFKC", word[0]), text)


def _alphabet(text: str) -> str:
    return text if text.isascii() else text.translate(_LATIN)


def _case(text: str) -> str:
    return text.casefold()


def _blanks(text: str) -> str:
    return "".join(text.split())


def _zeros(text: str) -> str:
    return text.lstrip("0") or "0"


_CHANGES: dict[str, Callable[[str], str]] = {
    "how letters are written": _letters,
    ALPHABET: _alphabet,
    "case": _case,
    "blanks": _blanks,
    "leading zeros": _zeros,
}


def difference(one: str, other: str) -> str:
    """Return how two SKUs with the same `near_text` differ: "case and blanks".

    The letters of another alphabet are named, as nobody can see which they are.
    """
    needed = [
        f"{name}{_odd_letters(one, other)}" if name == ALPHABET else name
        for name in _CHANGES
        if _without(name, same_text(one)) != _without(name, same_text(other))
    ]
    # Either of two changes may be enough, as for letters that have a case of their own.
    return " and ".join(needed) or "how letters are written"


def _odd_letters(one: str, other: str) -> str:
    """Name the first letters of the two that only look alike."""
    ones, others = ("".join(_letters(same_text(x)).split()) for x in (one, other))
    for here, there in zip(ones.lstrip("0"), others.lstrip("0"), strict=False):
        if _case(here) != _case(there):
            names = (unicodedata.name(x, ascii(x)) for x in (there, here))
            return " ({} in the store, {} here)".format(*names)
    return ""


def _without(left_out: str, text: str) -> str:
    for name, change in _CHANGES.items():
        text = text if name == left_out else change(text)
    return text


def near_hint(sku: str, near: Iterable[str]) -> str:
    """Return text for a reason that names SKUs which differ only in form, or ""."""
    named = [
        f"{_shown(each)} differs only in {difference(sku, each)}" for each in near
    ][:MOST_NAMED]
    return f"; the store's SKU {', and '.join(named)}" if named else ""


def _shown(sku: str) -> str:
    """Return a SKU in a form that shows hidden or foreign characters."""
    return repr(sku) if sku == same_text(sku) == _letters(sku) else ascii(sku)
