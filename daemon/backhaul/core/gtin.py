"""GTINs: article numbers with a check digit, of 8, 12, 13 or 14 digits."""

from __future__ import annotations

LENGTHS = frozenset({8, 12, 13, 14})
_WHOLE = 14


def looks_like_one(text: str) -> bool:
    """Tell whether a text has as many digits as a GTIN."""
    return text.isascii() and text.isdigit() and len(text) in LENGTHS


def normalized(text: str) -> str | None:
    """Return the 14 digits of a GTIN; None of what is none, or has a wrong digit."""
    if not looks_like_one(text):
        return None
    whole = text.zfill(_WHOLE)
    weighed = sum(int(digit) * (3, 1)[n % 2] for n, digit in enumerate(whole[:-1]))
    return whole if (weighed + int(whole[-1])) % 10 == 0 else None


def spellings(gtin: str) -> list[str]:
    """Return every way in which 14 digits are written: without leading zeros."""
    return [
        gtin[_WHOLE - length :]
        for length in sorted(LENGTHS)
        if not gtin[: _WHOLE - length].strip("0")
    ]
