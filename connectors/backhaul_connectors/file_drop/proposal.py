"""Proposes the settings for a file that nobody has described yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul_connectors.file_drop import value_guess
from backhaul_connectors.file_drop.columns import (
    column_name,
    folded,
    may_name_article,
)
from backhaul_connectors.file_drop.edi.summary import summary
from backhaul_connectors.file_drop.edi.syntax import HEAD_BYTES, syntax_of
from backhaul_connectors.file_drop.files import FileUnreadable, matches
from backhaul_connectors.file_drop.header_guess import best_header, without_header
from backhaul_connectors.file_drop.header_words import KINDS, POSSIBLE, meanings
from backhaul_connectors.file_drop.layout import MOST_TITLES
from backhaul_connectors.file_drop.sample import samples
from backhaul_connectors.file_drop.settings import Settings

if TYPE_CHECKING:
    from typing import BinaryIO

    from backhaul_connectors.file_drop.header_guess import HeaderGuess


NO_HEADER = (
    "no row names columns that Backhaul knows. Set the columns yourself, such as"
    ' fulfillment_columns.order = "…", or choose a preset:'
    " backhaul connectors presets"
)
_NUMBERS = re.compile(r"\d[\d_.-]*")
_ENGLISH = re.compile("date|tracking|quantity|qty|carrier|number|shipped|stock|item")
_REQUIRED = ("tracking_company", "tracking_number")
"""Columns of shipments that files have, unless an empty name says that they do not."""


class Proposal(Struct, frozen=True, kw_only=True):
    """The settings, and what an operator should check about them.

    Without settings, `problem` says why there are none.
    """

    settings: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    problem: str = ""


def propose(name: str, stream: BinaryIO) -> Proposal:
    """Return the settings for a file by its first rows."""
    stream.seek(0)
    if syntax_of(stream.read(HEAD_BYTES)) is not None:
        return _interchange(name, stream)
    try:
        found = samples(name, stream)
    except FileUnreadable as error:
        return Proposal(problem=str(error))
    guess = best_header(found, name) or without_header(found)
    if guess is None:
        return Proposal(problem=NO_HEADER)
    return _Author(name, guess).write()


def _interchange(name: str, stream: BinaryIO) -> Proposal:
    """Return the settings for an EDI file: its parties, and the kinds of its rows."""
    try:
        found = summary(stream)
    except FileUnreadable as error:
        return Proposal(problem=str(error))
    names = [f"{kind.replace(' ', '_')}s" for kind in found.kinds]
    patterns = {each: pattern for each in names if (pattern := _pattern(name, each))}
    return Proposal(settings={**patterns, "edi": found.settings}, notes=found.notes)


def _pattern(name: str, setting: str) -> str:
    """Return the pattern of a file's name; empty if the default matches it.

    Numbers in a name are a date or a counter.
    """
    pattern = getattr(Settings.model_fields[setting], "default", "")
    if matches(name.lower(), pattern):
        return ""
    stem, _, ending = name.rpartition(".")
    shortened = _NUMBERS.sub("*", stem)
    wild = shortened if "*" in shortened else f"{stem}*"
    return f"{wild}.{ending}"


class _Author:
    """Writes the settings and notes of one file."""

    def __init__(self, name: str, guess: HeaderGuess) -> None:
        self._name = name
        self._guess = guess
        self._kind = guess.kind.replace(" ", "_")
        self._settings: dict[str, Any] = {}
        self._tables: dict[str, dict[str, Any]] = {}
        self._notes: list[str] = list(guess.sample.notes)

    def write(self) -> Proposal:
        self._pattern()
        self._header()
        # Commas are as likely as any other delimiter, so the proposal names it.
        self._settings |= self._guess.sample.settings
        self._columns()
        self._values()
        self._rows()
        settings = {**self._settings, **self._tables}
        return Proposal(settings=settings, notes=tuple(self._notes))

    def _pattern(self) -> None:
        if pattern := _pattern(self._name, f"{self._kind}s"):
            self._settings[f"{self._kind}s"] = pattern

    def _header(self) -> None:
        guess = self._guess
        if guess.number < 0:
            self._settings["header"] = list(guess.columns)
            self._notes.append("no row has the columns' names: check header")
        elif guess.number >= MOST_TITLES:
            self._settings["header_row"] = guess.row.line
        elif guess.number > 0:
            self._settings["header_row"] = "find"

    def _columns(self) -> None:
        guess = self._guess
        if guess.number < 0:
            return
        columns = {
            m: guess.name(guess.columns[m])
            for m in KINDS[guess.kind]
            if m in guess.columns
        }
        columns = {m: name for m, name in columns.items() if self._is_unique(m, name)}
        self._note_unsure_names(columns)
        if guess.kind == "fulfillment":
            columns = self._shipment_columns(columns)
        if guess.kind == "cancellation" and "restock" not in columns:
            columns["restock"] = ""
            self._tables["cancellation_values"] = {"restock": "no"}
            self._notes.append(
                "the file does not say whether goods go back into stock: check"
                ' cancellation_values.restock = "no"'
            )
        self._tables[f"{self._kind}_columns"] = {
            meaning: name
            for meaning, name in columns.items()
            if meaning != column_name(name)
        }

    def _note_unsure_names(self, columns: dict[str, str]) -> None:
        """Note the columns whose names often mean something else."""
        sure = meanings()[self._guess.kind]
        for meaning, name in columns.items():
            if sure[meaning].get(folded(name)) == POSSIBLE:
                self._notes.append(f"check that {name!r} is the column of {meaning}")

    def _is_unique(self, meaning: str, name: str) -> bool:
        names = [column_name(cell) for cell in self._guess.row.cells]
        if names.count(column_name(name)) == 1:
            return True
        self._notes.append(
            f"several columns are called {name!r}, so {meaning} is not set; give the"
            " columns different names"
        )
        return False

    def _shipment_columns(self, columns: dict[str, str]) -> dict[str, str]:
        """Return the columns, and an empty name for those that the file lacks.

        A missing SKU is only written where the file would be held without it: files
        that have one later must not ship whole orders.
        """
        missing = [each for each in _REQUIRED if each not in columns]
        if "tracking_company" in missing:
            self._carrier()
        if "quantity" in columns and "sku" not in columns and not self._may_have_sku():
            missing += ["sku", "quantity"]
            self._notes.append(
                "no column names a SKU, so each row ships everything that is left of"
                " its order: check this"
            )
        return {**columns, **dict.fromkeys(missing, "")}

    def _may_have_sku(self) -> bool:
        taken = set(self._guess.columns.values())
        cells = enumerate(self._guess.row.cells)
        return any(may_name_article(c) for place, c in cells if place not in taken)

    def _carrier(self) -> None:
        guess = self._guess
        place = guess.columns.get("tracking_number")
        numbers = [] if place is None else guess.values(place)
        if carrier := value_guess.carrier_of(self._name, numbers):
            self._tables["fulfillment_values"] = {"tracking_company": carrier}
            self._notes.append(f"no column names the carrier: check {carrier!r}")
        else:
            self._notes.append(
                "no column names the carrier; set fulfillment_values.tracking_company"
            )

    def _values(self) -> None:
        guess = self._guess
        counted = [
            guess.columns[m] for m in ("quantity", "adjustment") if m in guess.columns
        ]
        numbers = [value for place in counted for value in guess.values(place)]
        others = [cell.strip() for row in guess.data for cell in row.cells]
        sign = value_guess.decimal_sign(numbers, others) if counted else ""
        if sign == "?":
            self._notes.append(
                "quantities such as 1.000 could be a thousand or one: set decimal"
            )
        elif sign:
            self._settings["decimal"] = sign
        for meaning in ("shipped_at", "as_of"):
            if meaning in guess.columns:
                self._dates(guess.values(guess.columns[meaning]))

    def _dates(self, values: list[str]) -> None:
        is_english = any(_ENGLISH.search(folded(c)) for c in self._guess.row.cells)
        written, is_open = value_guess.date_format(values, is_english=is_english)
        if written:
            self._settings["date_format"] = written
        if is_open:
            self._notes.append(
                f"no date of the file shows whether the day comes first: check"
                f" date_format = {written!r}"
            )

    def _rows(self) -> None:
        guess, skip = self._guess, dict[str, list[str]]()
        if guess.kind == "fulfillment":
            skip |= value_guess.voided(guess)
        identity = "sku" if guess.kind.startswith("stock") else "order"
        place = guess.columns[identity]
        if guess.number >= 0 and (labels := value_guess.totals(guess, place)):
            skip[guess.name(place)] = labels
        if skip:
            self._tables[f"{self._kind}_rows"] = {"skip": skip}
        if guess.kind == "stock level" and value_guess.has_places(guess):
            self._settings["same_sku"] = "sum"
            self._notes.append(
                "a SKU has several rows, one for each place: their quantities are"
                " added up"
            )
        if guess.kind == "stock delta" and (keys := value_guess.key_columns(guess)):
            self._settings["key_columns"] = keys
