"""Reads JSON items as records: the settings of the mapping, and the parser."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from backhaul_sdk import fields
from backhaul_sdk.contract import STRICT
from backhaul_sdk.fields import Unusable, checked_reason_map
from backhaul_sdk.json_paths import Expression, find
from backhaul_sdk.records import (
    CANCEL_REASONS,
    STOCK_REASONS,
    TRACKING_STATUSES,
    Bad,
    Cancellation,
    Fulfillment,
    Line,
    ReadValue,
    StockAdjustment,
    StockLevel,
    Tracking,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul_sdk.records import Record, RecordKind

FIELDS = {
    "fulfillment": ({"order"}, {"tracking_company", "tracking_number", "shipped_at"}),
    "cancellation": ({"order"}, {"restock", "reason"}),
    "stock_adjustment": ({"sku", "delta"}, {"reason"}),
    "stock_level": ({"sku", "quantity"}, {"as_of"}),
    "tracking": (
        {"tracking_number", "status"},
        {"at", "tracking_company", "order"},
    ),
}
"""The required and the optional fields of each kind of record."""
ReasonMap = Annotated[dict[str, str], AfterValidator(checked_reason_map)]


class ItemMapping(BaseModel):
    """Settings that say what an item becomes, and where its values are."""

    model_config = STRICT

    kind: Literal[
        "fulfillment", "cancellation", "stock_adjustment", "stock_level", "tracking"
    ] = Field(description="What an item of the list becomes.")
    items: Expression = Field(default="@", description="Where the items are.")
    key: Expression | None = Field(default=None, description="Unique id of an item.")
    fields: dict[str, Expression] = Field(
        description="Where in an item each member of the record is."
    )
    lines: Expression | None = Field(
        default=None,
        description="Where an item has its lines; without it the whole order left.",
    )
    line_sku: Expression = Field(default="sku", description="The SKU of a line.")
    line_quantity: Expression = Field(default="quantity", description="A line's units.")
    statuses: dict[str, str] = Field(
        default_factory=dict, description="What the system's words for a status mean."
    )
    reason_map: ReasonMap = Field(
        default_factory=dict,
        description="What the system's words for a reason mean; `*` is any other.",
    )
    same_sku: Literal["refuse", "sum"] = Field(
        default="refuse",
        description=(
            "What several items of one SKU in one list mean. `sum`: each item is"
            " one part of the stock, and Backhaul adds up the items. `refuse`:"
            " Backhaul uses none of these items."
        ),
    )
    negative_is_zero: bool = Field(
        default=True,
        description="Whether a stock level below 0 is taken as 0; else it is refused.",
    )

    @model_validator(mode="after")
    def _has_its_fields(self) -> ItemMapping:
        required, optional = FIELDS[self.kind]
        if missing := required - self.fields.keys():
            raise ValueError(
                f"the table fields lacks the entries {', '.join(sorted(missing))}"
            )
        if unknown := self.fields.keys() - required - optional:
            raise ValueError(
                f"a record of the kind {self.kind} has no field"
                f" {', '.join(sorted(unknown))}"
            )
        if wrong := set(self.statuses.values()) - {*TRACKING_STATUSES, ""}:
            known = ", ".join(TRACKING_STATUSES)
            raise ValueError(
                f"statuses has the unknown values {', '.join(sorted(wrong))}; use"
                f" {known}"
            )
        return self


MAX_RAW = 20_000
MAX_READ = 500
"""Characters of one value of an unusable item that an operator edits."""
MOST_SHOWN = 80
_RECORD_KINDS: Mapping[str, RecordKind] = {
    "fulfillment": "fulfill",
    "cancellation": "cancel",
    "stock_adjustment": "adjust",
    "stock_level": "level",
    "tracking": "track",
}
_NAMING = ("order", "sku", "tracking_number")
"""Fields that identify an item without a key."""


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

    `now` is empty if that is unknown: then a stock level needs a time of its own.
    `most_raw` is how many characters of an item are kept. `number` is the last stock
    level, before a level below 0 became 0.
    """

    def __init__(
        self, name: str, settings: ItemMapping, now: str, most_raw: int = MAX_RAW
    ) -> None:
        self._name = name
        self._settings = settings
        self._now = now
        self._most_raw = most_raw
        self._raw = ""
        self.number = 0
        self._build = BUILDERS[settings.kind]

    def read(self, item: Any, text: str, own_key: str = "") -> Record | Bad:
        """Return the record of an item; `text` is the item as it is stored.

        `own_key` is the key of an item for which the settings name none.
        """
        self._raw = text[: self._most_raw]
        try:
            return self._build(self, item, self._key(item, own_key))
        except Unusable as error:
            return Bad(
                key=f"{self._name}:bad:{digest_of(text)}",
                raw=self._raw,
                reason=str(error),
                locator=f"{self._name} {self._called(item)}".rstrip(),
                kind=_RECORD_KINDS[self._settings.kind],
                read=self._read(item),
            )

    def _key(self, item: Any, own_key: str) -> str:
        found = find(self._settings.key, item) if self._settings.key else own_key
        return fields.key(found, required=True)

    def _read(self, item: Any) -> Mapping[str, ReadValue]:
        """Return the values of an item that cannot be used, with their paths."""
        read: dict[str, ReadValue] = {}
        for name, path in self._settings.fields.items():
            with suppress(Unusable):
                found = find(path, item)
                text = found if isinstance(found, str) else text_of(found)
                read[name] = ReadValue("" if found is None else text[:MAX_READ], path)
        return read

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

    def article(self, item: Any) -> str:
        """Return the article of an item, even of an unusable one."""
        with suppress(Unusable):
            return fields.article(self._field(item, "sku"), is_text=True)
        return ""

    def _sku(self, item: Any) -> str:
        return fields.article(self._field(item, "sku"), is_text=True, required=True)

    def _code(self, item: Any, name: str, *, required: bool = False) -> str:
        spoken = name.replace("_", " ")
        return fields.identifier(
            self._field(item, name), spoken, is_text=True, required=required
        )

    def _carrier(self, item: Any) -> str | None:
        company = self._field(item, "tracking_company")
        return fields.label(company, "tracking company") or None

    def _moment(self, item: Any, name: str) -> str | None:
        return moment(self._field(item, name), name.replace("_", " "))

    def fulfillment(self, item: Any, key: str) -> Fulfillment:
        origin = self._origin(key)
        return Fulfillment(
            key=origin["key"],
            order=self._code(item, "order", required=True),
            tracking_company=self._carrier(item),
            tracking_number=self._code(item, "tracking_number") or None,
            lines=self._lines(item),
            everything=self._settings.lines is None,
            shipped_at=self._moment(item, "shipped_at"),
            locator=origin["locator"],
            raw=origin["raw"],
        )

    def _lines(self, item: Any) -> tuple[Line, ...]:
        """Return the lines of a shipment; missing lines never mean everything."""
        if self._settings.lines is None:
            return ()
        found = find(self._settings.lines, item)
        if not isinstance(found, list) or not found:
            raise Unusable(
                "the shipment has no lines, so Backhaul does not know what was shipped"
            )
        return tuple(map(self._line, found))

    def _line(self, line: Any) -> Line:
        sku = fields.article(find(self._settings.line_sku, line), is_text=True)
        if not sku:
            raise Unusable(
                "a line of the shipment has no SKU, so Backhaul does not know what was"
                " shipped"
            )
        units = find(self._settings.line_quantity, line)
        return Line(sku=sku, quantity=fields.shipped_units(units, decimal="system"))

    def cancellation(self, item: Any, key: str) -> Cancellation:
        restock = self._field(item, "restock")
        return Cancellation(
            order=self._code(item, "order", required=True),
            restock=restock is not None and fields.yes_or_no(restock, "restock"),
            reason=self._reason(item, CANCEL_REASONS, "OTHER"),
            **self._origin(key),
        )

    def adjustment(self, item: Any, key: str) -> StockAdjustment:
        delta = fields.stock_change(self._field(item, "delta"), "delta", "system")
        return StockAdjustment(
            sku=self._sku(item),
            delta=delta,
            reason=self._reason(item, STOCK_REASONS, "MANUAL_ADJUSTMENT"),
            **self._origin(key),
        )

    def level(self, item: Any, key: str) -> StockLevel:
        number = fields.whole_number(
            self._field(item, "quantity"), "quantity", "system"
        )
        negative_is_zero = self._settings.negative_is_zero
        quantity, note = fields.stock_of(number, negative_is_zero=negative_is_zero)
        as_of = self._moment(item, "as_of") or self._now
        if not as_of:
            raise Unusable(
                "the stock level has no time: without as_of, Backhaul does not know"
                " which sales it includes"
            )
        self.number = number
        # The same level at another time is another record.
        return StockLevel(
            sku=self._sku(item),
            quantity=quantity,
            as_of=as_of,
            listed_at=self._now,
            note=note,
            full_list=False,
            **self._origin(key, f":{as_of}:{quantity}"),
        )

    def tracking(self, item: Any, key: str) -> Tracking:
        word = fields.word(self._field(item, "status"), "status")
        status = self._settings.statuses.get(word, word)
        if status not in TRACKING_STATUSES:
            raise Unusable(
                f"the status {word!r} of the parcel is unknown; add it to statuses"
            )
        return Tracking(
            tracking_number=self._code(item, "tracking_number", required=True),
            status=status,
            at=self._moment(item, "at"),
            tracking_company=self._carrier(item),
            order=self._code(item, "order") or None,
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


def moment(value: Any, name: str) -> str | None:
    """Return a time in UTC, to the millisecond; None if there is none."""
    # A fixed number of digits, so that texts sort like their times.
    return fields.moment(value, name, timespec="milliseconds")
