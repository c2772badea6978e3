"""Parses a row of a table into a record, or says what is wrong with it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul_connectors.sql.values import shown, to_json
from backhaul_sdk import (
    Bad,
    Cancellation,
    Fulfillment,
    Line,
    ReadValue,
    StockAdjustment,
    StockLevel,
    fields,
)
from backhaul_sdk.fields import Unusable
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import tzinfo

    from backhaul_sdk import Record, RecordKind

Values: TypeAlias = "Mapping[str, Any]"
"""A row's values by their meaning; absent columns are absent here."""

LONGEST_KEY = 120
_NO_ARTICLE = (
    "the row has no SKU ({} is empty), so Backhaul does not know what was shipped;"
    " write the SKU, or, for shipments of whole orders, set no column for the SKU"
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
    each, `in_order` of their ids, are entries of a journal and have no change time.
    `columns` are the names of the columns by their meaning.
    """

    place: str
    id: Any
    changed_at: Any
    zone: tzinfo
    read_at: str = ""
    rules: ParsingRules = ParsingRules()
    in_order: bool = False
    columns: Mapping[str, str] = {}

    @property
    def locator(self) -> str:
        return f"{self.place} {shown(self.id)}"


def record_of(kind: str, values: Values, origin: RowOrigin) -> Record | Bad:
    """Return the record of a row."""
    raw = to_json(values)
    try:
        if origin.id is None or _is_empty(origin.id):
            raise Unusable(fields.missing(origin.id, "id"))
        return _BUILDERS[kind](values, origin, raw)
    except Unusable as error:
        # With the content: a corrected row that is still wrong is reported again.
        content = hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()[:16]
        key = key_of("bad", kind, origin.id, content)
        return Bad(
            key=key,
            raw=raw,
            reason=str(error),
            locator=origin.locator,
            kind=_RECORD_KINDS[kind],
            read=_read(values, origin.columns),
        )


_RECORD_KINDS: Mapping[str, RecordKind] = {
    "fulfillments": "fulfill",
    "cancellations": "cancel",
    "stock_deltas": "adjust",
    "stock_levels": "level",
}
_FIELDS: Mapping[str, str] = {"adjustment": "delta"}
"""The fields of records that have another name than their column."""


def _read(values: Values, columns: Mapping[str, str]) -> Mapping[str, ReadValue]:
    """Return the values of a row that cannot be used, by the field of its record."""
    return {
        _FIELDS.get(meaning, meaning): ReadValue(
            "" if value is None else _text(value), columns.get(meaning, meaning)
        )
        for meaning, value in values.items()
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else to_json(value).strip('"')


def _is_empty(id_: object) -> bool:
    """Return True for a text that rows without an id have in common, such as NULL."""
    return isinstance(id_, str) and fields.is_placeholder(fields.plain(id_))


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
        order=_order(values),
        tracking_company=fields.label(
            values.get("tracking_company"), "tracking company"
        )
        or None,
        tracking_number=fields.identifier(
            values.get("tracking_number"), "tracking number", is_text=True
        )
        or None,
        lines=lines,
        everything=not lines,
        shipped_at=fields.moment_if_exact(
            values.get("shipped_at"), "shipped at", origin.zone, day_begins=True
        ),
        locator=origin.locator,
        raw=raw,
    )


def _lines(values: Values) -> tuple[Line, ...]:
    """Return the lines; empty only if no column could name an article."""
    if values.get("lines") is not None:
        return tuple(map(_line, _listed(values["lines"])))
    if fields.article(values.get("sku"), is_text=True):
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
    quantity = fields.shipped_units(values.get("quantity"), decimal="system")
    return Line(sku=_sku(values), quantity=quantity)


def _cancellation(values: Values, origin: RowOrigin, raw: str) -> Cancellation:
    return Cancellation(
        key=key_of("cancellation", origin.id),
        order=_order(values),
        restock=fields.yes_or_no(values["restock"], "restock"),
        reason=_reason(values, origin, CANCEL_REASONS, "OTHER"),
        locator=origin.locator,
        raw=raw,
    )


def _stock_delta(values: Values, origin: RowOrigin, raw: str) -> StockAdjustment:
    delta = fields.stock_change(values["adjustment"], "adjustment", "system")
    return StockAdjustment(
        key=key_of("stock-delta", origin.id),
        sku=_sku(values),
        delta=delta,
        reason=_reason(values, origin, STOCK_REASONS, "MANUAL_ADJUSTMENT"),
        locator=origin.locator,
        raw=raw,
    )


def _stock_level(values: Values, origin: RowOrigin, raw: str) -> StockLevel:
    number = fields.whole_number(values["quantity"], "quantity", "system")
    negative_is_zero = origin.rules.negative_is_zero
    quantity, note = fields.stock_of(number, negative_is_zero=negative_is_zero)
    as_of = _counted_at(values, origin)
    return StockLevel(
        # A changed row is a new record.
        key=key_of("stock-level", origin.id, as_of, quantity),
        sku=_sku(values),
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
    counted = fields.moment(values.get("as_of"), "as of", origin.zone)
    if counted is None and not origin.in_order:
        counted = fields.moment(origin.changed_at, "as of", origin.zone)
    if counted is None:
        raise Unusable("'as of' is empty; enter the time of the count")
    return counted


def _order(values: Values) -> str:
    return fields.identifier(values.get("order"), "order", is_text=True, required=True)


def _sku(values: Values) -> str:
    return fields.article(values.get("sku"), is_text=True, required=True)


def _reason(
    values: Values, origin: RowOrigin, known: frozenset[str], default: str
) -> str:
    return fields.reason(values.get("reason"), known, default, origin.rules.reason_map)


_BUILDERS: dict[str, Callable[[Values, RowOrigin, str], Record]] = {
    "fulfillments": _fulfillment,
    "cancellations": _cancellation,
    "stock_deltas": _stock_delta,
    "stock_levels": _stock_level,
}
