"""Cleans texts, recognizes empty fields, and shows values in messages."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, time
from decimal import Decimal
from functools import lru_cache

UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""Exceptions from JSON of an unexpected shape, such as a cursor of an older version;
reading from the beginning is then safe if keys are stable."""
APOSTROPHES = "'\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
_BLANKS = " \xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_EDGES = _BLANKS + "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
# They are invisible although Unicode does not class them as format characters.
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
) | frozenset(map(chr, range(0xFE00, 0xFE10)))
_STRING = r'"((?:[^"]|"")*+)"'
_QUOTED = re.compile(rf"=\s*{_STRING}")
_NUMBER_FORMULA = re.compile(r"=\s*(\d+)", re.ASCII)
_LINK = re.compile(
    r"[=+@]?\s*(?:HYPERLINK|LIEN_HYPERTEXTE|HIPERVINCULO|HIPERLINK|HIPERLIGAÇÃO"
    rf"|COLLEG\.IPERTESTUALE)\s*\((?:{_STRING}|[^\",;])++[,;]\s*"
    rf"(?:{_STRING}|(\d+(?:\.0+)?))\s*\)",
    re.IGNORECASE,
)
PLACEHOLDERS = frozenset(
    {
        *("nan", "na", "n/a", "n.a.", "n/v", "n.v.", "k.a.", "k. a."),
        *("null", "nil", "none", "undefined", "\\n"),
    }
)
"""What programs and people write into an empty field, in lower case. They may be in
brackets, as `<NA>`. A text of punctuation alone, such as `-`, is a placeholder too."""
_BRACKETS = re.compile(r"<(.*)>|\((.*)\)|\[(.*)\]|\{(.*)\}")
# In every language of the spreadsheet: #N/A is #NV, and #REF! is #BEZUG! or #¡REF!.
CELL_ERROR = re.compile(
    r"#(?:[A-Z]/[A-Z]|NV|[¡¿]?[^\W\d_][\w/.]*[!?]|GETTING_DATA)|Err:\d{3}|#{3,}",
    re.IGNORECASE,
)


class Unusable(Exception):
    """A value that cannot be part of a record; the text says why, and what to do."""


def plain(text: str) -> str:
    """Return the text without surrounding blanks and invisible characters.

    Zero-width characters, soft hyphens and byte-order marks come from copying out of
    web pages and mails.
    """
    if text.isascii():
        return text.strip(_EDGES)
    return "".join(each for each in text if not _is_invisible(each)).strip(_EDGES)


@lru_cache(maxsize=4096)
def _is_invisible(letter: str) -> bool:
    return unicodedata.category(letter) == "Cf" or letter in _UNSEEN


def without_text_mark(text: str) -> str:
    """Return the text without a spreadsheet's text mark: `'5` and `="5"` are 5."""
    return unmarked(plain(text))[0]


def unmarked(text: str) -> tuple[str, bool]:
    """Return the text without a spreadsheet's text marks, and whether it had any."""
    is_marked = False
    for _ in range(4):
        inner = _inside(text)
        if inner is None:
            break
        is_marked, text = True, plain(inner)
    return text, is_marked


def _inside(text: str) -> str | None:
    if text[:1] in APOSTROPHES and text:
        return text[1:-1] if len(text) > 2 and text[-1] == text[0] else text[1:]
    if len(text) > 2 and text[0] == text[-1] == '"':
        return text[1:-1]
    if found := _QUOTED.fullmatch(text) or _NUMBER_FORMULA.fullmatch(text):
        return found[1].replace('""', '"')
    if found := _LINK.fullmatch(text):
        return (found[3] or found[2] or "").replace('""', '"')
    return None


def is_placeholder(text: str) -> bool:
    """Return True for a text that marks an empty field: `n/a`, `NULL`, `-`."""
    word = text.casefold()
    if word[:1] in "<([{" and (found := _BRACKETS.fullmatch(word)):
        word = found[found.lastindex or 0].strip()
    if word in PLACEHOLDERS:
        return True
    is_sign = all(map(_is_punctuation, text))
    return is_sign and not CELL_ERROR.fullmatch(text)


def _is_punctuation(letter: str) -> bool:
    return letter in " \N{MINUS SIGN}" or unicodedata.category(letter)[0] == "P"


def missing(value: object, name: str) -> str:
    """Return the message for a field that is empty or has a placeholder."""
    written = plain(str(value)) if value is not None else ""
    if not written:
        return f"the {name} is empty"
    return (
        f"the {name} is empty: {written[:60]!r} stands for no value; if this text is"
        " the real value, write an apostrophe before it"
    )


def shown(value: object) -> str:
    """Return a value as messages show it: shortened, a text in quotation marks."""
    if isinstance(value, str):
        return repr(value[:60])
    if isinstance(value, bool | None):
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, float | Decimal | date | time):
        return str(value)[:60]
    if isinstance(value, int):
        return str(value) if abs(value) < 10**60 else "a number of more than 60 digits"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'" if len(value) <= 30 else f"{len(value)} bytes"
    return f"a {type(value).__name__}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things, such as "1 unit" or "1,200 deliveries"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
