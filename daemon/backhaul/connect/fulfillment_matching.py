"""Matches the lines of a shipment to the open lines of its order."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from backhaul.connect.earlier_shipments import (
    earlier_of,
    new_units,
    normalized_number,
    operator_question,
    shipment_of,
)
from backhaul.core import sku_matching
from backhaul.core.sku_matching import difference, near_text, same_text
from backhaul.store.records import Known, ReasonClass, Unmatched

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backhaul.connect.earlier_shipments import EarlierShipment, Units
    from backhaul.store.matching import MatchReader, WaitingRecord
    from backhaul.store.mirror import (
        OpenLine,
        OrderParcel,
        OrderSummary,
        ReportedShipment,
    )
    from backhaul_sdk import Fulfillment, Line

    Article: TypeAlias = tuple[str, tuple[str, ...]]

UNCERTAIN = (
    "has open units, but a shipment with unknown outcome may contain them; this row"
    " waits for that outcome"
)
MAX_NAMED = 5
"""Most articles that a reason names."""
NO_LINES = (
    "the record has no lines and does not say that everything was shipped; set"
    " lines, or set everything to true"
)
BOTH = (
    "the record has lines and also says that everything was shipped; keep only one of"
    " the two"
)


ALL_SHIPPED = (
    "order {order} is already shipped in {parcels}, so the customer was not"
    " notified of {number}. If the customer needs that number, run `backhaul"
    " quarantine correct` to send it to the store. Otherwise discard this row"
)
NOTHING_OPEN = "; the order has no open units for a further parcel: {reason}"


def match_fulfillment(
    waiting: WaitingRecord,
    record: Fulfillment,
    order: OrderSummary,
    mirror: MatchReader,
    *,
    is_decided: bool,
) -> dict[str, Any] | Unmatched | Known:
    """Return the payload of the fulfill command, or why there is none.

    `is_decided` is True if the record was put to an operator, who retried it.
    """
    if order.cancelled:
        return _undecided(f"order {order.name} is cancelled", order)
    if problem := _problem(record):
        return Unmatched(problem, final=True, reason_class=ReasonClass.VALUE)
    wanted = wanted_lines(waiting.store, record.lines, order, mirror)
    if isinstance(wanted, Unmatched):
        return wanted
    case = _OrderMatch(waiting, record, order, mirror)
    left = case.nothing_left() or case.new_units(wanted, is_decided=is_decided)
    if isinstance(left, Unmatched | Known):
        return left
    lines = _allocate_all(order, left)
    doubtful = None if is_decided else case.in_question()
    if isinstance(doubtful, Unmatched) and isinstance(lines, Unmatched):
        reason = f"{doubtful.reason}{_nothing_open(lines)}"
        return replace(lines, reason=reason)
    if doubtful is not None:
        return doubtful
    if isinstance(lines, Unmatched):
        return case.explained(lines)
    company = record.tracking_company
    return {
        "tracking_company": company and mirror.carrier_named(waiting.store, company),
        "tracking_number": record.tracking_number,
        "lines": lines,
    }


def _undecided(reason: str, order: OrderSummary, *, final: bool = True) -> Unmatched:
    """Return why an operator decides about a shipment of the order."""
    decision = ReasonClass.NEEDS_DECISION
    return Unmatched(reason, final=final, reason_class=decision, subject=order.name)


def _nothing_open(lines: Unmatched) -> str:
    return NOTHING_OPEN.format(reason=lines.reason)


class _OrderMatch:
    """A shipment together with everything known about its order."""

    def __init__(
        self,
        waiting: WaitingRecord,
        record: Fulfillment,
        order: OrderSummary,
        mirror: MatchReader,
    ) -> None:
        self._waiting = waiting
        self._record = record
        self._order = order
        self._mirror = mirror
        self._own = shipment_of(record, self._resolve)

    def _resolve(self, lines: Iterable[Line]) -> Units | None:
        """Return units by order lines; None if no line names its article."""
        found = wanted_lines(self._waiting.store, lines, self._order, self._mirror)
        return None if isinstance(found, Unmatched) or not found else _units(found)

    @cached_property
    def _earlier(self) -> list[EarlierShipment]:
        store, order = self._waiting.store, self._order.id
        reported = self._mirror.reported_shipments(store, order, self._waiting.id)
        return [earlier_of(each, self._resolve) for each in reported]

    @cached_property
    def _parcels(self) -> list[OrderParcel]:
        return self._mirror.parcels_of(self._waiting.store, self._order.id)

    def nothing_left(self) -> Unmatched | Known | None:
        """Return the result for an order with nothing open; None if units are open."""
        if not self._record.everything or not self._is_all_shipped:
            return None
        number, order = self._own.number, self._order
        commands = {each.shipment.number: each.reported for each in self._earlier}
        if not number or number in self._shown or number in commands:
            return self._known_whole(commands.get(number))
        if order.uncertain:
            return _undecided(f"order {order.name} {UNCERTAIN}", order, final=False)
        return _undecided(self._all_shipped(), order)

    @property
    def _is_all_shipped(self) -> bool:
        items = self._order.items
        return bool(items) and all(line.left <= 0 for line in items)

    @property
    def _shown(self) -> set[str]:
        return {normalized_number(parcel.number) for parcel in self._parcels}

    def explained(self, refused: Unmatched) -> Unmatched:
        """Return why the lines are refused; if all was shipped, also what to do."""
        number = self._own.number
        if not refused.final or not number or not self._is_all_shipped:
            return refused
        if number in self._shown | {each.shipment.number for each in self._earlier}:
            return refused
        return _undecided(f"{refused.reason}; {self._all_shipped()}", self._order)

    def _known_whole(self, first: ReportedShipment | None) -> Known:
        said = f"all of order {self._order.name} is already shipped"
        if first is None:
            return Known(None, said)
        return Known(first.command_id, f"{said}, known from {first.instance}")

    def _all_shipped(self) -> str:
        names = [parcel_name(each.company, each.number) for each in self._parcels]
        for each in self._earlier:
            record = each.shipment.record
            names.append(parcel_name(record.tracking_company, record.tracking_number))
        known = ", ".join(dict.fromkeys(filter(None, names)))
        record = self._record
        return ALL_SHIPPED.format(
            order=self._order.name,
            parcels=known or "parcels without a number",
            number=parcel_name(record.tracking_company, record.tracking_number),
        )

    def new_units(
        self, wanted: Mapping[Article, int], *, is_decided: bool
    ) -> Mapping[Article, int] | Unmatched | Known:
        """Return the units that no other source reported in the same parcel."""
        if is_decided:
            return wanted
        by_places = {article: units for article, units in wanted.items() if article[1]}
        found = new_units(
            self._own,
            _units(by_places),
            self._waiting,
            self._earlier,
            self._parcels,
            self._order,
        )
        if isinstance(found, Unmatched | Known):
            return found if len(by_places) == len(wanted) else wanted
        return {
            article: found.get(article[1], 0) if article[1] else units
            for article, units in wanted.items()
        }

    def in_question(self) -> Unmatched | Known | None:
        """Return the question that an operator answers before the shipment is sent."""
        if self._record.question:
            return replace(_undecided(self._record.question, self._order), asks=True)
        return operator_question(self._own, self._waiting, self._earlier, self._order)


def _units(wanted: Mapping[Article, int]) -> dict[tuple[str, ...], int]:
    units: dict[tuple[str, ...], int] = {}
    for (_, places), count in wanted.items():
        units[places] = units.get(places, 0) + count
    return units


def parcel_name(company: str | None, number: str | None) -> str:
    """Return the parcel's name for messages: `JD1 (DHL)`."""
    if not number:
        return ""
    return f"{number} ({company})" if company else number


def _allocate_all(
    order: OrderSummary, wanted: Mapping[Article, int]
) -> list[dict[str, Any]] | Unmatched:
    lines: list[dict[str, Any]] = []
    for (name, places), quantity in wanted.items():
        found = _allocate(order, name, places, quantity)
        if isinstance(found, Unmatched):
            return found
        lines += found
    return lines


def _problem(record: Fulfillment) -> str:
    """Return what is wrong with the shipment itself; an empty text if nothing is.

    A shipment cannot be undone, so an empty list never means everything.
    """
    if any(line.quantity < 1 for line in record.lines):
        return "a line's quantity is below 1"
    if record.lines and record.everything:
        return BOTH
    return "" if record.lines or record.everything else NO_LINES


def wanted_lines(
    store: str, lines: Iterable[Line], order: OrderSummary, mirror: MatchReader
) -> dict[Article, int] | Unmatched:
    """Return the units of each article: (its SKU in the order, ids of its lines)."""
    skus = {line.id: line.sku for line in order.items}
    units: dict[Article, int] = {}
    own = set(skus.values())
    for line in lines:
        # The SKU of a line of the order goes before a mapping.
        named = mirror.variants_named(store, line.sku, mapped=line.sku not in own)
        found = lines_of(order, line.sku, named)
        if isinstance(found, Unmatched):
            return found
        name = (skus[found[0]] if found else None) or line.sku
        units[name, found] = units.get((name, found), 0) + line.quantity
    return units


def lines_of(
    order: OrderSummary, name: str, called: Sequence[tuple[str, str | None]]
) -> tuple[str, ...] | Unmatched:
    """Return the ids of the order lines of an article, by SKU, variant or GTIN.

    A line keeps the SKU that its variant had when the order was placed; `called` are
    the variants, and their SKUs, that have the name today.
    """
    variants = {variant for variant, _ in called}
    skus = {name, *(sku for _, sku in called if sku is not None)}
    found = [x for x in order.items if x.sku in skus or x.variant_id in variants]
    if not found and not called:
        # Otherwise the similar SKU in the order is another article of the store.
        found = [x for x in order.items if x.sku and _is_same(x.sku, name)]
    if _are_several(found):
        names = ", ".join(dict.fromkeys(str(line.sku) for line in found))
        reason = f"{name!r} could be any of {names} in order {order.name}"
        decision = ReasonClass.NEEDS_DECISION
        return Unmatched(reason, final=True, reason_class=decision, subject=name)
    return tuple(line.id for line in found)


def _is_same(sku: str, name: str) -> bool:
    """Return True if two SKUs look the same or are two spellings of one GTIN."""
    one, other = same_text(sku), same_text(name)
    number = sku_matching.normalized(one)
    return one == other or (
        number is not None and number == sku_matching.normalized(other)
    )


def _are_several(lines: Sequence[OpenLine]) -> bool:
    """Return True if the lines have neither one SKU nor one variant in common."""
    variants = {line.variant_id for line in lines}
    one_variant = len(variants) == 1 and None not in variants
    return len({line.sku for line in lines}) > 1 and not one_variant


def _allocate(
    order: OrderSummary, name: str, places: Sequence[str], quantity: int
) -> list[dict[str, Any]] | Unmatched:
    """Allocate a picked quantity to the open lines of the article."""
    taken: list[dict[str, Any]] = []
    missing = quantity
    for line in order.items:
        if line.id in places and line.left > 0 and missing > 0:
            taken.append({"line_id": line.id, "quantity": min(line.left, missing)})
            missing -= min(line.left, missing)
    if missing:
        problem = ReasonClass.VALUE if places else ReasonClass.UNKNOWN_SKU
        return _more_than_open(order, name, quantity, quantity - missing, problem)
    return taken


def _more_than_open(
    order: OrderSummary,
    name: str,
    quantity: int,
    left: int,
    reason_class: ReasonClass,
) -> Unmatched:
    """Refuse a quantity above the open units; wait if a command is uncertain."""
    beside = (
        " besides units in commands that are in progress" if order.in_progress else ""
    )
    has = f"{left} open of SKU {name!r}{beside}, not {quantity}"
    those = "those commands"
    if reason_class is ReasonClass.UNKNOWN_SKU:
        has, those = f"no line with SKU {name!r}", "its commands in progress"
    doubt = f"; the outcome of {those} is not known yet" if order.uncertain else ""
    hint = "" if left else _open_articles(order, name)
    return Unmatched(
        f"order {order.name} has {has}{doubt}{hint}",
        final=not order.uncertain,
        reason_class=reason_class,
        subject=name,
    )


def _open_articles(order: OrderSummary, name: str) -> str:
    """Name the open articles: the article may have been renamed."""
    units = order.open_units
    named = [f"{count} of {sku!r}" for sku, count in units.items()]
    more = ["…"] if len(named) > MAX_NAMED else []
    near = [sku for sku in units if near_text(sku) == near_text(name)]
    differs = "".join(f" ({sku!r} differs in {difference(name, sku)})" for sku in near)
    listed = ", ".join(named[:MAX_NAMED] + more)
    return f"; open are: {listed}{differs}" if named else ""
