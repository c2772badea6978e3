"""Compares a shipment with earlier reports of the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backhaul.store.records import Known, ReasonClass, Unmatched
from backhaul_sdk import Fulfillment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backhaul.store.matching import WaitingRecord
    from backhaul.store.mirror import OrderParcel, OrderSummary, ReportedShipment
    from backhaul_sdk import Line

    Places: TypeAlias = tuple[str, ...]
    Units: TypeAlias = Mapping[Places, int]
    Resolve: TypeAlias = Callable[[Iterable[Line]], Units | None]

_CORRECTION = (
    "so it is unknown whether this row is a correction or a further parcel. If the"
    " row is a further parcel, retry ships it. If the row is a correction, discard"
    " the row and change the parcel in the store's dashboard"
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
    "order {order} was reported with {earlier}, and without a tracking number it is "
    "unknown whether this is the same parcel. If it is a further parcel, retry ships "
    "it. If it is the same parcel, discard the row"
)
UNKNOWN_UNITS = (
    "order {order} already has parcel {number}, and the store does not say what is in "
    "it. If these are further units, retry ships them. If they are the same units, "
    "discard the row"
)


class ShipmentPart(Struct, frozen=True):
    """One part of a shipment: its possible keys, and its units by article.

    `units` is None if the part holds everything that was open.
    """

    keys: frozenset[str]
    units: Units | None


class ResolvedShipment(Struct, frozen=True):
    """A shipment, reported before or new, with its articles resolved to order lines."""

    record: Fulfillment
    parts: tuple[ShipmentPart, ...]
    by_key: bool
    """Whether its source gave it a key; equal content then proves nothing."""

    @property
    def number(self) -> str:
        return normalized_number(self.record.tracking_number)

    @property
    def carrier(self) -> str:
        return normalized_number(self.record.tracking_company)


class EarlierShipment(Struct, frozen=True):
    """A shipment of the same order that already has a command."""

    reported: ReportedShipment
    shipment: ResolvedShipment


def normalized_number(text: str | None) -> str:
    """Return a tracking number or carrier in a form for comparison."""
    return "".join((text or "").casefold().split())


def shipment_of(record: Fulfillment, resolve: Resolve) -> ResolvedShipment:
    """Return the resolved shipment; a record without parts is its own only part."""
    parts = [
        ShipmentPart(
            frozenset({part.key, *filter(None, part.earlier_keys)}), resolve(part.lines)
        )
        for part in record.parts
    ]
    whole = ShipmentPart(frozenset({record.key}), resolve(record.lines))
    by_key = record.beside is not None and not record.by_content
    return ResolvedShipment(record, tuple(parts) or (whole,), by_key)


def earlier_of(reported: ReportedShipment, resolve: Resolve) -> EarlierShipment:
    """Return an earlier shipment from its stored report.

    Its SKUs are read by the mappings by which they were read then.
    """
    document = msgspec.json.decode(reported.payload)
    record = msgspec.convert(document["record"], Fulfillment)
    read_as = document.get("read_as", {})

    def resolve_then(lines: Iterable[Line]) -> Units | None:
        return resolve(
            replace(line, sku=read_as.get(line.sku, line.sku)) for line in lines
        )

    return EarlierShipment(reported, shipment_of(record, resolve_then))


def new_units(
    own: ResolvedShipment,
    wanted: Units,
    waiting: WaitingRecord,
    earlier: Sequence[EarlierShipment],
    parcels: Sequence[OrderParcel],
    order: OrderSummary,
) -> Units | Known | Unmatched:
    """Return the units that are not in the parcel of this number yet.

    Each source reports a parcel once, perhaps in pieces. So all that this source has
    reported of the parcel is compared with the content of the parcel.
    """
    if not own.number or own.record.everything:
        return wanted
    same = [each for each in earlier if each.shipment.number == own.number]
    mine = [each for each in same if each.reported.instance == waiting.instance]
    others = [each for each in same if each.reported.instance != waiting.instance]
    shown = [each for each in parcels if normalized_number(each.number) == own.number]
    if not others and (mine or not shown):
        return wanted
    if not others and any(each.units is None for each in shown):
        said = UNKNOWN_UNITS.format(order=order.name, number=own.record.tracking_number)
        return _ask(said, order)
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


def _left(
    units: int, inside: int, mine: Sequence[EarlierShipment], places: Places
) -> int:
    reported = sum(_units(each, places) for each in mine)
    return min(units, max(0, reported + units - inside))


def _units(earlier: EarlierShipment, places: Places) -> int:
    parts = earlier.shipment.parts
    return sum((part.units or {}).get(places, 0) for part in parts)


def _inside(
    same: Sequence[EarlierShipment], shown: Sequence[OrderParcel]
) -> dict[str, int]:
    """Return the units of each order line in the parcels of one number.

    A command and the parcel that the store shows for it count once.
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


def _known(
    own: ResolvedShipment, others: Sequence[EarlierShipment], order: OrderSummary
) -> Known:
    number = own.record.tracking_number
    if not others:
        said = f"order {order.name} already has these units in parcel {number}"
        return Known(None, said)
    first = others[0].reported
    said = f"known from {first.instance} {first.locator or first.key}: parcel {number}"
    return Known(first.command_id, said)


def operator_question(
    own: ResolvedShipment,
    waiting: WaitingRecord,
    earlier: Sequence[EarlierShipment],
    order: OrderSummary,
) -> Unmatched | Known | None:
    """Return the question to an operator if it may not be a further shipment."""
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
    own: ResolvedShipment, earlier: EarlierShipment, order: OrderSummary
) -> Unmatched | None:
    """Ask if two sources report the same units and one of them has no number."""
    if own.number and earlier.shipment.number:
        return None
    is_same = _any_equal_part(own.parts, earlier.shipment.parts)
    return _question(TWO_SOURCES, earlier, order) if is_same else None


def _corrected(
    own: ResolvedShipment,
    earlier: EarlierShipment,
    listed: set[str],
    order: OrderSummary,
) -> Unmatched | Known | None:
    """Compare with a shipment of the same source whose rows may be gone."""
    before = earlier.shipment
    gone = [part for part in before.parts if not part.keys & listed]
    normalized_number = bool(own.number) and own.number == before.number
    if normalized_number and own.carrier != before.carrier:
        is_same = _any_equal_part(own.parts, before.parts)
        return _question(OTHER_CARRIER, earlier, order) if is_same else None
    if not gone:
        return None
    if normalized_number and all(_any_equal_part([part], gone) for part in own.parts):
        said = f"known from {earlier.reported.locator}: only the time differs"
        return Known(earlier.reported.command_id, said)
    is_same = normalized_number or _any_equal_part(own.parts, gone)
    return _question(CORRECTED, earlier, order) if is_same else None


def _renumbered(
    own: ResolvedShipment,
    earlier: EarlierShipment,
    listed: set[str],
    order: OrderSummary,
) -> Unmatched | None:
    """Ask if one parcel comes again with other row keys.

    A spreadsheet drops leading zeros of a document number, and some programs renumber
    their rows.
    """
    before = earlier.shipment
    if not own.number or (own.number, own.carrier) != (before.number, before.carrier):
        return None
    gone = [part for part in before.parts if not part.keys & listed]
    is_same = _any_equal_part(own.parts, gone)
    return _question(RENUMBERED, earlier, order) if is_same else None


def _any_equal_part(
    own: Iterable[ShipmentPart], others: Sequence[ShipmentPart]
) -> bool:
    return any(
        part.units is not None and part.units == other.units
        for part in own
        for other in others
    )


def _question(
    question: str, earlier: EarlierShipment, order: OrderSummary
) -> Unmatched:
    said = question.format(order=order.name, earlier=_described(earlier))
    return _ask(said, order)


def _ask(question: str, order: OrderSummary) -> Unmatched:
    """Return the question that an operator answers about a shipment of the order."""
    return Unmatched(
        question,
        final=True,
        reason_class=ReasonClass.NEEDS_DECISION,
        subject=order.name,
        asks=True,
    )


def _described(earlier: EarlierShipment) -> str:
    """Describe an earlier shipment: `2 x LS-S in DHL JD1 (courier.csv:7)`."""
    record, reported = earlier.shipment.record, earlier.reported
    lines = ", ".join(f"{line.quantity} x {line.sku}" for line in record.lines[:5])
    names = [name for name in (record.tracking_company, record.tracking_number) if name]
    parcel = " ".join(names) or "a parcel without a number"
    where = f"{reported.instance} {reported.locator or reported.key}"
    return f"{lines or 'everything'} in {parcel} ({where})"
