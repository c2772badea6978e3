"""Parses fields: identifiers, labels, yes or no, and reasons.

Every connector uses this module, so that a value means the same in a file, in a table
and in a JSON document. An unusable value raises Unusable with a text for operators.
"""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping


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


LONGEST_IDENTIFIER = 500
DIGITS_KEPT = 15
"""A spreadsheet keeps this many digits of a number and replaces the others by zeros."""
CERTAIN_ZEROS = 4
"""A number with this many zeros at the end was rounded: one of 10,000 ends so by
chance."""
EXACT_FLOAT = 2**53
"""A floating-point number from here on may have lost digits."""
YES = frozenset({"yes", "y", "true", "t", "1"})
NO = frozenset({"no", "n", "false", "f", "0"})
_APOSTROPHES = "'\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
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
_LINK_CALL = re.compile(r"[=+@]\s*[^\W\d][\w.]*\(")
_POINT_ZERO = re.compile(r"(\d+)[.,]0{1,2}", re.ASCII)
_SCIENTIFIC = re.compile(
    r"[+-]?(?:\d+[.,]\d+\s*E\s*[+-]?|\d+\s*E\s*\+)\s*\d+", re.IGNORECASE | re.ASCII
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
_CELL_ERROR = re.compile(
    r"#(?:[A-Z]/[A-Z]|NV|[¡¿]?[^\W\d_][\w/.]*[!?]|GETTING_DATA)|Err:\d{3}|#{3,}",
    re.IGNORECASE,
)


class Unusable(Exception):
    """A value that cannot be part of a record; the text says why, and what to do."""


def reason_of(text: str, known: frozenset[str], default: str) -> str:
    """Return the platform's reason for a text in any spelling; `default` if empty.

    `known` are `CANCEL_REASONS` or `STOCK_REASONS`: "out of stock" is OUT_OF_STOCK.
    Raises Unusable for an unknown reason.
    """
    word = re.sub(r"[\s-]+", "_", text).upper() or default
    if word not in known:
        raise Unusable(f"reason {text!r} is unknown; use {', '.join(sorted(known))}")
    return word


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
    return _unmarked(plain(text))[0]


def identifier(value: object, name: str, *, is_text: bool = False) -> str:
    """Return a number or code that is compared as text; empty if there is none.

    A placeholder such as `n/a` is empty, unless a leading apostrophe says that it is a
    real name. `name` is the field's name in messages ("tracking number"). Additions of
    spreadsheets are removed: `="123"`, `'123`, `123.0`, the link around a number,
    invisible characters. A number that lost digits is refused. `is_text` says that the
    source stores texts unchanged; a text mark says the same of one value.
    """
    return _checked(value, name, is_text=is_text)[0]


def article(value: object, *, is_text: bool = False) -> str:
    """Return a SKU: an `identifier`, but a text `10.0` stays unchanged.

    It may be another article than 10. If no article `10.0` exists, the host reads it as
    10.
    """
    return _checked(value, "sku", is_text=is_text)[1]


def _checked(value: object, name: str, *, is_text: bool) -> tuple[str, str]:
    """Return an identifier, and its original spelling with a trailing `.0`."""
    text = _text_of(value, name)
    if not text:
        return "", ""
    if len(text) > LONGEST_IDENTIFIER:
        raise Unusable(f"the {name} has more than {LONGEST_IDENTIFIER} characters")
    is_meant = text[:1] in _APOSTROPHES and text[-1:] not in _APOSTROPHES
    text, is_marked = _unmarked(text)
    if not is_meant and is_placeholder(text):
        return "", ""
    written = text
    if found := _POINT_ZERO.fullmatch(text):
        text = found[1]
    _require_sound(text, name, is_marked=is_marked)
    _require_digits(text, name, is_text=is_text or is_marked)
    return text, written


def is_placeholder(text: str) -> bool:
    """Return True for a text that marks an empty field: `n/a`, `NULL`, `-`."""
    word = text.casefold()
    if word[:1] in "<([{" and (found := _BRACKETS.fullmatch(word)):
        word = found[found.lastindex or 0].strip()
    if word in PLACEHOLDERS:
        return True
    is_sign = all(map(_is_punctuation, text))
    return is_sign and not _CELL_ERROR.fullmatch(text)


def _is_punctuation(letter: str) -> bool:
    return letter in " \N{MINUS SIGN}" or unicodedata.category(letter)[0] == "P"


def missing(value: object, name: str) -> str:
    """Return the message for a field that is empty or has a placeholder."""
    shown = plain(str(value)) if value is not None else ""
    if not shown:
        return f"the {name} is empty"
    return (
        f"the {name} is empty: {shown[:60]!r} stands for no value; if this text is"
        " the real value, write an apostrophe before it"
    )


def _text_of(value: object, name: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, bool | bytes | dict | list | tuple):
        raise Unusable(f"the {name} must be a text or a whole number")
    if _is_nan(value):
        return ""
    if isinstance(value, int | float | Decimal):
        return _digits_of(value, name)
    return plain(str(value))


def _is_nan(value: object) -> bool:
    """Return True for NaN, which marks a missing number."""
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float) and math.isnan(value)


def _digits_of(number: float | Decimal, name: str) -> str:
    """Return the digits of a number that is used as an identifier."""
    if not is_whole(number):
        raise Unusable(
            f"the {name} must be a text or a whole number, not {shown(number)}"
        )
    if isinstance(number, float) and abs(number) >= EXACT_FLOAT:
        raise Unusable(lost_number(name, f"{number:.6E}"))
    if abs(number) >= 10**LONGEST_IDENTIFIER:
        raise Unusable(f"the {name} has more than {LONGEST_IDENTIFIER} characters")
    return str(int(number))


def _unmarked(text: str) -> tuple[str, bool]:
    """Return the text without a spreadsheet's text marks, and whether it had any."""
    is_marked = False
    for _ in range(4):
        inner = _inside(text)
        if inner is None:
            break
        is_marked, text = True, plain(inner)
    return text, is_marked


def _inside(text: str) -> str | None:
    if text[:1] in _APOSTROPHES and text:
        return text[1:-1] if len(text) > 2 and text[-1] == text[0] else text[1:]
    if len(text) > 2 and text[0] == text[-1] == '"':
        return text[1:-1]
    if found := _QUOTED.fullmatch(text) or _NUMBER_FORMULA.fullmatch(text):
        return found[1].replace('""', '"')
    if found := _LINK.fullmatch(text):
        return (found[3] or found[2] or "").replace('""', '"')
    return None


def _require_sound(text: str, name: str, *, is_marked: bool) -> None:
    """Raise Unusable for a spreadsheet's error or formula in place of a value."""
    if text[:3] == "###" and not text.strip("#"):
        raise Unusable(
            f"the {name} is {text[:9]}, what a spreadsheet shows where a column is too "
            "narrow; widen the column and export again"
        )
    if text[:1] in ("#", "E", "e") and _CELL_ERROR.fullmatch(text):
        raise Unusable(
            f"the {name} is {text}, a formula without a result; save values instead"
            " of formulas"
        )
    is_formula = text.startswith("=") or _LINK_CALL.match(text)
    if is_formula and not is_marked:
        raise Unusable(
            f"the {name} is a formula, not its result: {text[:60]!r}; export values."
            " If this text is the real value, write an apostrophe before it"
        )
    if '"' in text and name == "tracking number":
        raise Unusable(
            f"the {name} has a quotation mark inside: {text[:60]!r}; perhaps a mark"
            " in an earlier row is not closed"
        )
    if text.isprintable():
        return
    if any(unicodedata.category(each) in ("Cc", "Cs") for each in text):
        raise Unusable(
            f"the {name} has a line break or another control character inside: "
            f"{text[:60]!r}; write one value in each row"
        )


def _require_digits(text: str, name: str, *, is_text: bool) -> None:
    """Raise Unusable for a number that a spreadsheet has rounded."""
    if "e" in text.casefold() and _SCIENTIFIC.fullmatch(text):
        raise Unusable(_lost(name, text, is_text=is_text))
    if len(text) <= DIGITS_KEPT or not (text.isascii() and text.isdigit()):
        return
    zeros = len(text) - max(len(text.rstrip("0")), DIGITS_KEPT)
    is_rounded = not text[DIGITS_KEPT:].strip("0")
    if is_rounded and (zeros >= CERTAIN_ZEROS or not is_text):
        hint = "" if zeros >= CERTAIN_ZEROS else f"; write '{text} if it ends so"
        raise Unusable(_lost(name, text, is_text=is_text) + hint)


def lost_number(name: str, number: str) -> str:
    """Return the message for a number of JSON or a database that lost digits."""
    return (
        f"the {name} came as the number {number}, and digits are lost: a number keeps "
        f"{DIGITS_KEPT} of them; store and send it as a text"
    )


def _lost(name: str, text: str, *, is_text: bool) -> str:
    if is_text:
        return (
            f"the {name} is {text!r}, the text of a rounded number: digits are lost; "
            "correct it where it comes from"
        )
    return (
        f"the spreadsheet turned the {name} into {text}, digits are lost; format the "
        "column as text, enter the number again and export again"
    )


def is_whole(number: float | Decimal) -> bool:
    """Return True for a finite number without a fraction."""
    if isinstance(number, int):
        return True
    try:
        if isinstance(number, Decimal):
            return number.is_finite() and number == number.to_integral_value()
        return math.isfinite(number) and number == int(number)
    except (ValueError, ArithmeticError):
        return False  # a signaling NaN, or a huge exponent


def shown(value: object) -> str:
    """Return a value as messages show it: shortened, a text in quotation marks."""
    if isinstance(value, str):
        return repr(value[:60])
    if isinstance(value, bool | None):
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, float | Decimal):
        return str(value)[:60]
    if isinstance(value, int):
        return str(value) if abs(value) < 10**60 else "a number of more than 60 digits"
    return f"a {type(value).__name__}"


def label(value: object, name: str) -> str:
    """Return a name for display, such as a carrier's; empty if there is none.

    Line breaks inside become spaces.
    """
    if _is_nan(value):
        return ""
    if isinstance(value, bool | bytes | float | Decimal | dict | list | tuple):
        raise Unusable(f"the {name} must be a text")
    text = " ".join(str(value or "").splitlines())
    return identifier(text, name, is_text=True)


def yes_or_no(value: object, name: str) -> bool:
    """Return the truth value of yes, no, true, false, 1, 0 and their initials."""
    word = without_text_mark(value) if isinstance(value, str) else _number_word(value)
    if word.casefold() not in YES | NO:
        raise Unusable(f"{name} must be yes or no, not {shown(value)}")
    return word.casefold() in YES


def _number_word(value: object) -> str:
    if isinstance(value, int | float | Decimal) and value in (0, 1):
        return str(int(value))
    return ""


def reason(
    value: object,
    known: frozenset[str],
    default: str,
    reason_map: Mapping[str, str] | None = None,
) -> str:
    """Return the platform's reason; `default` if there is none.

    `known` are `CANCEL_REASONS` or `STOCK_REASONS`. `reason_map` maps the back office's
    own words, in any spelling; `*` stands for all others. A word that neither knows is
    refused with a list of the valid ones.
    """
    text = (
        without_text_mark(value)
        if isinstance(value, str)
        else _text_of(value, "reason")
    )
    named = {_word(each): meaning for each, meaning in (reason_map or {}).items()}
    if text and (meaning := named.get(_word(text))) in known:
        return str(meaning)
    try:
        return reason_of(text, known, default)
    except Unusable as error:
        if (meaning := named.get("*")) in known:
            return str(meaning)
        raise Unusable(f"{error}, or add the word to reason_map") from None


def checked_reason_map(reason_map: Mapping[str, str]) -> Mapping[str, str]:
    """Return a `reason_map` of settings. Raises ValueError for an unknown reason."""
    known = CANCEL_REASONS | STOCK_REASONS
    if wrong := sorted(set(reason_map.values()) - known):
        names = ", ".join(sorted(known))
        raise ValueError(f"reason_map: {', '.join(wrong)} are not reasons; use {names}")
    return reason_map


def _word(text: str) -> str:
    return re.sub(r"[\s_-]+", "_", plain(text)).casefold()
