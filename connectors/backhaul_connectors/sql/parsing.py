"""From a row of a table to a record, or to what is wrong with the row."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul_connectors.sql.values import (
    moment,
    shown,
    text_of,
    to_json,
    whole,
)
from backhaul_sdk import (
    Bad,
    Cancellation,
    Fulfillment,
    Line,
    StockAdjustment,
    StockLevel,
)
from backhaul_sdk.reading import Unusable, reason_of, rfc3339
from backhaul_sdk.records import CANCEL_REASONS, MAX_DELTA, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import tzinfo

    from backhaul_sdk import Record

Values: TypeAlias = "Mapping[str, Any]"
"""What a row holds, by what it means; columns that are absent are absent here."""

MAX_QUANTITY = 1_000_000_000
LONGEST_KEY = 120
YES = frozenset({"yes", "y", "true", "t", "1"})
NO = frozenset({"no", "n", "false", "f", "0"})
_NO_ARTICLE = (
    "the row has no article ({} is empty), so nobody knows what was shipped; name the "
    "articles, or read shipments of whole orders without a column of articles"
)


class Origin(Struct, frozen=True):
    """Which row it was: its place, its id, when it changed, and the zone of times."""

    place: str
    id: Any
    changed_at: Any
    zone: tzinfo

    @property
    def locator(self) -> str:
        return f"{self.place} {shown(self.id)}"


def record_of(kind: str, values: Values, origin: Origin) -> Record | Bad:
    """Return what the row says."""
    raw = to_json(values)
    try:
        if origin.id is None:
            raise Unusable("the id is empty")
        return _BUILDERS[kind](values, origin, raw)
    except Unusable as error:
        # With the content: a row that is wrong again after a correction is told again.
        content = hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()[:16]
        key = key_of("bad", kind, origin.id, content)
        return Bad(key=key, raw=raw, reason=str(error), locator=origin.locator)


def key_of(kind: str, *content: object) -> str:
    """Return a key that a person can read, unless it is too long for that."""
    text = to_json(content)[1:-1]
    if len(text) > LONGEST_KEY:
        text = hashlib.sha256(text.encode()).hexdigest()
    return f"{kind}:{text}"


def _fulfillment(values: Values, origin: Origin, raw: str) -> Fulfillment:
    lines = _lines(values)
    return Fulfillment(
        key=key_of("fulfillment", origin.id),
        order=_code(values, "order"),
        tracking_company=text_of(values.get("tracking_company"), "carrier") or None,
        tracking_number=text_of(values.get("tracking_number"), "tracking number")
        or None,
        lines=lines,
        everything=not lines,
        shipped_at=_shipped_at(values, origin),
        locator=origin.locator,
        raw=raw,
    )


def _shipped_at(values: Values, origin: Origin) -> str | None:
    value = values.get("shipped_at")
    return None if value is None else rfc3339(moment(value, origin.zone, "shipped at"))


def _lines(values: Values) -> tuple[Line, ...]:
    """Return what left; empty only where no column could name an article."""
    if values.get("lines") is not None:
        return tuple(map(_line, _listed(values["lines"])))
    if text_of(values.get("sku"), "sku"):
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
    quantity = whole(values.get("quantity"), "quantity")
    if not 1 <= quantity <= MAX_QUANTITY:
        raise Unusable(f"quantity must be at least 1, not {quantity}")
    return Line(sku=_code(values, "sku"), quantity=quantity)


def _cancellation(values: Values, origin: Origin, raw: str) -> Cancellation:
    return Cancellation(
        key=key_of("cancellation", origin.id),
        order=_code(values, "order"),
        restock=_yes_or_no(values["restock"]),
        reason=_reason(values, CANCEL_REASONS, "OTHER"),
        locator=origin.locator,
        raw=raw,
    )


def _stock_delta(values: Values, origin: Origin, raw: str) -> StockAdjustment:
    delta = whole(values["adjustment"], "adjustment")
    if delta == 0:
        raise Unusable("adjustment is 0, so nothing would change")
    if abs(delta) > MAX_DELTA:
        raise Unusable(f"adjustment must be between -1000000 and 1000000, not {delta}")
    return StockAdjustment(
        key=key_of("stock-delta", origin.id),
        sku=_code(values, "sku"),
        delta=delta,
        reason=_reason(values, STOCK_REASONS, "MANUAL_ADJUSTMENT"),
        locator=origin.locator,
        raw=raw,
    )


def _stock_level(values: Values, origin: Origin, raw: str) -> StockLevel:
    quantity = whole(values["quantity"], "quantity")
    if not 0 <= quantity <= MAX_QUANTITY:
        raise Unusable(f"quantity must be 0 or more, not {quantity}")
    counted = values.get("as_of")
    as_of = rfc3339(
        moment(origin.changed_at if counted is None else counted, origin.zone, "as of")
    )
    return StockLevel(
        # The same row says something new whenever it changes.
        key=key_of("stock-level", origin.id, as_of, quantity),
        sku=_code(values, "sku"),
        quantity=quantity,
        as_of=as_of,
        locator=origin.locator,
        raw=raw,
    )


def _code(values: Values, name: str) -> str:
    text = text_of(values.get(name), name)
    if not text:
        raise Unusable(f"the {name} is empty")
    return text


def _yes_or_no(value: object) -> bool:
    word = text_of(value, "restock").casefold()
    if word not in YES | NO:
        raise Unusable(f"restock must be yes or no, not {shown(value)!r}")
    return word in YES


def _reason(values: Values, known: frozenset[str], default: str) -> str:
    return reason_of(text_of(values.get("reason"), "reason"), known, default)


_BUILDERS: dict[str, Callable[[Values, Origin, str], Record]] = {
    "fulfillments": _fulfillment,
    "cancellations": _cancellation,
    "stock_deltas": _stock_delta,
    "stock_levels": _stock_level,
}
