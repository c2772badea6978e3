"""The rows that messages become: what each says, its place, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from backhaul_sdk.fields import Unusable, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi_settings import EdiSettings

PLACE, PROBLEM = "place", "problem"
"""The columns with a row's place in the interchange, and why it cannot be used."""
COLUMNS: Mapping[str, Sequence[str]] = {
    "fulfillment": (
        *(PLACE, "order", "tracking_company", "tracking_number", "sku", "quantity"),
        *("shipped_at", "sender", "document", "parcel", PROBLEM),
    ),
    "stock level": (PLACE, "sku", "quantity", "as_of", "location", PROBLEM),
}
"""The columns of the rows by the kind of file."""
CANCELLED = frozenset({"1", "3"})
"""Codes of messages that cancel or delete an earlier one (1225, and 353 of X12)."""
KEYS = ("sender", "document", "parcel")
"""The columns that identify a parcel; `sender_of` is the first one."""


class EdiRow(Struct, frozen=True, kw_only=True):
    """A row: its values by column, its place, and a problem if it has one.

    `part` names the part of the document that the row is about: an order, or a SKU in
    a place; it is empty if nothing names it.
    """

    place: str
    values: Mapping[str, str]
    problem: str = ""
    part: tuple[str, ...] = ()

    def cells(self, columns: Sequence[str]) -> list[str]:
        own = {**self.values, PLACE: self.place, PROBLEM: self.problem}
        return [own.get(column, "") for column in columns]


class MessageReader(Protocol):
    """Reads one message: `rows` can be called once."""

    @property
    def document(self) -> str:
        """What the sender calls the document; known when its rows were read.

        A document and its cancellation have different names here.
        """

    def rows(self) -> Iterator[EdiRow]: ...


class Document(Struct):
    """What the header of a message says; `title` is what such a message is called."""

    title: str
    number: str = ""
    is_cancelled: bool = False

    @property
    def name(self) -> str:
        """What distinguishes the document from others of its type and sender."""
        cancelled = f"cancellation of {self.number}"
        return cancelled if self.is_cancelled else self.number

    def rest(self, place: str, location: str, lines: int) -> Iterator[EdiRow]:
        """Yield the row of a stock report that cancels, or that has no line.

        `location` is the place of the whole report.
        """
        problem = ""
        if self.is_cancelled:
            problem = (
                f"the message cancels {self.title} {self.number}, so nothing was"
                " counted. If Backhaul imported this report before, ask the sender for"
                " a new one"
            )
        elif not lines:
            problem = (
                "the message has no line, so nothing was counted. If the stock is 0,"
                " the sender must report each SKU with the quantity 0"
            )
        if problem:
            values = {"location": location}
            yield EdiRow(place=place, values=values, problem=problem)


def sender_of(message: Message) -> str:
    """Return what identifies the sender, for keys of parcels and of documents.

    Its qualifier does not: some senders write it only in a part of their interchanges.
    """
    return message.interchange.sender


def is_cancelled(code: str) -> bool:
    """Return True for a purpose by which a message is no original; `01` is `1`."""
    return code.lstrip("0") in CANCELLED


def first_place(parties: Mapping[str, str], codes: Sequence[str]) -> str:
    """Return the party with the first of the codes, whatever their order in the file.

    A message can name the owner of the stock beside the warehouse.
    """
    return next(filter(None, (parties.get(code, "") for code in codes)), "")


class Notes:
    """Sentences for the log, at most a few of them."""

    def __init__(self, most: int = 20) -> None:
        self._most = most
        self._said: list[str] = []
        self._more = 0

    def add(self, sentence: str) -> None:
        if len(self._said) < self._most:
            self._said.append(sentence)
        else:
            self._more += 1

    def __iter__(self) -> Iterator[str]:
        yield from self._said
        if self._more:
            notes = "note" if self._more == 1 else "notes"
            yield f"{self._more} more {notes} of this kind"


def whole_units(quantity: str) -> int | None:
    """Return a quantity that is a whole number, such as 12,000; None if it is not."""
    try:
        # A comma is the decimal sign of some senders; nothing separates thousands.
        return whole_number(quantity.replace(",", "."), "quantity", ".")
    except Unusable:
        return None


def units_of(quantity: str, unit: str, edi: EdiSettings) -> tuple[str, str]:
    """Return a whole quantity without its decimals, and a problem with its unit."""
    units = whole_units(quantity)
    number = quantity.replace(",", ".") if units is None else str(units)
    if unit and unit not in edi.units:
        return number, (
            f"the quantity {number} is in the unit {unit}, and Backhaul does not know"
            " how many pieces that is. If the partner means pieces, add the code to"
            " edi.units"
        )
    return number, ""
