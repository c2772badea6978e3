"""Parses an item of a JSON list into a record, or says what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jmespath
from jmespath.exceptions import JMESPathError

from backhaul_sdk import (
    Bad,
    Cancellation,
    Fulfillment,
    Line,
    StockAdjustment,
    StockLevel,
    Tracking,
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
from backhaul_sdk.records import (
    CANCEL_REASONS,
    STOCK_REASONS,
    TRACKING_STATUSES,
)
from backhaul_sdk.times import parse_time, rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_connectors.http_json.settings import List
    from backhaul_sdk import Record

MAX_TEXT = 500
MAX_RAW = 20_000
MOST_SHOWN = 80
_NAMING = ("order", "sku", "tracking_number")
"""Fields that identify an item without a key."""
_NAMES = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def find(expression: str, document: Any) -> Any:
    """Return the value at a path of a document; None if absent. Raises Unusable."""
    names = _names(expression)
    try:
        return _follow(names, document) if names else _compiled(expression)(document)
    except (JMESPathError, ArithmeticError, ValueError, TypeError) as error:
        raise Unusable(
            f"the expression {expression} cannot be applied: {error}"
        ) from None


def _follow(names: Sequence[str], document: Any) -> Any:
    for name in names:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


@lru_cache(maxsize=256)
def _names(expression: str) -> tuple[str, ...]:
    """Return the names of a plain path, which needs no JMESPath interpreter."""
    return tuple(expression.split(".")) if _NAMES.fullmatch(expression) else ()


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    return jmespath.compile(expression).search


def text_of(item: Any) -> str:
    """Return the item as text, the same for equal items only."""
    return json.dumps(item, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _shown(text: str) -> str:
    """Return a text shortened to one line."""
    return " ".join(text.split())[:MOST_SHOWN]


def digest_of(text: str) -> str:
    """Return a short digest of an item's text."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:24]


class ItemParser:
    """Parses the items of one list; `now` is when the list was requested.

    `number` is the last stock level, before a level below 0 became 0.
    """

    def __init__(self, name: str, settings: List, now: str) -> None:
        self._name = name
        self._settings = settings
        self._now = now
        self._raw = ""
        self.number = 0
        self._build = BUILDERS[settings.kind]

    def read(self, item: Any, text: str) -> Record | Bad:
        """Return the record of an item; `text` is the item as it is stored."""
        self._raw = text[:MAX_RAW]
        try:
            key = _text(find(self._settings.key, item), "key")
            if key is None:
                raise Unusable("the item has no key")
            return self._build(self, item, key)
        except Unusable as error:
            return Bad(
                key=f"{self._name}:bad:{digest_of(text)}",
                raw=self._raw,
                reason=str(error),
                locator=f"{self._name} {self._called(item)}".rstrip(),
            )

    def _called(self, item: Any) -> str:
        """Return what identifies the item for operators; empty if nothing does."""
        for expression in (
            self._settings.key,
            *map(self._settings.fields.get, _NAMING),
        ):
            with suppress(Unusable):
                found = find(expression, item) if expression else None
                if isinstance(found, str | int | float) and str(found).strip():
                    return _shown(str(found))
        return ""

    def _origin(self, key: str, statement: str = "") -> dict[str, Any]:
        return {
            "key": f"{self._name}:{key}{statement}",
            "locator": f"{self._name} {key}",
            "raw": self._raw,
        }

    def _field(self, item: Any, name: str) -> Any:
        expression = self._settings.fields.get(name)
        return None if expression is None else find(expression, item)

    def text(self, item: Any, name: str) -> str | None:
        return _code(self._field(item, name), name.replace("_", " "))

    def carrier(self, item: Any) -> str | None:
        return fields.label(self._field(item, "tracking_company"), "carrier") or None

    def article(self, item: Any) -> str:
        """Return the article of an item, even of an unusable one."""
        with suppress(Unusable):
            return self.text(item, "sku") or ""
        return ""

    def required(self, item: Any, name: str) -> str:
        text = self.text(item, name)
        if text is None:
            value = self._field(item, name)
            why = "" if value is None else f": {fields.missing(value, name)}"
            raise Unusable(f"the item has no {name}{why}")
        return text

    def moment(self, item: Any, name: str) -> str | None:
        value = self._field(item, name)
        return None if value in (None, "") else moment(value, name)

    def fulfillment(self, item: Any, key: str) -> Fulfillment:
        origin = self._origin(key)
        return Fulfillment(
            key=origin["key"],
            order=self.required(item, "order"),
            tracking_company=self.carrier(item),
            tracking_number=self.text(item, "tracking_number"),
            lines=self._lines(item),
            everything=self._settings.lines is None,
            shipped_at=self.moment(item, "shipped_at"),
            locator=origin["locator"],
            raw=origin["raw"],
        )

    def _lines(self, item: Any) -> tuple[Line, ...]:
        """Return the lines of a shipment; missing lines never mean everything."""
        if self._settings.lines is None:
            return ()
        found = find(self._settings.lines, item)
        if not isinstance(found, list) or not found:
            raise Unusable("the item has no lines, so it is unknown what was shipped")
        return tuple(map(self._line, found))

    def _line(self, line: Any) -> Line:
        sku = _code(find(self._settings.line_sku, line), "sku")
        if sku is None:
            raise Unusable("a line has no article, so it is unknown what was shipped")
        units = find(self._settings.line_quantity, line)
        return Line(sku=sku, quantity=shipped_units(units, decimal="system"))

    def cancellation(self, item: Any, key: str) -> Cancellation:
        restock = self._field(item, "restock")
        return Cancellation(
            order=self.required(item, "order"),
            restock=restock is not None and fields.yes_or_no(restock, "restock"),
            reason=self._reason(item, CANCEL_REASONS, "OTHER"),
            **self._origin(key),
        )

    def adjustment(self, item: Any, key: str) -> StockAdjustment:
        delta = stock_change(self._field(item, "delta"), "delta", "system")
        return StockAdjustment(
            sku=self.required(item, "sku"),
            delta=delta,
            reason=self._reason(item, STOCK_REASONS, "MANUAL_ADJUSTMENT"),
            **self._origin(key),
        )

    def level(self, item: Any, key: str) -> StockLevel:
        number = whole_number(self._field(item, "quantity"), "quantity", "system")
        negative_is_zero = self._settings.negative_is_zero
        quantity, note = stock_of(number, negative_is_zero=negative_is_zero)
        as_of = self.moment(item, "as_of") or self._now
        self.number = number
        # The same level at another time is another record.
        return StockLevel(
            sku=self.required(item, "sku"),
            quantity=quantity,
            as_of=as_of,
            listed_at=self._now,
            note=note,
            full_list=False,
            **self._origin(key, f":{as_of}:{quantity}"),
        )

    def tracking(self, item: Any, key: str) -> Tracking:
        word = _text(self._field(item, "status"), "status")
        if word is None:
            raise Unusable("the item has no status")
        status = self._settings.statuses.get(word, word)
        if status not in TRACKING_STATUSES:
            raise Unusable(f"the status {word!r} is unknown: add it to statuses")
        return Tracking(
            tracking_number=self.required(item, "tracking_number"),
            status=status,
            at=self.moment(item, "at"),
            tracking_company=self.carrier(item),
            order=self.text(item, "order"),
            **self._origin(key),
        )

    def _reason(self, item: Any, known: frozenset[str], default: str) -> str:
        value = self._field(item, "reason")
        return fields.reason(value, known, default, self._settings.reason_map)


BUILDERS: Mapping[str, Callable[[ItemParser, Any, str], Record]] = {
    "fulfillment": ItemParser.fulfillment,
    "cancellation": ItemParser.cancellation,
    "stock_adjustment": ItemParser.adjustment,
    "stock_level": ItemParser.level,
    "tracking": ItemParser.tracking,
}


def moment(value: Any, name: str) -> str:
    """Return a time in UTC, to the millisecond. Raises Unusable."""
    if times.day_alone(value) is not None:
        raise Unusable(f"{name} is a day without a time of day: {str(value)[:40]!r}")
    try:
        found = parse_time(str(value))
        if found.tzinfo is None:
            raise Unusable(f"{name} has no time zone: {str(value)[:40]!r}")
        # A fixed number of digits, so that texts sort like their times.
        return rfc3339(found, "milliseconds")
    except (ValueError, OverflowError):
        raise Unusable(f"{name} is not a time: {str(value)[:40]!r}") from None


def _text(value: Any, name: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool | float) or not isinstance(value, str | int):
        raise Unusable(f"{name} must be a text or a whole number")
    text = str(value).strip()
    if len(text) > MAX_TEXT or not text.isprintable():
        raise Unusable(f"{name} is too long or has characters that do not print")
    return text or None


def _code(value: Any, name: str) -> str | None:
    """Return an identifier: an order, an article or a tracking number."""
    if name == "sku":
        return fields.article(value, is_text=True) or None
    return fields.identifier(value, name, is_text=True) or None
