"""Guesses how values are written: numbers, dates, carriers, voided labels, totals."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.columns import folded
from backhaul_connectors.file_drop.header_words import KEYS, PLACES, VOIDED
from backhaul_connectors.file_drop.totals import is_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul_connectors.file_drop.header_guess import HeaderGuess


_COMMA = re.compile(
    r"-?(\d{1,3}(\.\d{3})+,\d+|\d+,(\d{1,2}|\d{4,})|\d{1,3}(\.\d{3}){2,})-?"
)
_POINT = re.compile(
    r"-?(\d{1,3}(,\d{3})+\.\d+|\d+\.(\d{1,2}|\d{4,})|\d{1,3}(,\d{3}){2,})-?"
)
_EITHER = re.compile(r"-?\d{1,3}[.,]\d{3}-?")
_DAYS = ("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y")
_DATES = (*_DAYS, "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d", "%d %b %Y", "%d-%b-%Y", "%Y.%m.%d")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "%H%M%S")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_MONTH_FIRST = "%m/"
_UPS = re.compile(r"1Z[0-9A-Z]{16}")
_DHL = re.compile(r"0034043\d{13}|JJD\d{12,}|JVGL\d{10,}")
_CARRIERS = {
    "DHL": "DHL",
    "UPS": "UPS",
    "FedEx": "FEDEX",
    "GLS": "GLS",
    "DPD": "DPD",
    "Royal Mail": "ROYALMAIL",
    "Delhivery": "DELHIVERY",
    "Hermes": "HERMES",
    "PostNL": "POSTNL",
    "Colissimo": "COLISSIMO",
    "SEUR": "SEUR",
    "BlueDart": "BLUEDART",
}
_YES = frozenset({"y", "yes", "true", "1", "x", "ja", "oui", "si", "sì", "sí", "j"})


def decimal_sign(values: Iterable[str], others: Iterable[str]) -> str:
    """Return the sign before decimals in the quantities; empty if they have none.

    If a quantity such as 1.000 could be either, `others`, such as prices, decide.
    """
    written = list(values)
    for numbers in (written, list(others)):
        comma = any(map(_COMMA.fullmatch, numbers))
        point = any(map(_POINT.fullmatch, numbers))
        if comma != point:
            return "," if comma else "."
    return "?" if any(map(_EITHER.fullmatch, written)) else ""


def date_format(values: Sequence[str], *, is_english: bool) -> tuple[str, bool]:
    """Return the form of all dates, and whether day and month could be swapped.

    The form is empty for dates that need none, and for values that are no dates.
    """
    if not values or all(map(_ISO.fullmatch, values)):
        return "", False
    fitting = [
        f"{date}{time}"
        for date in _DATES
        for time in _TIMES
        if all(_is_date(value, f"{date}{time}") for value in values)
    ]
    if not fitting:
        return "", False
    monthly = [each for each in fitting if each.startswith(_MONTH_FIRST)]
    is_open = bool(monthly) and any(each.startswith("%d/") for each in fitting)
    return (monthly[0] if is_open and is_english else fitting[0]), is_open


def _is_date(value: str, form: str) -> bool:
    try:
        found = datetime.strptime(value, form)  # noqa: DTZ007 - only its form counts
    except ValueError:
        return False
    return 1990 <= found.year <= 2100


def carrier_of(name: str, numbers: Sequence[str]) -> str:
    """Return the only carrier that the file's name or its tracking numbers show."""
    if numbers and all(_UPS.fullmatch(each.replace(" ", "")) for each in numbers):
        return "UPS"
    if numbers and all(_DHL.fullmatch(each.replace(" ", "")) for each in numbers):
        return "DHL"
    upper = name.upper().replace("-", "").replace("_", "").replace(" ", "")
    found = [carrier for carrier, part in _CARRIERS.items() if part in upper]
    return found[0] if len(found) == 1 else ""


def voided(guess: HeaderGuess) -> dict[str, list[str]]:
    """Return the values of voided rows by their column."""
    found = {}
    for place, cell in enumerate(guess.row.cells):
        if folded(cell) in VOIDED:
            marks = {each for each in guess.values(place) if each.casefold() in _YES}
            if marks:
                found[cell.strip()] = sorted(marks)
    return found


def totals(guess: HeaderGuess, place: int) -> list[str]:
    """Return the labels of totals that are in the column of the SKU or order."""
    return sorted({each for each in guess.values(place)[-3:] if is_label(each)})


def key_columns(guess: HeaderGuess) -> list[str]:
    """Return the columns that together number each movement, if there are any."""
    places = [
        place
        for place, cell in enumerate(guess.row.cells)
        if folded(cell) in KEYS and place not in guess.columns.values()
    ]
    rows = [row.cells for row in guess.data]
    for wanted in (*([place] for place in places), places):
        keys = [tuple(c[p].strip() for p in wanted if p < len(c)) for c in rows]
        is_full = all(len(key) == len(wanted) and all(key) for key in keys)
        if wanted and rows and is_full and len(set(keys)) == len(keys):
            return [guess.name(place) for place in wanted]
    return []


def has_places(guess: HeaderGuess) -> bool:
    """Return True if the rows of one SKU are its stock in several places."""
    skus = guess.values(guess.columns["sku"])
    names = (folded(cell) for cell in guess.row.cells)
    return len(set(skus)) < len(skus) and any(name in PLACES for name in names)
