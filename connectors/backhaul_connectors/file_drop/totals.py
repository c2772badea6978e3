"""Recognizes totals rows, which are not rows of the list.

A total is only recognized in a row that cannot be used in any case: every column that
says what a row is about is empty. So no real row can be taken for a total.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

IDENTITY = frozenset({"order", "sku", "tracking_number"})
"""The columns that say what a row is about, besides the key columns."""
_WORDS = (
    # English, German, Dutch, French, Spanish, Italian and Portuguese
    *("total", "totals", "grand total", "subtotal", "sub total", "sum", "sub-total"),
    *("summe", "gesamt", "gesamtsumme", "zwischensumme", "endsumme", "insgesamt"),
    *("gesamtbestand", "gesamtmenge", "summe gesamt", "totaal", "eindtotaal"),
    *("subtotaal", "som", "totaux", "total general", "sous-total", "somme"),
    *("suma", "suma total", "totale", "totali", "totale generale", "somma", "totais"),
)
_UNITS = (
    *("eur", "usd", "gbp", "chf", "inr", "€", "$", "£", "pcs", "pieces", "units"),
    *("items", "rows", "lines", "stk", "stuck", "artikel", "positionen", "zeilen"),
    *("articles", "lignes", "unidades", "articulos", "stuks", "artikelen", "regels"),
)
_LABEL = re.compile(
    rf"(?:{'|'.join(map(re.escape, sorted(_WORDS, key=len, reverse=True)))})"
    # A total may be followed by its value, its unit or the number of rows.
    r"[\s:=.*#(]*(?:[\d.,']*\d)?\s*"
    rf"(?:{'|'.join(map(re.escape, _UNITS))})?[\s)]*",
)


def is_label(cell: str) -> bool:
    """Return True for the label of a total, such as `Summe:` or `Total (12 items)`."""
    plain = unicodedata.normalize("NFKD", cell.strip().casefold())
    letters = "".join(each for each in plain if not unicodedata.combining(each))
    return _LABEL.fullmatch(letters) is not None


def identity_of(places: Mapping[str, int]) -> tuple[int, ...]:
    """Return the cells that say what a row is about, by the cell of each meaning."""
    return tuple(
        place
        for meaning, place in places.items()
        if meaning in IDENTITY or meaning.startswith("key ")
    )


def is_total(cells: Sequence[str], identity: Sequence[int]) -> bool:
    """Return True for a row that is a total.

    A row in which a cell of `identity` has a value is never a total.
    """
    if not identity or any(_has_value(cells, place) for place in identity):
        return False
    return any(map(is_label, cells))


def _has_value(cells: Sequence[str], place: int) -> bool:
    return place < len(cells) and bool(cells[place].strip())


def totals_note(name: str, lines: Collection[int]) -> str:
    """Return the sentence for the log about the totals of a file."""
    where = ", ".join(map(str, list(lines)[:3])) + (", …" if len(lines) > 3 else "")
    if len(lines) == 1:
        return f"{name}: line {where} is a total and is left out"
    return f"{name}: {len(lines)} rows are totals and are left out (lines {where})"
