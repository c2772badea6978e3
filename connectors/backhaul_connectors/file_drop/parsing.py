"""From the cells of a row to a record, or to what is wrong with the row."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from backhaul_connectors.file_drop.settings import zone
from backhaul_sdk import Cancellation, Fulfillment, Line, StockAdjustment
from backhaul_sdk.records import CANCEL_REASONS, MAX_DELTA, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import tzinfo

    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk import Record

Cells: TypeAlias = "Mapping[str, str]"
"""The cells of a row by what they mean; columns that are absent are empty."""

MAX_QUANTITY = 1_000_000
YES = frozenset({"yes", "y", "true", "1"})
NO = frozenset({"no", "n", "false", "0"})

_RUINED = re.compile(r"[+-]?\d+([.,]\d+)?E\+\d+", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class Unusable(Exception):
    """The row cannot become a record; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a row was found: `file` is the sha256 of the file's content."""

    file: str
    row: int
    locator: str
    raw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A kind of file: its columns by what they mean, and what a row becomes."""

    kind: str
    pattern: str
    columns: Mapping[str, str]
    optional: frozenset[str]
    build: Callable[[Cells, Origin], Record]
    follows_content: bool
    """Whether the same row in another file is the same event."""


def forms(settings: Settings) -> tuple[Form, ...]:
    """Return the kinds of files that the settings ask for."""
    all_forms = (
        _fulfillment_form(settings),
        _cancellation_form(settings),
        _stock_delta_form(settings),
    )
    return tuple(form for form in all_forms if form.pattern)


def _fulfillment_form(settings: Settings) -> Form:
    zone_of_file = zone(settings.timezone)
    return Form(
        kind="fulfillment",
        pattern=settings.fulfillments,
        columns=settings.fulfillment_columns.model_dump(),
        optional=frozenset({"sku", "quantity", "shipped_at"}),
        build=lambda cells, origin: fulfillment(cells, origin, zone_of_file),
        follows_content=True,
    )


def _cancellation_form(settings: Settings) -> Form:
    return Form(
        kind="cancellation",
        pattern=settings.cancellations,
        columns=settings.cancellation_columns.model_dump(),
        optional=frozenset(),
        build=cancellation,
        follows_content=True,
    )


def _stock_delta_form(settings: Settings) -> Form:
    named = {f"key {number}": name for number, name in enumerate(settings.key_columns)}
    return Form(
        kind="stock delta",
        pattern=settings.stock_deltas,
        columns={**settings.stock_delta_columns.model_dump(), **named},
        optional=frozenset(),
        build=lambda cells, origin: stock_delta(cells, origin, tuple(named)),
        follows_content=bool(named),
    )


def fulfillment(cells: Cells, origin: Origin, zone_of_file: tzinfo) -> Fulfillment:
    """Return the shipment; its key is its content, so a corrected file adds only
    the rows that changed."""
    order = identifier(cells, "order")
    company = cells["tracking_company"] or None
    number = identifier(cells, "tracking_number", required=False) or None
    lines = _lines(cells)
    shipped_at = _moment(cells.get("shipped_at", ""), zone_of_file)
    content = [
        _same(order).lstrip("#"),
        _same(company or ""),
        _same(number or "").replace(" ", ""),
        [[_same(line.sku), line.quantity] for line in lines],
        shipped_at,
    ]
    return Fulfillment(
        key=key_of("fulfillment", content),
        order=order,
        tracking_company=company,
        tracking_number=number,
        lines=lines,
        shipped_at=shipped_at,
        locator=origin.locator,
        raw=origin.raw,
    )


def _lines(cells: Cells) -> tuple[Line, ...]:
    sku = identifier(cells, "sku", required=False)
    quantity = cells.get("quantity", "")
    if not sku and quantity:
        raise Unusable(
            "there is a quantity but no sku; name the article, or leave both empty "
            "when everything was shipped"
        )
    return (Line(sku=sku, quantity=_quantity(quantity or "1")),) if sku else ()


def cancellation(cells: Cells, origin: Origin) -> Cancellation:
    """Return the cancellation; its key is its content."""
    order = identifier(cells, "order")
    restock = _yes_or_no(cells["restock"])
    reason = _reason(cells["reason"], CANCEL_REASONS, "OTHER")
    content = [_same(order).lstrip("#"), restock, reason]
    return Cancellation(
        key=key_of("cancellation", content),
        order=order,
        restock=restock,
        reason=reason,
        locator=origin.locator,
        raw=origin.raw,
    )


def stock_delta(
    cells: Cells, origin: Origin, key_columns: tuple[str, ...]
) -> StockAdjustment:
    """Return the change of stock.

    Two equal changes are two events (two breakages in a day), so content cannot be
    the key: without key columns it is the row's place in this very file, and only
    the same file dropped again is the same event.
    """
    sku = identifier(cells, "sku")
    named = [identifier(cells, column) for column in key_columns]
    place = (origin.file, origin.row)
    return StockAdjustment(
        key=key_of("stock delta", tuple(map(_same, named)) or place),
        sku=sku,
        delta=_delta(cells["adjustment"]),
        reason=_reason(cells["reason"], STOCK_REASONS, "MANUAL_ADJUSTMENT"),
        locator=origin.locator,
        raw=origin.raw,
    )


def key_of(kind: str, content: Sequence[object]) -> str:
    """Return a key that depends on kind and content alone."""
    text = json.dumps([kind, content])
    return f"{kind.replace(' ', '-')}:{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def clean(cell: str) -> str:
    """Return the cell without blanks around it and a spreadsheet's text mark."""
    text = cell.strip()
    guarded = text.startswith(("'=", "'+", "'-", "'@"))
    return text[1:] if guarded else text


def identifier(cells: Cells, column: str, *, required: bool = True) -> str:
    """Return a number or code that is compared as text."""
    text = cells.get(column, "")
    name = "key column" if column.startswith("key ") else column.replace("_", " ")
    if required and not text:
        raise Unusable(f"the {name} is empty")
    if _RUINED.fullmatch(text):
        raise Unusable(
            f"the spreadsheet turned the {name} into {text}, digits are lost; format "
            "the column as text and export again"
        )
    return text


def _quantity(text: str) -> int:
    quantity = int(text) if _WHOLE.fullmatch(text) else 0
    if not 1 <= quantity <= MAX_QUANTITY:
        raise Unusable(f"quantity must be a whole number of at least 1, not {text!r}")
    return quantity


def _delta(text: str) -> int:
    # Word processors write a true minus sign.
    number = text.replace("\N{MINUS SIGN}", "-")
    if not _WHOLE.fullmatch(number):
        raise Unusable(f"adjustment must be a whole number such as 5 or -5: {text!r}")
    delta = int(number)
    if delta == 0:
        raise Unusable("adjustment is 0, so nothing would change")
    if abs(delta) > MAX_DELTA:
        raise Unusable(f"adjustment must be between -1000000 and 1000000, not {text}")
    return delta


def _yes_or_no(text: str) -> bool:
    word = text.casefold()
    if word not in YES | NO:
        raise Unusable(f"restock must be yes or no, not {text!r}")
    return word in YES


def _reason(text: str, known: frozenset[str], default: str) -> str:
    word = re.sub(r"[\s-]+", "_", text).upper() or default
    if word not in known:
        raise Unusable(f"reason {text!r} is unknown; use {', '.join(sorted(known))}")
    return word


def _moment(text: str, zone_of_file: tzinfo) -> str | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=zone_of_file)
        return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise Unusable(
            f"shipped at is no date: {text!r}; write 2026-03-31 or 2026-03-31T14:05"
        ) from None


def _same(text: str) -> str:
    """Return what remains when writing style is taken away."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
