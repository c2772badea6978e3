"""Compares a shipment with earlier reports of the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct

from backhaul.store.contract import Known, Unmatched
from backhaul_sdk import Fulfillment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backhaul.store.contract import (
        WaitingRecord,
    )
    from backhaul.store.order_views import OrderParcel, OrderSummary, ReportedShipment
    from backhaul_sdk import Line

    Places: TypeAlias = tuple[str, ...]
    Units: TypeAlias = Mapping[Places, int]
    Resolve: TypeAlias = Callable[[Iterable[Line]], Units | None]

_CORRECTION = (
    "so nobody knows whether this is a corrected row or a further parcel. A further "
    "parcel: retry ships it. A correction: drop it, the first shipment counts; change "
    "the parcel in the store's dashboard"
)
CORRECTED = (
    "order {order} was reported with {earlier}, and that row is not in this file, "
    f"{_CORRECTION}"
)
OTHER_CARRIER = (
    "order {order} was reported with {earlier}, the same parcel by another carrier, "
    f"{_CORRECTION}"
)
RENUMBERED = (
    "order {order} was reported with {earlier} under other key columns, and that row "
    f"is not in this file, {_CORRECTION}"
)
TWO_SOURCES = (
    "order {order} was reported with {earlier}, and only a number could tell whether "
    "this is the same parcel. A further parcel: retry ships it. The same parcel: drop "
    "it, the first shipment counts"
)
UNKNOWN_UNITS = (
    "order {order} has parcel {number} already, and the store does not say what is in "
    "it. A further part of it: retry ships it. The same goods: drop it"
)


class Part(Struct, frozen=True):
    """A part of a shipment: every key it may be known by, and its units by article.

    `units` is None where it holds everything that was left.
    """

    keys: frozenset[str]
    units: Units | None


class Shipment(Struct, frozen=True):
    """A shipment that was, or is to be, reported, its articles resolved."""

    record: Fulfillment
    parts: tuple[Part, ...]
    by_key: bool
    """Whether its source gave it a key, so that equal content proves nothing."""

    @property
    def number(self) -> str:
        return same_number(self.record.tracking_number)

    @property
    def carrier(self) -> str:
        return same_number(self.record.tracking_company)


class Earlier(Struct, frozen=True):
    """A shipment of the same order that has a command by now."""

    reported: ReportedShipment
    shipment: Shipment


def same_number(text: str | None) -> str:
    """Return a number or a name without what makes no difference."""
    return "".join((text or "").casefold().split())


def shipment_of(record: Fulfillment, resolve: Resolve) -> Shipment:
    """Return a record with its parts; one without parts is one itself."""
    parts = [
        Part(
            frozenset({part.key, *filter(None, part.earlier_keys)}), resolve(part.lines)
        )
        for part in record.parts
    ]
    whole = Part(frozenset({record.key}), resolve(record.lines))
    by_key = record.beside is not None and not record.by_content
    return Shipment(record, tuple(parts) or (whole,), by_key)


def earlier_of(reported: ReportedShipment, resolve: Resolve) -> Earlier:
    """Return what was reported, as `payload` keeps it."""
    document = msgspec.json.decode(reported.payload)
    record = msgspec.convert(document["record"], Fulfillment)
    return Earlier(reported, shipment_of(record, resolve))


def new_units(
    own: Shipment,
    wanted: Units,
    waiting: WaitingRecord,
    earlier: Sequence[Earlier],
    parcels: Sequence[OrderParcel],
    order: OrderSummary,
) -> Units | Known | Unmatched:
    """Return the units that are not in the parcel of this number yet.

    Each source reports a parcel once, be it in pieces. So what this source has reported
    of the parcel in all is compared with what is in it.
    """
    if not own.number or own.record.everything:
        return wanted
    same = [each for each in earlier if each.shipment.number == own.number]
    mine = [each for each in same if each.reported.instance == waiting.instance]
    others = [each for each in same if each.reported.instance != waiting.instance]
    shown = [each for each in parcels if same_number(each.number) == own.number]
    if not others and (mine or not shown):
        return wanted
    if not others and any(each.units is None for each in shown):
        said = UNKNOWN_UNITS.format(order=order.name, number=own.record.tracking_number)
        return Unmatched(said, final=True, asks=True)
    known = _known(own, others, order)
    if any(not each.reported.lines for each in others):
        return known
    inside = _inside(same, shown)
    left = {
        places: _left(
            units, sum(inside.get(place, 0) for place in places), mine, places
        )
        for places, units in wanted.items()
    }
    return {places: units for places, units in left.items() if units} or known


def _left(units: int, inside: int, mine: Sequence[Earlier], places: Places) -> int:
    reported = sum(_units(each, places) for each in mine)
    return min(units, max(0, reported + units - inside))


def _units(earlier: Earlier, places: Places) -> int:
    parts = earlier.shipment.parts
    return sum((part.units or {}).get(places, 0) for part in parts)


def _inside(same: Sequence[Earlier], shown: Sequence[OrderParcel]) -> dict[str, int]:
    """Return the units of each order line in the parcels of one number.

    A command and the parcel that the store shows for it are the same units.
    """
    sent: dict[str, int] = {}
    commands = {each.reported.command_id: each.reported.lines for each in same}
    for lines in commands.values():
        for place, units in lines.items():
            sent[place] = sent.get(place, 0) + units
    there: dict[str, int] = {}
    for parcel in shown:
        for place, units in (parcel.units or {}).items():
            there[place] = there.get(place, 0) + units
    return {
        place: max(sent.get(place, 0), there.get(place, 0)) for place in {*sent, *there}
    }


def _known(own: Shipment, others: Sequence[Earlier], order: OrderSummary) -> Known:
    number = own.record.tracking_number
    if not others:
        said = f"order {order.name} shows parcel {number} with these units already"
        return Known(None, said)
    first = others[0].reported
    said = f"known from {first.instance} {first.locator or first.key}: parcel {number}"
    return Known(first.command_id, said)


def in_question(
    own: Shipment,
    waiting: WaitingRecord,
    earlier: Sequence[Earlier],
    order: OrderSummary,
) -> Unmatched | Known | None:
    """Return what makes it doubtful that a shipment is a further one, if anything."""
    keys = {key for part in own.parts for key in part.keys}
    listed = keys | set(own.record.beside or ())
    found: Unmatched | Known | None
    for each in earlier:
        if each.reported.instance != waiting.instance:
            found = _from_two_sources(own, each, order)
        elif own.record.beside is None:
            found = None
        elif own.by_key and each.shipment.by_key:
            found = _renumbered(own, each, listed, order)
        else:
            found = _corrected(own, each, listed, order)
        if found is not None:
            return found
    return None


def _from_two_sources(
    own: Shipment, earlier: Earlier, order: OrderSummary
) -> Unmatched | None:
    """Ask where two sources report the same units, and not both say the number."""
    if own.number and earlier.shipment.number:
        return None
    is_same = _any_equal(own.parts, earlier.shipment.parts)
    return _ask(TWO_SOURCES, earlier, order) if is_same else None


def _corrected(
    own: Shipment, earlier: Earlier, listed: set[str], order: OrderSummary
) -> Unmatched | Known | None:
    """Compare with a shipment of the same source, of which rows may have gone."""
    before = earlier.shipment
    gone = [part for part in before.parts if not part.keys & listed]
    same_number = bool(own.number) and own.number == before.number
    if same_number and own.carrier != before.carrier:
        is_same = _any_equal(own.parts, before.parts)
        return _ask(OTHER_CARRIER, earlier, order) if is_same else None
    if not gone:
        return None
    if same_number and all(_any_equal([part], gone) for part in own.parts):
        said = f"known from {earlier.reported.locator}: only its time is another"
        return Known(earlier.reported.command_id, said)
    is_same = same_number or _any_equal(own.parts, gone)
    return _ask(CORRECTED, earlier, order) if is_same else None


def _renumbered(
    own: Shipment, earlier: Earlier, listed: set[str], order: OrderSummary
) -> Unmatched | None:
    """Ask where one parcel comes again, its rows under other keys.

    A spreadsheet takes the zeros off a document's number, and a program numbers its
    rows anew.
    """
    before = earlier.shipment
    if not own.number or (own.number, own.carrier) != (before.number, before.carrier):
        return None
    gone = [part for part in before.parts if not part.keys & listed]
    is_same = _any_equal(own.parts, gone)
    return _ask(RENUMBERED, earlier, order) if is_same else None


def _any_equal(own: Iterable[Part], others: Sequence[Part]) -> bool:
    return any(
        part.units is not None and part.units == other.units
        for part in own
        for other in others
    )


def _ask(question: str, earlier: Earlier, order: OrderSummary) -> Unmatched:
    said = question.format(order=order.name, earlier=_described(earlier))
    return Unmatched(said, final=True, asks=True)


def _described(earlier: Earlier) -> str:
    """Return an earlier shipment in words: `2 x LS-S in DHL JD1 (courier.csv:7)`."""
    record, reported = earlier.shipment.record, earlier.reported
    lines = ", ".join(f"{line.quantity} x {line.sku}" for line in record.lines[:5])
    names = [name for name in (record.tracking_company, record.tracking_number) if name]
    parcel = " ".join(names) or "a parcel without number"
    where = f"{reported.instance} {reported.locator or reported.key}"
    return f"{lines or 'everything'} in {parcel} ({where})"
