"""Parses a row of a table into a record, or says what is wrong with it."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul_connectors.sql.values import latest, moment, shown, to_json
from backhaul_sdk import (
    Bad,
    Cancellation,
    Fulfillment,
    Line,
    StockAdjustment,
    StockLevel,
    fields,
    times,
)
from backhaul_sdk.fields import Unusable
from backhaul_sdk.quantities import (
    shipped_units,
    stock_change,
    stock_of,
    whole_number,
)
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS
from backhaul_sdk.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import tzinfo

    from backhaul_sdk import Record

Values: TypeAlias = "Mapping[str, Any]"
"""A row's values by their meaning; absent columns are absent here."""

LONGEST_KEY = 120
_NO_ARTICLE = (
    "the row has no article ({} is empty), so it is unknown what was shipped; name the "
    "articles, or read shipments of whole orders without a column of articles"
)


class ParsingRules(Struct, frozen=True):
    """The settings for values, the same for every table."""

    negative_is_zero: bool = True
    reason_map: Mapping[str, str] = {}
    same_sku: str = "refuse"
    absent: str = "keep"
    absent_limit: float = 0.1


DEFAULT_RULES = ParsingRules()


class RowOrigin(Struct, frozen=True):
    """Where a row came from: its place, its id, its change time, and the default zone.

    `read_at` (RFC 3339) is when the list with the row was read. Rows that are read once
    each, `in_order` of their ids, are entries of a journal.
    """

    place: str
    id: Any
    changed_at: Any
    zone: tzinfo
    read_at: str = ""
    rules: ParsingRules = ParsingRules()
    in_order: bool = False

    @property
    def locator(self) -> str:
        return f"{self.place} {shown(self.id)}"


def record_of(kind: str, values: Values, origin: RowOrigin) -> Record | Bad:
    """Return the record of a row."""
    raw = to_json(values)
    try:
        if origin.id is None:
            raise Unusable("the id is empty")
        return _BUILDERS[kind](values, origin, raw)
    except Unusable as error:
        # With the content: a corrected row that is still wrong is reported again.
        content = hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()[:16]
        key = key_of("bad", kind, origin.id, content)
        return Bad(key=key, raw=raw, reason=str(error), locator=origin.locator)


def key_of(kind: str, *content: object) -> str:
    """Return a key that a person can read, unless it is too long for that."""
    text = to_json(content)[1:-1]
    if len(text) > LONGEST_KEY:
        text = hashlib.sha256(text.encode()).hexdigest()
    return f"{kind}:{text}"


def _fulfillment(values: Values, origin: RowOrigin, raw: str) -> Fulfillment:
    lines = _lines(values)
    return Fulfillment(
        key=key_of("fulfillment", origin.id),
        order=_code(values, "order"),
        tracking_company=_carrier(values) or None,
        tracking_number=_text(values, "tracking_number") or None,
        lines=lines,
        everything=not lines,
        shipped_at=_shipped_at(values, origin),
        locator=origin.locator,
        raw=raw,
    )


def _carrier(values: Values) -> str:
    return fields.label(_letters(values.get("tracking_company"), "carrier"), "carrier")


def _shipped_at(values: Values, origin: RowOrigin) -> str | None:
    """Return when the parcel left; None for an ambiguous time too.

    The platform does not receive this time, so an ambiguous one delays no shipment.
    """
    value = values.get("shipped_at")
    if value is None:
        return None
    if (day := times.day_alone(value)) is not None:
        return rfc3339(times.day_start(day, origin.zone))
    latest(value, origin.zone, "shipped at")
    with suppress(Unusable):
        return rfc3339(moment(value, origin.zone, "shipped at"))
    return None


def _lines(values: Values) -> tuple[Line, ...]:
    """Return the lines; empty only if no column could name an article."""
    if values.get("lines") is not None:
        return tuple(map(_line, _listed(values["lines"])))
    if _text(values, "sku"):
        return (_line({"sku": values["sku"], "quantity": values.get("quantity", 1)}),)
    named = [name for name in ("lines", "sku") if name in values]
    if named:
        raise Unusable(_NO_ARTICLE.format(" and ".join(named)))
    return ()


def _listed(value: object) -> list[Any]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Unusable('lines must be a JSON list of {"sku": …, "quantity": …}')
    if not found:
        raise Unusable(_NO_ARTICLE.format("lines"))
    return found


def _line(values: Values) -> Line:
    quantity = shipped_units(values.get("quantity"), decimal="system")
    return Line(sku=_code(values, "sku"), quantity=quantity)


def _cancellation(values: Values, origin: RowOrigin, raw: str) -> Cancellation:
    return Cancellation(
        key=key_of("cancellation", origin.id),
        order=_code(values, "order"),
        restock=fields.yes_or_no(_letters(values["restock"], "restock"), "restock"),
        reason=_reason(values, origin, CANCEL_REASONS, "OTHER"),
        locator=origin.locator,
        raw=raw,
    )


def _stock_delta(values: Values, origin: RowOrigin, raw: str) -> StockAdjustment:
    delta = stock_change(values["adjustment"], "adjustment", "system")
    return StockAdjustment(
        key=key_of("stock-delta", origin.id),
        sku=_code(values, "sku"),
        delta=delta,
        reason=_reason(values, origin, STOCK_REASONS, "MANUAL_ADJUSTMENT"),
        locator=origin.locator,
        raw=raw,
    )


def _stock_level(values: Values, origin: RowOrigin, raw: str) -> StockLevel:
    number = whole_number(values["quantity"], "quantity", "system")
    negative_is_zero = origin.rules.negative_is_zero
    quantity, note = stock_of(number, negative_is_zero=negative_is_zero)
    as_of = _counted_at(values, origin)
    return StockLevel(
        # A changed row is a new record.
        key=key_of("stock-level", origin.id, as_of, quantity),
        sku=_code(values, "sku"),
        quantity=quantity,
        as_of=as_of,
        listed_at=origin.read_at,
        full_list=bool(origin.read_at) and origin.rules.absent == "zero",
        in_order=origin.in_order,
        note=note,
        locator=origin.locator,
        raw=raw,
    )


def _counted_at(values: Values, origin: RowOrigin) -> str:
    counted = values.get("as_of")
    counted = origin.changed_at if counted is None else counted
    if times.day_alone(counted) is not None:
        raise Unusable(
            f"as of is a day without a time of day: {shown(counted)!r}; the order of"
            " two counts on one day would be unknown. Name a column with a time"
        )
    return rfc3339(moment(counted, origin.zone, "as of"))


def _code(values: Values, name: str) -> str:
    text = _text(values, name)
    if not text:
        raise Unusable(fields.missing(values.get(name), name))
    return text


def _text(values: Values, name: str) -> str:
    spoken = name.replace("_", " ")
    value = _letters(values.get(name), spoken)
    if name == "sku":
        return fields.article(value, is_text=True)
    return fields.identifier(value, spoken, is_text=True)


def _reason(
    values: Values, origin: RowOrigin, known: frozenset[str], default: str
) -> str:
    value = _letters(values.get("reason"), "reason")
    return fields.reason(value, known, default, origin.rules.reason_map)


def _letters(value: object, name: str) -> object:
    """Return the value. Raises Unusable for bytes of an unknown encoding."""
    if isinstance(value, bytes):
        raise Unusable(
            f"the {name} holds bytes that are not UTF-8 text: {shown(value)}"
        )
    return value


_BUILDERS: dict[str, Callable[[Values, RowOrigin, str], Record]] = {
    "fulfillments": _fulfillment,
    "cancellations": _cancellation,
    "stock_deltas": _stock_delta,
    "stock_levels": _stock_level,
}
