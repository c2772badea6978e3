"""Collects the stock levels of one list; refuses or adds up repeated articles."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from backhaul_sdk.fields import stock_of
from backhaul_sdk.records import Bad, StockLevel

if TYPE_CHECKING:
    from backhaul_sdk.records import Record

    Read: TypeAlias = Record | Bad

MOST_NAMED = 5
ADVICE = (
    "If each item is one part of the stock (such as one warehouse), set same_sku ="
    ' "sum". Otherwise keep only one of the items'
)


class StockListItems:
    """Collects the items of a list, and refuses or adds up repeated articles.

    It keeps every item until the end of the list: about 1 kB for each.
    """

    def __init__(self, *, adds_up: bool) -> None:
        self._adds_up = adds_up
        self._read: list[tuple[Read, int]] = []
        self._places: dict[tuple[str, str], list[int]] = {}
        self._unusable: dict[str, str] = {}

    def add(self, record: Read, number: int, article: str) -> None:
        """Add an item; `number` is its level before a level below 0 became 0.

        An item that comes again on a later page replaces the earlier one.
        """
        if not isinstance(record, StockLevel):
            self._unusable[article] = record.locator
            self._read.append((record, number))
            return
        places = self._places.setdefault((record.sku, record.as_of), [])
        for place in places:
            if self._read[place][0].locator == record.locator:
                self._read[place] = record, number
                return
        places.append(len(self._read))
        self._read.append((record, number))

    def records(self) -> list[Read]:
        """Return every item; for a repeated article one sum, or what is wrong."""
        found = [self._once(place) for place in range(len(self._read))]
        return [each for each in found if each is not None]

    def _once(self, place: int) -> Read | None:
        record, _ = self._read[place]
        if not isinstance(record, StockLevel):
            return record
        places = self._places[record.sku, record.as_of]
        if record.sku in self._unusable:
            return _refused(record, "another item of the same SKU cannot be used")
        if len(places) == 1:
            return record
        if not self._adds_up:
            named = [self._read[each][0].locator for each in places[:MOST_NAMED]]
            more = "" if len(places) <= MOST_NAMED else ", …"
            return _refused(record, f"{', '.join(named)}{more} count it too. {ADVICE}")
        return self._sum(record, places) if place == places[0] else None

    def _sum(self, record: StockLevel, places: list[int]) -> StockLevel:
        numbers = [self._read[each][1] for each in places]
        quantity, changed = stock_of(sum(numbers), negative_is_zero=True)
        more = "" if len(numbers) <= MOST_NAMED else " + …"
        said = f"{' + '.join(map(str, numbers[:MOST_NAMED]))}{more} added up"
        note = "; ".join(filter(None, (said, changed)))
        key = f"{record.key}:{quantity}"
        return replace(record, key=key, quantity=quantity, note=note)


def _refused(record: StockLevel, why: str) -> Bad:
    return Bad(
        key=f"{record.key}:several",
        raw=record.raw,
        reason=(
            f"several items count the SKU {record.sku!r}, so Backhaul uses none of"
            f" these items: {why}"
        ),
        locator=record.locator,
    )
