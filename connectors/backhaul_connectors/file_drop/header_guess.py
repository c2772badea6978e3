"""Guesses which row has the column names, what each column means, and the kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.file_drop.columns import folded
from backhaul_connectors.file_drop.header_words import (
    CERTAIN,
    KINDS,
    POSSIBLE,
    meanings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul_connectors.file_drop.sample import Sample, SampleRow


MOST_TITLES = 40
"""Rows among which the column names are searched."""
_IN_BRACKETS = re.compile(r"\s*[(\[{].*?[)\]}]\s*")
_HINTS: Mapping[str, re.Pattern[str]] = {
    "fulfillment": re.compile(
        "ship|fulfil|manifest|track|parcel|dispatch|despatch|versand|sendung|paket"
        "|liefer|expedi|envio|colis|livraison|verzend|zending|spedizion|order"
    ),
    "cancellation": re.compile("cancel|storn|annul|anul|retour|widerruf"),
    "stock delta": re.compile(
        "delta|adjust|movement|change|mutation|korrektur|bewegung|buchung|schwund"
        "|ajust|mouvement|movimient|mutatie|correctie|rettific|moviment|writeoff"
    ),
    "stock level": re.compile(
        "stock|level|invent|onhand|bestand|lager|voorraad|giacenz|existenc|magazz"
    ),
}
"""Parts of file names and titles, as `folded` writes them."""
_SIGNED = re.compile(r"\+\s*\d+([.,]\d+)?")


class HeaderGuess(Struct, frozen=True, kw_only=True):
    """A row that may have the column names: `columns` are the places by meaning.

    `number` is its place in the rows of the sample.
    """

    sample: Sample
    number: int
    kind: str
    columns: Mapping[str, int]
    score: float

    @property
    def row(self) -> SampleRow:
        return self.sample.rows[self.number]

    @property
    def data(self) -> Sequence[SampleRow]:
        """The rows below that have as many cells, or fewer."""
        return self.sample.rows[self.number + 1 :]

    def name(self, place: int) -> str:
        return self.row.cells[place].strip()

    def values(self, place: int) -> list[str]:
        """Return the cells of a column that are not empty."""
        cells = [row.cells for row in self.data]
        return [c[place].strip() for c in cells if place < len(c) and c[place].strip()]


def best_header(samples: Sequence[Sample], name: str) -> HeaderGuess | None:
    """Return the best guess; None if no row names the columns of any kind."""
    guesses = [guess for each in samples for guess in _guesses(each, name)]
    return max(guesses, key=lambda each: each.score, default=None)


def _guesses(sample: Sample, name: str) -> Iterator[HeaderGuess]:
    titles = ""
    for number, row in enumerate(sample.rows[:MOST_TITLES]):
        for kind in KINDS:
            columns, score = _columns(kind, row.cells)
            guess = HeaderGuess(
                sample=sample, number=number, kind=kind, columns=columns, score=score
            )
            guess = _signed(guess, name)
            if _is_whole(guess.kind, guess.columns):
                hints = folded(name.rpartition(".")[0]), folded(titles)
                yield _rated(guess, hints)
        titles += " ".join(row.cells)


def _columns(kind: str, cells: Sequence[str]) -> tuple[dict[str, int], float]:
    """Return the places of a kind's columns, and how sure they are together."""
    rated = sorted(_candidates(kind, cells), key=lambda each: (-each[0], each[2]))
    places: dict[str, int] = {}
    score = 0.0
    for sure, meaning, place in rated:
        if meaning not in places and place not in places.values():
            places[meaning] = place
            score += sure
    return places, score


def _candidates(kind: str, cells: Sequence[str]) -> Iterator[tuple[float, str, int]]:
    for meaning, names in meanings()[kind].items():
        for place, cell in enumerate(cells):
            if cell.strip() and (sure := _sure(cell, names)):
                yield sure, meaning, place


def _sure(cell: str, names: Mapping[str, int]) -> float:
    """Return how sure a name is; "Bestand (Stück)" is a name with its unit."""
    if found := names.get(folded(cell)):
        return found
    short = names.get(folded(_IN_BRACKETS.sub(" ", cell)))
    return short - 0.5 if short else 0


def _signed(guess: HeaderGuess, name: str) -> HeaderGuess:
    """Return a stock list as a list of changes if its quantities have plus signs."""
    if guess.kind != "stock level" or not {"sku", "quantity"} <= guess.columns.keys():
        return guess
    place = guess.columns["quantity"]
    hint = _HINTS["stock delta"].search(folded(name.rpartition(".")[0]))
    is_signed = any(map(_SIGNED.fullmatch, guess.values(place)))
    if not is_signed and not hint:
        return guess
    columns = {"sku": guess.columns["sku"], "adjustment": place}
    reasons, _ = _columns("stock delta", guess.row.cells)
    if reasons.get("reason", place) != place:
        columns["reason"] = reasons["reason"]
    return HeaderGuess(
        sample=guess.sample,
        number=guess.number,
        kind="stock delta",
        columns=columns,
        score=guess.score,
    )


def _is_whole(kind: str, columns: Mapping[str, int]) -> bool:
    """Return True if the columns are enough for a file of this kind."""
    found = columns.keys()
    if kind == "fulfillment":
        says_parcel = {"tracking_number", "tracking_company", "shipped_at"} & found
        return "order" in found and (bool(says_parcel) or {"sku", "quantity"} <= found)
    if kind == "cancellation":
        return "order" in found and bool({"restock", "reason"} & found)
    wanted = {"sku", "adjustment" if kind == "stock delta" else "quantity"}
    return wanted <= found


def _rated(guess: HeaderGuess, hints: tuple[str, str]) -> HeaderGuess:
    """Return the guess with the score of its kind, its place and its rows."""
    score = guess.score
    file_name, titles = hints
    score += 2 * bool(_HINTS[guess.kind].search(file_name))
    score += bool(_HINTS[guess.kind].search(titles))
    if guess.kind.startswith("stock") and _has_order(guess):
        score -= 2 * CERTAIN  # stock has no order
    width = len([cell for cell in guess.row.cells if cell.strip()])
    fitting = [len(row.cells) >= width for row in guess.data]
    score += sum(fitting) / len(fitting) if fitting else 0
    score -= guess.number * 0.01 + guess.sample.problems * 0.1
    return HeaderGuess(
        sample=guess.sample,
        number=guess.number,
        kind=guess.kind,
        columns=guess.columns,
        score=score,
    )


def _has_order(guess: HeaderGuess) -> bool:
    names = meanings()["fulfillment"]["order"]
    return any(names.get(folded(cell), 0) > POSSIBLE for cell in guess.row.cells)


def without_header(samples: Sequence[Sample]) -> HeaderGuess | None:
    """Return a stock list of two columns whose first row is already a row."""
    for sample in samples:
        rows = [row.cells for row in sample.rows]
        if not rows or any(len(cells) != 2 for cells in rows):
            continue
        if all(re.fullmatch(r"-?\d{1,7}", cells[1].strip()) for cells in rows):
            return HeaderGuess(
                sample=sample,
                number=-1,
                kind="stock level",
                columns={"sku": 0, "quantity": 1},
                score=0,
            )
    return None
