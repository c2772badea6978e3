"""Finds names that a person may have meant: all texts that differ in one character.

A store may have a million SKUs. So the texts that are near are made here, and looked up
by an index; only these candidates are compared with the name.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 40
"""Characters of a text whose near texts are made; a longer one stands alone."""
SIGNS = "-_./ "
LEAST_RATIO = 0.6
"""Candidates that are less alike are not offered."""
_MISREAD = str.maketrans("oOiIlLsSbBzZ", "001111558822")
"""Letters that people and scanners of text take for digits."""


def near_texts(text: str) -> set[str]:
    """Return the text and each text that differs from it in one character.

    One character is missing, added or other, or two neighbours are swapped. Added
    characters are digits, the signs of SKUs, and letters unless the text has none.
    """
    if len(text) > LONGEST:
        return {text}
    has_letters = any(each.isalpha() for each in text)
    added = sorted({*digits, *SIGNS, *text, *(ascii_lowercase if has_letters else "")})
    cuts = [(text[:place], text[place:]) for place in range(len(text) + 1)]
    found = {text}
    found.update(left + right[1:] for left, right in cuts if right)
    found.update(
        left + right[1] + right[0] + right[2:] for left, right in cuts if right[1:]
    )
    found.update(left + each + right for left, right in cuts for each in added)
    found.update(
        left + each + right[1:] for left, right in cuts if right for each in added
    )
    return found - {""}


def without_misread_letters(text: str) -> str:
    """Return the text with digits for the letters that look like them: 1o01 is 1001."""
    return text.translate(_MISREAD)


def likeness(name: str, other: str) -> float:
    """Return how alike two texts are, from 0 to 1; 1 if they are equal."""
    return SequenceMatcher(None, name, other, autojunk=False).ratio()


def ranked(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that are like a name, the most similar first."""
    rated = sorted((-likeness(name, each), each) for each in {*candidates})
    return [each for rate, each in rated if -rate >= LEAST_RATIO]
