"""From the cells of a row to a record, or to what is wrong with the row."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct

from backhaul_connectors.file_drop.cells import (
    identifier,
    key_of,
    moment,
    same,
    whole_number,
    yes_or_no,
)
from backhaul_connectors.file_drop.settings import zone
from backhaul_sdk import Cancellation, Fulfillment, Line, StockAdjustment, StockLevel
from backhaul_sdk.reading import Unusable, reason_of
from backhaul_sdk.records import CANCEL_REASONS, MAX_DELTA, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import tzinfo

    from backhaul_connectors.file_drop.cells import Cells
    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk import Record

MAX_QUANTITY = 1_000_000


class Origin(NamedTuple):
    """Where a row was found.

    `file` tells one content of a file from another, `dated` is the file's time.
    """

    file: str
    dated: str
    row: int
    locator: str
    raw: str


Make: TypeAlias = "Callable[[Origin], Record]"
"""Makes the record of a row that can be used; what is only judged needs none."""


class Conventions(Struct, frozen=True, kw_only=True):
    """How numbers and times are written, and the columns that are part of a key."""

    zone: tzinfo
    date_format: str
    decimal: str
    named: tuple[str, ...]


class Form(Struct, frozen=True, kw_only=True):
    """A kind of file: its columns by what they mean, and what a row becomes."""

    kind: str
    pattern: str
    columns: Mapping[str, str]
    optional: frozenset[str]
    understand: Callable[[Cells], Make]
    """Raises Unusable; what it returns does not."""
    follows_content: bool
    """Whether the same row in another file is the same event."""
    dated_by_file: bool = False
    """Whether a file without this kind's date means the moment it was written."""


def forms(settings: Settings) -> tuple[Form, ...]:
    """Return the kinds of files that the settings ask for."""
    keys = {f"key {number}": name for number, name in enumerate(settings.key_columns)}
    conventions = Conventions(
        zone=zone(settings.timezone),
        date_format=settings.date_format,
        decimal=settings.decimal,
        named=tuple(keys),
    )
    makers = (_fulfillment_form, _cancellation_form, _stock_delta_form, _level_form)
    all_forms = (maker(settings, keys, conventions) for maker in makers)
    return tuple(form for form in all_forms if form.pattern)


def _fulfillment_form(
    settings: Settings, keys: Mapping[str, str], conventions: Conventions
) -> Form:
    return Form(
        kind="fulfillment",
        pattern=settings.fulfillments,
        columns={**settings.fulfillment_columns.model_dump(), **keys},
        optional=frozenset({"sku", "quantity", "shipped_at", *keys}),
        understand=partial(fulfillment, conventions),
        follows_content=True,
    )


def _cancellation_form(
    settings: Settings, keys: Mapping[str, str], conventions: Conventions
) -> Form:
    return Form(
        kind="cancellation",
        pattern=settings.cancellations,
        columns={**settings.cancellation_columns.model_dump(), **keys},
        optional=frozenset(keys),
        understand=partial(cancellation, conventions),
        follows_content=True,
    )


def _stock_delta_form(
    settings: Settings, keys: Mapping[str, str], conventions: Conventions
) -> Form:
    return Form(
        kind="stock delta",
        pattern=settings.stock_deltas,
        columns={**settings.stock_delta_columns.model_dump(), **keys},
        optional=frozenset(),
        understand=partial(stock_delta, conventions),
        follows_content=bool(keys),
    )


def _level_form(
    settings: Settings, keys: Mapping[str, str], conventions: Conventions
) -> Form:
    return Form(
        kind="stock level",
        pattern=settings.stock_levels,
        columns={**settings.stock_level_columns.model_dump(), **keys},
        optional=frozenset({"as_of", *keys}),
        understand=partial(stock_level, conventions),
        follows_content=True,
        dated_by_file=True,
    )


def fulfillment(how: Conventions, cells: Cells) -> Make:
    """Understand a shipment; its key is its content, so a corrected file adds only
    the rows that changed."""
    order = identifier(cells, "order")
    company = identifier(cells, "tracking_company", required=False) or None
    number = identifier(cells, "tracking_number", required=False) or None
    lines = _lines(how, cells)
    shipped_at = moment(cells, "shipped_at", how.zone, how.date_format)
    named = _named(how, cells)

    def make(origin: Origin) -> Fulfillment:
        content = [
            same(order).lstrip("#"),
            same(company or ""),
            same(number or "").replace(" ", ""),
            [[same(line.sku), line.quantity] for line in lines],
            shipped_at,
            *named,
        ]
        return Fulfillment(
            key=key_of("fulfillment", content),
            order=order,
            tracking_company=company,
            tracking_number=number,
            lines=lines,
            everything=not lines,
            shipped_at=shipped_at,
            locator=origin.locator,
            raw=origin.raw,
        )

    return make


def _lines(how: Conventions, cells: Cells) -> tuple[Line, ...]:
    sku = identifier(cells, "sku", required=False)
    quantity = cells.get("quantity", "")
    if not sku and quantity:
        raise Unusable(
            "there is a quantity but no sku; name the article, or leave both empty "
            "when everything was shipped"
        )
    if not sku:
        return ()
    return (Line(sku=sku, quantity=_quantity(quantity or "1", how.decimal, least=1)),)


def cancellation(how: Conventions, cells: Cells) -> Make:
    """Understand a cancellation; its key is its content."""
    order = identifier(cells, "order")
    restock = yes_or_no(cells["restock"])
    why = reason_of(cells["reason"], CANCEL_REASONS, "OTHER")
    content = [same(order).lstrip("#"), restock, why, *_named(how, cells)]
    return lambda origin: Cancellation(
        key=key_of("cancellation", content),
        order=order,
        restock=restock,
        reason=why,
        locator=origin.locator,
        raw=origin.raw,
    )


def stock_delta(how: Conventions, cells: Cells) -> Make:
    """Understand a change of stock.

    Two equal changes are two events (two breakages in a day), so content cannot be
    the key: without key columns it is the row's place in this very file, and only
    the same file dropped again is the same event.
    """
    sku = identifier(cells, "sku")
    named = [same(identifier(cells, column)) for column in how.named]
    delta = _delta(cells["adjustment"], how.decimal)
    reason = reason_of(cells["reason"], STOCK_REASONS, "MANUAL_ADJUSTMENT")
    return lambda origin: StockAdjustment(
        key=key_of("stock delta", named or [origin.file, origin.row]),
        sku=sku,
        delta=delta,
        reason=reason,
        locator=origin.locator,
        raw=origin.raw,
    )


def stock_level(how: Conventions, cells: Cells) -> Make:
    """Understand a count; the same number counted at another time is news."""
    sku = identifier(cells, "sku")
    quantity = _quantity(cells["quantity"], how.decimal, least=0)
    counted_at = moment(cells, "as_of", how.zone, how.date_format)
    named = _named(how, cells)

    def make(origin: Origin) -> StockLevel:
        as_of = counted_at or origin.dated
        return StockLevel(
            key=key_of("stock level", [same(sku), quantity, as_of, *named]),
            sku=sku,
            quantity=quantity,
            as_of=as_of,
            locator=origin.locator,
            raw=origin.raw,
        )

    return make


def _named(how: Conventions, cells: Cells) -> list[Any]:
    """Return what sets apart rows that are equal otherwise; mostly nothing."""
    found = [
        same(identifier(cells, column, required=False))
        for column in how.named
        if column in cells
    ]
    return [found] if found else []


def _quantity(text: str, decimal: str, *, least: int) -> int:
    quantity = whole_number(text, decimal)
    if quantity is None or not least <= quantity <= MAX_QUANTITY:
        raise Unusable(
            f"quantity must be a whole number of at least {least}, not {text!r}"
            f"{_ambiguous(text, decimal)}"
        )
    return quantity


def _delta(text: str, decimal: str) -> int:
    delta = whole_number(text, decimal)
    if delta is None:
        raise Unusable(
            f"adjustment must be a whole number such as 5 or -5: {text!r}"
            f"{_ambiguous(text, decimal)}"
        )
    if delta == 0:
        raise Unusable("adjustment is 0, so nothing would change")
    if abs(delta) > MAX_DELTA:
        raise Unusable(f"adjustment must be between -1000000 and 1000000, not {text}")
    return delta


def _ambiguous(text: str, decimal: str) -> str:
    if decimal != "auto" or whole_number(text, ".") is None:
        return ""
    return "; is that thousands or decimals? set decimal to ',' or '.'"
