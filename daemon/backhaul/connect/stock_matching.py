"""Matches stock counts and adjustments to variants, by SKU or GTIN."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.core import sku_matching
from backhaul.core.clock import from_text, normalize, to_text
from backhaul.core.identity import command_id
from backhaul.core.lifecycle import Kind
from backhaul.core.sku_matching import near_hint
from backhaul.store.matching import NewCommand, NewTarget
from backhaul.store.records import ReasonClass, Unmatched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.stock import ListedLevel
    from backhaul.store.matching import MatchReader, WaitingRecord
    from backhaul_sdk import StockAdjustment, StockLevel

EARLIEST_COUNT = "2000-01-01"
"""No count is older: the years 1, 1601, 1899 and 1970 stand for a missing time."""
MAX_AHEAD = timedelta(days=1)
"""A clock or a time zone may be wrong by this much."""
AHEAD = (
    "the time of the count, {}, is more than a day in the future. Until that time,"
    " every other count of this SKU would be older than this count, and Backhaul would"
    " ignore it. Correct the time (of the row, or of its file) and send the count again"
)


def new_adjustment(
    waiting: WaitingRecord, record: StockAdjustment, mirror: MatchReader
) -> NewCommand | Unmatched:
    """Return the command of a stock adjustment."""
    found = find_variant(waiting, record.sku, mirror)
    if isinstance(found, Unmatched):
        return found
    product, variant = found
    payload = {"variant_id": variant, "delta": record.delta, "reason": record.reason}
    kind = Kind.ADJUST.value
    identity = command_id(waiting.store, waiting.instance, waiting.key, kind)
    return NewCommand(identity, kind, product, f"product:{product}", payload)


def new_target(
    waiting: WaitingRecord, record: StockLevel, mirror: MatchReader
) -> NewTarget | Unmatched:
    """Return the stock target of a count."""
    if record.quantity < 0:
        return _wrong(f"the quantity {record.quantity} is below 0")
    as_of = _counted_at(record, waiting)
    if isinstance(as_of, Unmatched):
        return as_of
    found = find_variant(waiting, record.sku, mirror)
    if isinstance(found, Unmatched):
        return found
    product, variant = found
    listed_at = listed_at_of(record)
    others = mirror.levels_listed(waiting, variant, as_of, listed_at)
    if contradicting := [each for each in others if _contradicts(record, each)]:
        return _contradiction(waiting, record, contradicting)
    identity = command_id(waiting.store, waiting.instance, waiting.key, Kind.TARGET)
    return NewTarget(identity, product, variant, record.quantity, as_of, listed_at)


def _wrong(reason: str) -> Unmatched:
    return Unmatched(reason, final=True, reason_class=ReasonClass.VALUE)


def _counted_at(record: StockLevel, waiting: WaitingRecord) -> str | Unmatched:
    try:
        as_of = normalize(record.as_of)
    except ValueError:
        return _wrong(f"as_of {record.as_of!r:.60} is not a time")
    if as_of < EARLIEST_COUNT:
        said = (
            "a value that programs write for a missing time; send the time of the count"
        )
        return _wrong(f"as_of {record.as_of!r:.60} is {said}")
    latest = to_text(from_text(waiting.received_at) + MAX_AHEAD)
    if max(as_of, listed_at_of(record)) > latest:
        return _wrong(AHEAD.format(max(as_of, listed_at_of(record))))
    return as_of


def listed_at_of(record: StockLevel) -> str:
    """Return when the record's list was written; an empty text if unknown."""
    try:
        return normalize(record.listed_at) if record.listed_at else ""
    except ValueError:
        return ""


def _contradicts(record: StockLevel, other: ListedLevel) -> bool:
    """Return True if another level of the same list contradicts the record.

    A row that is sent again replaces the same row, and a later entry of a journal
    replaces an earlier one. Without a list, an equal quantity is no contradiction.
    """
    if record.in_order:
        return False
    if record.locator and other.locator == record.locator:
        return False
    return bool(record.listed_at) or other.quantity != record.quantity


def _contradiction(
    waiting: WaitingRecord, record: StockLevel, others: Sequence[ListedLevel]
) -> Unmatched:
    here = record.locator or waiting.key
    told = [f"{each.quantity} ({each.locator or 'another row'})" for each in others]
    kept = [each for each in others if not each.can_withdraw and not each.withdrawn]
    ending = (
        f"the stock target of {kept[0].quantity} was already sent"
        if kept
        else "none of them is used"
    )
    reason = (
        f"SKU {record.sku!r} is counted several times in one list: {record.quantity}"
        f" ({here}) and {', '.join(told)}; {ending}. If this row is right, retry it."
        " Otherwise edit its quantity"
    )
    withdraw = tuple(each.command_id for each in others if each.can_withdraw)
    return Unmatched(
        reason,
        final=True,
        reason_class=ReasonClass.DUPLICATE,
        subject=record.sku,
        withdraw=withdraw,
    )


def find_variant(
    waiting: WaitingRecord, sku: str, mirror: MatchReader
) -> tuple[str, str] | Unmatched:
    """Return the product id and the variant id of an article."""
    variants = mirror.variants_with_sku(waiting.store, sku)
    if not variants:
        hint = near_hint(sku, mirror.similar_skus(waiting.store, sku))
        reason = f"SKU {sku!r} is not known{_wrong_digit(sku)}{hint}"
        unknown = ReasonClass.UNKNOWN_SKU
        return Unmatched(reason, final=False, reason_class=unknown, subject=sku)
    if len(variants) > 1:
        names = ", ".join(variant for _, variant in variants)
        reason = f"SKU {sku!r} could be any of the variants {names}"
        decision = ReasonClass.NEEDS_DECISION
        return Unmatched(reason, final=True, reason_class=decision, subject=sku)
    return variants[0]


def _wrong_digit(sku: str) -> str:
    if sku_matching.has_gtin_length(sku) and sku_matching.normalized(sku) is None:
        return "; if it is a GTIN, its check digit is wrong"
    return ""
