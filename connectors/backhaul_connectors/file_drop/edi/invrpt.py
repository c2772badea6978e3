"""Reads inventory reports (INVRPT D.96A and D.01B, and their EANCOM subsets)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from backhaul_connectors.file_drop.edi.articles import (
    EDIFACT_ARTICLES,
    add_more,
    article,
    in_edifact_line,
)
from backhaul_connectors.file_drop.edi.rows import (
    Document,
    EdiRow,
    first_place,
    is_cancelled,
    units_of,
    whole_units,
)
from backhaul_connectors.file_drop.edi.times import edifact_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi.rows import Notes
    from backhaul_connectors.file_drop.edi.syntax import Segment
    from backhaul_connectors.file_drop.edi_settings import EdiSettings

STOCK = ("145", "17")
"""Codes of quantities (6063): actual stock, and quantity on hand."""
COUNTED = ("366", "179", "137")
"""Codes of times (2005): of the inventory, of the booking, of the message."""
PLACES = ("WH", "GY", "LSP")
"""Codes of parties (3035) that have the stock, the most exact one first."""


class _Scope(Struct, kw_only=True):
    """The place and the time that a line, or one of its quantities, has."""

    location: str = ""
    parties: dict[str, str] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The location (LOC), which says more than the party (NAD) that has it."""
        return self.location or first_place(self.parties, PLACES)

    @property
    def counted_at(self) -> str:
        """The time of the inventory, else another one; empty if there is none."""
        times = (self.times.get(code, "") for code in COUNTED)
        return next(filter(None, times), "")

    def take(self, segment: Segment) -> None:
        """Take a place or a time; the first one of each kind of place counts."""
        match segment.tag:
            case "LOC":
                self.location = self.location or segment.value(2)
            case "NAD" if segment.value(1) in PLACES:
                # Some senders write only the name.
                party = segment.value(2) or segment.value(4)
                self.parties.setdefault(segment.value(1), party)
            case "DTM":
                value, code = segment.value(1, 2), segment.value(1, 3)
                self.times[segment.value(1)] = edifact_time(value, code)


class _Quantity(_Scope):
    """One quantity of a line; the segments that follow it are about it."""

    code: str
    number: str
    unit: str


class _Article(_Scope):
    number: str
    codes: dict[str, str]
    quantities: list[_Quantity] = field(default_factory=list)


class InventoryReport:
    """One message: `rows` yields a row for each stock of an article."""

    def __init__(self, message: Message, edi: EdiSettings, notes: Notes) -> None:
        self._message = message
        self._edi = edi
        self._notes = notes
        self._document = Document("stock report")
        self._header = _Scope()
        self._article: _Article | None = None
        self._lines = 0

    def rows(self) -> Iterator[EdiRow]:
        for segment in self._message.segments:
            if segment.tag in ("LIN", "UNS"):
                yield from self._end_line()
            self._take(segment)
        yield from self._end_line()
        name = self._message.name
        yield from self._document.rest(name, self._header.place, self._lines)

    @property
    def document(self) -> str:
        return self._document.name

    def _take(self, segment: Segment) -> None:
        line = self._article
        if segment.tag == "LIN":
            self._lines += 1
            number = segment.value(1) or str(self._lines)
            self._article = _Article(number=number, codes=in_edifact_line(segment))
        elif line is None:
            self._take_header(segment)
        elif segment.tag == "PIA":
            add_more(line.codes, segment)
        elif segment.tag == "QTY":
            code, quantity, unit = (segment.value(1, at) for at in (1, 2, 3))
            found = _Quantity(code=code, number=quantity, unit=unit)
            line.quantities.append(found)
        else:
            (line.quantities[-1] if line.quantities else line).take(segment)

    def _take_header(self, segment: Segment) -> None:
        if segment.tag == "BGM":
            self._document.number = segment.value(2)
            self._document.is_cancelled = is_cancelled(segment.value(3))
        elif segment.tag != "LOC":
            self._header.take(segment)

    def _end_line(self) -> Iterator[EdiRow]:
        line, self._article = self._article, None
        if line is None or self._document.is_cancelled:
            return
        place = f"{self._message.name}, LIN {line.number}"
        sku, unknown = article(line.codes, self._edi.article_codes, EDIFACT_ARTICLES)
        wanted, problem = self._wanted(line, place)
        for quantity in wanted:
            scopes = (quantity, line, self._header)
            location = next(filter(None, (each.place for each in scopes)), "")
            number, in_units = units_of(quantity.number, quantity.unit, self._edi)
            values = {
                "sku": sku,
                "quantity": number,
                "as_of": next(filter(None, (each.counted_at for each in scopes)), ""),
                "location": location,
            }
            said = problem or unknown or in_units
            yield EdiRow(
                place=place,
                values=values,
                problem=said,
                part=(sku, location) if sku else (),
            )

    def _wanted(self, line: _Article, name: str) -> tuple[Sequence[_Quantity], str]:
        """Return the quantities that are the stock, and what is wrong with them.

        A report for several places can have the total beside that of each place.
        """
        codes = self._edi.stock_codes or STOCK
        by_code = {
            code: [each for each in line.quantities if each.code == code]
            for code in codes
        }
        found = next((by_code[code] for code in codes if by_code[code]), [])
        if not found:
            has = ", ".join(each.code for each in line.quantities) or "none"
            return [_Quantity(code="", number="", unit="")], (
                f"the line has no quantity with one of the codes {', '.join(codes)}; it"
                f" has {has}. Set edi.stock_codes"
            )
        placed = [each for each in found if each.place]
        if placed:
            unplaced = [each.number for each in found if not each.place]
            return placed, self._check_total(unplaced, placed, name)
        if len(found) == 1:
            return found, ""
        # Packages or dates divide the total, which comes first. Two equal quantities
        # can be two parts, or a total and its only part.
        numbers = [whole_units(each.number) for each in found]
        total, *parts = [number for number in numbers if number is not None] or [0]
        if len(numbers) > 2 and len(numbers) == len(parts) + 1 and total == sum(parts):
            return found[:1], ""
        said = ", ".join(each.number for each in found)
        return found[:1], (
            f"the line has several quantities ({said}) without a place (LOC or NAD),"
            " and the first one is not the sum of at least two others"
        )

    def _check_total(
        self, unplaced: Sequence[str], placed: Sequence[_Quantity], name: str
    ) -> str:
        """Return what is wrong with quantities without a place beside others."""
        if not unplaced:
            return ""
        parts = [whole_units(each.number) for each in placed]
        total = whole_units(unplaced[0])
        is_total = total is not None and total == sum(each or 0 for each in parts)
        if len(unplaced) == 1 and is_total:
            self._notes.add(
                f"{name} has the quantity {unplaced[0]} without a place, which is the"
                " sum of those with a place, so it is left out"
            )
            return ""
        return (
            f"the line has a quantity without a place ({', '.join(unplaced)}) beside"
            f" quantities with a place ({', '.join(each.number for each in placed)}),"
            " and it is not their sum. Ask the sender what it counts"
        )
