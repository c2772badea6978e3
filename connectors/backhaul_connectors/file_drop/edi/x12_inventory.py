"""Reads X12 inventory advices (846)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from backhaul_connectors.file_drop.edi.articles import (
    X12_ARTICLES,
    article,
    in_x12_line,
)
from backhaul_connectors.file_drop.edi.rows import (
    Document,
    EdiRow,
    first_place,
    is_cancelled,
    units_of,
)
from backhaul_connectors.file_drop.edi.times import x12_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi.rows import Notes
    from backhaul_connectors.file_drop.edi.syntax import Segment
    from backhaul_connectors.file_drop.edi_settings import EdiSettings

STOCK = ("33", "17", "QA")
"""Codes of quantities (673): available for sale, on hand, available now."""
COUNTED = ("007", "152", "405")
"""Codes of times (374): effective, effective date of change, production."""
PLACES = ("WH", "SF")
"""Codes of parties (98) that have the stock, the most exact one first."""


class _Item(Struct):
    number: str
    articles: dict[str, str]
    quantities: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    parties: dict[str, str] = field(default_factory=dict)
    counted_at: str = ""


class InventoryAdvice:
    """One message: `rows` yields a row for each item."""

    def __init__(self, message: Message, edi: EdiSettings, notes: Notes) -> None:
        self._message = message
        self._edi = edi
        self._notes = notes
        self._document = Document("stock report")
        self._counted_at = ""
        self._parties = dict[str, str]()
        self._item: _Item | None = None
        self._items = 0

    def rows(self) -> Iterator[EdiRow]:
        for segment in self._message.segments:
            if segment.tag in ("LIN", "CTT"):
                yield from self._end_item()
            self._take(segment)
        yield from self._end_item()
        name = self._message.name
        yield from self._document.rest(
            name, first_place(self._parties, PLACES), self._items
        )

    @property
    def document(self) -> str:
        return self._document.name

    def _take(self, segment: Segment) -> None:
        match segment.tag:
            case "BIA":
                self._document.number = segment.value(3)
                self._document.is_cancelled = is_cancelled(segment.value(1))
                self._counted_at = x12_time(segment.value(4), segment.value(5))
            case "LIN":
                self._items += 1
                number = segment.value(1) or str(self._items)
                self._item = _Item(number, in_x12_line(segment))
            case "DTM" if segment.value(1) in COUNTED:
                at = x12_time(*(segment.value(each) for each in (2, 3, 4)))
                if self._item is None:
                    self._counted_at = at
                else:
                    self._item.counted_at = at
            case "N1" if segment.value(1) in PLACES:
                place = segment.value(4) or segment.value(2)
                found = self._parties if self._item is None else self._item.parties
                found.setdefault(segment.value(1), place)
            case "QTY" if self._item is not None:
                same = self._item.quantities.setdefault(segment.value(1), [])
                same.append((segment.value(2), segment.value(3)))

    def _end_item(self) -> Iterator[EdiRow]:
        item, self._item = self._item, None
        if item is None or self._document.is_cancelled:
            return
        sku, unknown = article(item.articles, self._edi.article_codes, X12_ARTICLES)
        codes = self._edi.stock_codes or STOCK
        code = next((each for each in codes if each in item.quantities), "")
        found = item.quantities.get(code, [("", "")])
        problem = ""
        if not code:
            has = ", ".join(item.quantities) or "none"
            problem = (
                f"the item has no quantity with one of the codes {', '.join(codes)}; it"
                f" has {has}. Set edi.stock_codes"
            )
        elif len(found) > 1:
            said = ", ".join(number for number, _ in found)
            problem = f"the item has several quantities QTY*{code}: {said}"
        number, in_units = units_of(*found[0], self._edi)
        values = {
            "sku": sku,
            "quantity": number,
            "as_of": item.counted_at or self._counted_at,
            "location": first_place(item.parties, PLACES)
            or first_place(self._parties, PLACES),
        }
        place = f"{self._message.name}, LIN {item.number}"
        said = problem or unknown or in_units
        yield EdiRow(
            place=place,
            values=values,
            problem=said,
            part=(sku, values["location"]) if sku else (),
        )
