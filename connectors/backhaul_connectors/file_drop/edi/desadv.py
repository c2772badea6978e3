"""Reads despatch advices (DESADV D.96A and D.01B, and their EANCOM subsets)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from backhaul_connectors.file_drop.edi.articles import (
    EDIFACT_ARTICLES,
    add_more,
    in_edifact_line,
)
from backhaul_connectors.file_drop.edi.rows import is_cancelled
from backhaul_connectors.file_drop.edi.shipment_rows import (
    Codes,
    Item,
    References,
    Shipment,
    ShipmentRows,
    first_of,
)
from backhaul_connectors.file_drop.edi.times import edifact_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi.rows import EdiRow, Notes
    from backhaul_connectors.file_drop.edi.syntax import Segment
    from backhaul_connectors.file_drop.edi_settings import EdiSettings

CODES = Codes(
    articles=EDIFACT_ARTICLES,
    orders=("ON", "CO"),
    # The carrier's reference, waybills, the SSCC, then the bill of lading.
    tracking=("CN", "AAM", "AWB", "AAS", "BJ", "AW", "BM"),
    sscc="BJ",
)
"""Codes of references (1153), and of marks of packages."""
DESPATCHED = "12"
NOT_DESPATCHED = frozenset({"2", "7"})
"""Actions of a line (1229): deleted, and not accepted."""
CARRIAGE = ("20", "1", "")
SUB_LINE = "1"


class _Package(Struct):
    """One packing level (CPS), with the level that contains it."""

    number: str
    parent: str = ""
    references: References = field(default_factory=References)


class _Line(Struct):
    number: str
    is_sub_line: bool
    action: str
    articles: dict[str, str]
    references: References = field(default_factory=References)
    quantities: list[tuple[str, str]] = field(default_factory=list)


class DespatchAdvice:
    """One message: `rows` yields a row for each line that was despatched."""

    def __init__(self, message: Message, edi: EdiSettings, notes: Notes) -> None:
        self._message = message
        self._edi = edi
        self._notes = notes
        self._shipment = Shipment("despatch advice")
        self._made = ShipmentRows(message, edi, notes, self._shipment)
        self._carriers = dict[str, str]()
        self._header = References()
        self._packages = dict[str, _Package]()
        self._package: _Package | None = None
        self._line: _Line | None = None
        self._lines = 0
        self._has_whole_line = False

    def rows(self) -> Iterator[EdiRow]:
        for segment in self._message.segments:
            if segment.tag in ("CPS", "LIN", "UNS"):
                yield from self._end_line()
            self._take(segment)
        yield from self._end_line()
        yield from self._made.rest(self._lines, self._levels(), CODES)

    def _levels(self) -> Iterator[References]:
        yield self._header
        yield from (each.references for each in self._packages.values())

    @property
    def document(self) -> str:
        return self._shipment.name

    def _take(self, segment: Segment) -> None:
        match segment.tag:
            case "BGM":
                self._shipment.number = segment.value(2)
                self._shipment.is_cancelled = is_cancelled(segment.value(3))
            case "CPS":
                number, parent = segment.value(1), segment.value(2)
                self._package = _Package(number, parent)
                self._packages[number] = self._package
            case "LIN":
                self._begin_line(segment)
            case "RFF":
                self._scope.add(segment.value(1), [segment.value(1, 2)])
            case "GIN":
                self._scope.add(segment.value(1), segment.values(2))
            case "DTM" | "TDT" | "NAD":
                self._take_header(segment)
            case "PIA" | "QTY":
                self._take_detail(segment)

    @property
    def _scope(self) -> References:
        part = self._line or self._package
        return self._header if part is None else part.references

    def _take_header(self, segment: Segment) -> None:
        if self._line is not None:
            return
        if segment.tag == "DTM" and segment.value(1) == "11":
            time, code = segment.value(1, 2), segment.value(1, 3)
            self._shipment.shipped_at = edifact_time(time, code)
        if segment.tag == "TDT" and segment.value(1) in CARRIAGE:
            self._carriers |= {"3": segment.value(5, 1), "1": segment.value(5, 4)}
        if segment.tag == "NAD" and segment.value(1) == "CA":
            name = segment.value(4) or segment.value(3)
            self._carriers |= {"4": segment.value(2), "2": name}

    def _take_detail(self, segment: Segment) -> None:
        line = self._line
        if line is None:
            return
        if segment.tag == "PIA":
            add_more(line.articles, segment)
        elif segment.value(1) == DESPATCHED:
            line.quantities.append((segment.value(1, 2), segment.value(1, 3)))

    def _begin_line(self, segment: Segment) -> None:
        self._lines += 1
        self._line = _Line(
            number=segment.value(1) or str(self._lines),
            is_sub_line=segment.value(4) == SUB_LINE,
            action=segment.value(2),
            articles=in_edifact_line(segment),
        )

    def _end_line(self) -> Iterator[EdiRow]:
        line, self._line = self._line, None
        if line is None:
            return
        place = f"{self._message.name}, LIN {line.number}"
        if line.is_sub_line and self._has_whole_line:
            self._notes.add(f"{place} is a part of another line, so it is left out")
            return
        self._has_whole_line = self._has_whole_line or not line.is_sub_line
        quantity, unit = next(iter(line.quantities), ("", ""))
        scopes = [line.references, *self._around(), self._header]
        item = Item(
            place=place,
            articles=line.articles,
            quantity=quantity,
            unit=unit,
            scopes=scopes,
            package=self._package_of(line, scopes),
            carrier=self._carrier(),
            problem=_problem_of(line),
        )
        yield from self._made.row(item, CODES)

    def _package_of(self, line: _Line, scopes: Sequence[References]) -> str:
        level = self._package.number if self._package else "1"
        codes = self._edi.tracking_codes or CODES.tracking
        own = first_of(codes, [line.references])
        # A number of the line itself divides the packing level.
        is_own = own and own == first_of(codes, scopes)
        return f"{level}/{line.number}" if is_own else level

    def _around(self) -> Sequence[References]:
        """Return the packing levels of the line, the innermost first."""
        found: list[_Package] = []
        package = self._package
        while package is not None and package not in found:
            found.append(package)
            package = self._packages.get(package.parent)
        return [each.references for each in found]

    def _carrier(self) -> str:
        names = [self._carriers[each] for each in sorted(self._carriers)]
        return next((name for name in names if name), "")


def _problem_of(line: _Line) -> str:
    """Return why a line does not count as despatched, or ""."""
    if line.is_sub_line:
        return (
            "the line is a part of another one, which the message does not have before"
            " it. Ask the sender what was despatched"
        )
    if line.action.lstrip("0") in NOT_DESPATCHED:
        return f"the line is deleted or refused: its action (1229) is {line.action}"
    if len(line.quantities) > 1:
        found = ", ".join(number for number, _ in line.quantities)
        return (
            f"the line has several despatched quantities (QTY+12): {found}. Backhaul"
            " does not know whether they add up"
        )
    has_quantity = any(number for number, _ in line.quantities)
    return "" if has_quantity else "the line has no despatched quantity (QTY+12)"
