"""Reads X12 ship notices (856) and warehouse shipping advices (945)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backhaul_connectors.file_drop.edi.articles import X12_ARTICLES, in_x12_line
from backhaul_connectors.file_drop.edi.rows import is_cancelled
from backhaul_connectors.file_drop.edi.shipment_rows import (
    Codes,
    Item,
    References,
    Shipment,
    ShipmentRows,
    first_of,
)
from backhaul_connectors.file_drop.edi.times import x12_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi.rows import EdiRow, Notes
    from backhaul_connectors.file_drop.edi.syntax import Segment
    from backhaul_connectors.file_drop.edi_settings import EdiSettings

CODES = Codes(
    articles=X12_ARTICLES,
    # PRF01, W0602, then references.
    orders=("PRF", "W06", "ON", "CO", "PO"),
    # The carrier's package number, tracking number and shipment number, the SSCC, then
    # the bill of lading.
    tracking=("CP", "2I", "CN", "GM", "AA", "BM"),
    sscc="GM",
)
"""Codes of references (128), and of marks (88)."""
SHIPPED = ("011", "11")
OTHER_REPORTS = {
    "A": "an inventory adjustment",
    "B": "a book transfer of inventory",
    "C": "a return of a customer",
    "K": "a simulation",
    "O": "an overage of a physical inventory",
    "P": "a production receipt",
    "S": "a shortage of a physical inventory",
}
"""Reporting codes (514) of a 945 by which nothing left for a customer."""
DELETED = "3"
"""The action (306, W0612) of a 945 that deletes an earlier one; 1 adds one."""
ITEM = "I"
OUTERMOST = ("S", "O")
"""Codes of levels (735) that need none outside of them to name the order."""


class _Level(Struct):
    """A hierarchical level (HL), or a line (LX): its references and marks."""

    number: str
    parent: str
    code: str
    references: References = field(default_factory=References)
    in_item: str = ""
    """The number of the item that the level is inside of, if there is one."""


class _Item(Struct):
    """An item that was shipped, with the level that it is."""

    place: str
    level: _Level
    articles: Mapping[str, str]
    quantity: str
    unit: str


class Shipments(ABC):
    """What both messages have in common: `rows` yields a row for each item."""

    def __init__(self, message: Message, edi: EdiSettings, notes: Notes) -> None:
        self._message = message
        self._edi = edi
        self._shipment = Shipment("shipment")
        self._made = ShipmentRows(message, edi, notes, self._shipment)
        self._carrier = self._scac = ""
        self._top = _Level("", "", "")
        self._levels = dict[str, _Level]()
        self._level = self._line = self._top
        self._item: _Item | None = None
        self._items = 0

    def rows(self) -> Iterator[EdiRow]:
        for segment in self._message.segments:
            yield from self._take(segment)
        yield from self._end()
        levels = (each.references for each in (self._top, *self._levels.values()))
        yield from self._made.rest(self._items, levels, CODES)

    @property
    def document(self) -> str:
        return self._shipment.name

    @abstractmethod
    def _take(self, segment: Segment) -> Iterator[EdiRow]:
        """Take the next segment; yield the rows of items that it ends."""

    def _end(self) -> Iterator[EdiRow]:
        """Yield the row of the last item, if it has none yet."""
        item, self._item = self._item, None
        if item is not None:
            yield from self._row(item, [])

    def _take_reference(self, segment: Segment) -> None:
        """Take a reference, a mark, the carrier or the time of the shipment."""
        references = self._level.references
        match segment.tag:
            case "REF" | "N9":
                references.add(segment.value(1), [segment.value(2)])
            case "MAN":
                references.add(segment.value(1), [segment.value(2)])
                if segment.value(4):
                    references.add(segment.value(4), [segment.value(5)])
            case "TD5":
                self._carrier = segment.value(5) or self._carrier
                if segment.value(2) in ("2", "02"):
                    self._scac = segment.value(3)
            case "W27":
                self._carrier = segment.value(3) or self._carrier
                self._scac = segment.value(2) or self._scac
            case "DTM" | "G62":
                self._take_time(segment)

    def _take_time(self, segment: Segment) -> None:
        if segment.value(1) in SHIPPED and self._level.code != ITEM:
            # G62 has a qualifier between the date and the time.
            at = 4 if segment.tag == "G62" else 3
            time, zone = segment.value(at), segment.value(at + 1)
            self._shipment.shipped_at = x12_time(segment.value(2), time, zone)

    def _row(self, item: _Item, packs: Sequence[_Level]) -> Iterator[EdiRow]:
        """Yield the row of an item; `packs` are levels inside of its own."""
        self._items += 1
        # An item in several packs has the numbers of all of them.
        inside = References()
        for pack in packs:
            for code, found in pack.references.found.items():
                inside.add(code, found)
        outside = [each.references for each in self._around(item.level)]
        scopes = [inside, *outside]
        shipped = Item(
            place=item.place,
            articles=item.articles,
            quantity=item.quantity,
            unit=item.unit,
            scopes=scopes,
            package=self._parcel_of(item.level, packs),
            carrier=self._carrier or self._scac,
            problem=self._problem(item, scopes),
        )
        yield from self._made.row(shipped, CODES)

    def _problem(self, item: _Item, scopes: Sequence[References]) -> str:
        """Return why an item does not count as shipped, or ""."""
        return "" if item.quantity else "the item has no number of shipped units"

    def _parcel_of(self, level: _Level, packs: Sequence[_Level]) -> str:
        """Return the number of the level that is the parcel of an item."""
        if packs:
            return packs[0].number
        outside = [each for each in self._around(level) if each.code != ITEM]
        package = outside[0].number if outside else ""
        codes = self._edi.tracking_codes or CODES.tracking
        # A number of the item itself divides the level outside of it.
        is_own = level.code == ITEM and first_of(codes, [level.references])
        return f"{package}/{level.number}" if is_own else package

    def _around(self, level: _Level) -> list[_Level]:
        """Return a level and those that contain it, the innermost first."""
        found: list[_Level] = []
        part: _Level | None = level
        while part is not None and part not in found:
            found.append(part)
            part = self._levels.get(part.parent) if part.parent else None
        return found if found[-1] is self._top else [*found, self._top]


class ShipNotice(Shipments):
    """An 856: levels of shipment, order, tare, pack and item, in any nesting."""

    def __init__(self, message: Message, edi: EdiSettings, notes: Notes) -> None:
        super().__init__(message, edi, notes)
        self._packs: list[_Level] = []
        self._articles = dict[str, str]()
        # The last item that no other one contains, then the levels inside of it.
        self._inside = dict[str, _Level]()

    def _take(self, segment: Segment) -> Iterator[EdiRow]:
        match segment.tag:
            case "BSN":
                self._shipment.number = segment.value(2)
                self._shipment.is_cancelled = is_cancelled(segment.value(1))
            case "HL":
                yield from self._begin_level(segment)
            case "PRF":
                self._level.references.add("PRF", [segment.value(1)])
            case "LIN":
                self._articles = in_x12_line(segment)
            case "SN1":
                yield from self._end()
                place = f"{self._message.name}, HL {self._level.number}"
                quantity, unit = segment.value(2), segment.value(3)
                self._item = _Item(place, self._level, self._articles, quantity, unit)
            case _:
                self._take_reference(segment)

    def _begin_level(self, segment: Segment) -> Iterator[EdiRow]:
        number, parent = segment.value(1), segment.value(2)
        level = _Level(number, parent, segment.value(3))
        if parent and parent in self._inside:
            level.in_item = next(iter(self._inside))
        item = self._item.level.number if self._item is not None else ""
        if level.in_item and parent == item and level.code != ITEM:
            # Packs inside of an item, as in the structure SOIP.
            self._packs.append(level)
        else:
            yield from self._end()
            self._articles = {}
        self._add_level(level)
        self._level = level

    def _add_level(self, level: _Level) -> None:
        """Remember a level that contains others, an item only until the next one."""
        if level.in_item:
            self._inside[level.number] = level
        elif level.code == ITEM:
            for number, each in self._inside.items():
                if self._levels.get(number) is each:
                    del self._levels[number]
            self._inside = {level.number: level}
        else:
            self._inside.pop(level.number, None)
        self._levels[level.number] = level

    def _problem(self, item: _Item, scopes: Sequence[References]) -> str:
        if problem := super()._problem(item, scopes):
            return problem
        if item.level.in_item:
            return (
                f"the item is inside of the item HL {item.level.in_item}, so Backhaul"
                " does not know whether it is a part of it. If it was shipped beside"
                " it, correct the order in the store"
            )
        if first_of(self._edi.order_codes or CODES.orders, scopes):
            return ""
        return self._broken(item.level)

    def _broken(self, level: _Level) -> str:
        """Return which level of an item without an order has the wrong HL02, or ""."""
        levels = [each for each in self._around(level) if each is not self._top]
        for outer in levels[-1:]:
            if outer.parent:
                return (
                    f"nothing names the order: HL {outer.number} is inside of HL"
                    f" {outer.parent} by its HL02, and this is not an earlier level"
                    " that contains others. Ask the sender"
                )
            if outer.code not in OUTERMOST:
                return (
                    f"nothing names the order: HL {outer.number} has no HL02, so"
                    " Backhaul does not know which level contains it. Ask the sender"
                )
        return ""

    def _end(self) -> Iterator[EdiRow]:
        item, self._item = self._item, None
        packs, self._packs = self._packs, []
        if item is not None:
            yield from self._row(item, packs)


class ShippingAdvice(Shipments):
    """A 945: one order, with lines (LX) of packages (MAN) and items (W12).

    Segments before the first item of a line are about all of its items, those after an
    item are about that item.
    """

    _report = ""

    def _problem(self, item: _Item, scopes: Sequence[References]) -> str:
        if other := OTHER_REPORTS.get(self._report):
            return f"W0601 {self._report} reports {other}, and no shipment"
        return super()._problem(item, scopes)

    def _take(self, segment: Segment) -> Iterator[EdiRow]:
        if segment.tag in ("LX", "W12", "W03"):
            yield from self._end()
        match segment.tag:
            case "W06":
                self._report = segment.value(1)
                self._shipment.is_cancelled = segment.value(12) == DELETED
                self._shipment.number = segment.value(4) or segment.value(2)
                self._top.references.add("W06", [segment.value(2)])
                self._top.references.add("PO", [segment.value(6)])
                self._shipment.shipped_at = x12_time(segment.value(3))
            case "LX":
                self._line = self._level = _Level(segment.value(1), "", "LX")
            case "W12":
                self._begin_item(segment)
            case "W03":
                self._line = self._level = self._top
            case _:
                self._take_reference(segment)

    def _begin_item(self, segment: Segment) -> None:
        pairs = [(7, 8), (17, 18)]
        articles = {"UA": segment.value(6)} if segment.value(6) else {}
        articles |= {
            segment.value(code): segment.value(number)
            for code, number in pairs
            if segment.value(number)
        }
        place = f"{self._message.name}, LX {self._line.number}"
        quantity, unit = segment.value(3), segment.value(5)
        self._level = _Level(self._line.number, "", ITEM)
        self._item = _Item(place, self._level, articles, quantity, unit)

    def _around(self, level: _Level) -> list[_Level]:
        lines = [] if self._line is self._top else [self._line]
        return [level, *lines, self._top]

    def _parcel_of(self, level: _Level, packs: Sequence[_Level]) -> str:
        """Return the line of an item that has a tracking number; else all are one.

        Other references, such as that of a lot, do not divide a shipment.
        """
        inside = [each.references for each in self._around(level)[:-1]]
        has_number = first_of(self._edi.tracking_codes or CODES.tracking, inside)
        return level.number if has_number else ""
