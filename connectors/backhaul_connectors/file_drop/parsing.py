"""Parses the cells of a row into a record, or says what is wrong with it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul_connectors.file_drop.cells import identifier, key_of, number, same
from backhaul_connectors.file_drop.columns import SYNONYMS, column_of
from backhaul_connectors.file_drop.shipments import ShipmentRow
from backhaul_connectors.file_drop.stock_list import LevelRow, article_of
from backhaul_sdk import Cancellation, Line, StockAdjustment, fields
from backhaul_sdk.fields import Unusable
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import tzinfo

    from pydantic import BaseModel

    from backhaul_connectors.file_drop.cells import CellOrigin, Cells
    from backhaul_connectors.file_drop.columns import Column, RowFilter
    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk import Record
    from backhaul_sdk.fields import DecimalSign

NO_ARTICLE_NAMED = (
    "the sku is {!r}, which stands for no value, so it is unknown what was shipped; "
    "name the article, or leave the cell empty when everything was shipped"
)


Make: TypeAlias = "Callable[[CellOrigin], Record]"
"""Makes the record of a usable row; checking alone needs no record."""


class Conventions(Struct, frozen=True, kw_only=True):
    """How numbers and times are written, and the columns that are part of a key."""

    zone: tzinfo
    date_format: str
    decimal: DecimalSign
    named: tuple[str, ...]
    negative_is_zero: bool
    reason_map: Mapping[str, str]
    full_list: bool


class FileKind(Struct, frozen=True, kw_only=True):
    """A kind of file: its columns by their meaning, and the parser of a row."""

    kind: str
    pattern: str
    columns: Mapping[str, Column]
    optional: frozenset[str]
    values: Mapping[str, str]
    """The values of empty cells and absent columns."""
    rows: RowFilter
    understand: Callable[[Cells], Make]
    """Parses a row. Raises Unusable; the returned function does not."""
    follows_content: bool
    """Whether the same row in another file is the same event."""
    joins_rows: bool = False
    """Whether several rows may be one event, as the rows of a parcel."""
    dated_by_file: bool = False
    """Whether the file's time is the date of rows without one."""
    article: Callable[[Cells], int] | None = None
    """For stock lists: returns the article of an unusable row, 0 for none."""
    adds_up: bool = False
    """Whether several rows of an article are parts of its stock."""


def file_kinds(settings: Settings) -> tuple[FileKind, ...]:
    """Return the kinds of files in the settings."""
    keys = {
        f"key {number}": column_of(name, ())
        for number, name in enumerate(settings.key_columns)
    }
    conventions = Conventions(
        zone=fields.zone_named(settings.timezone),
        date_format=settings.date_format,
        decimal=settings.decimal,
        named=tuple(keys),
        negative_is_zero=settings.negative_is_zero,
        reason_map=settings.reason_map,
        full_list=settings.absent == "zero",
    )
    makers = (_fulfillment_form, _cancellation_form, _stock_delta_form, _level_form)
    all_forms = (maker(settings, keys, conventions) for maker in makers)
    return tuple(form for form in all_forms if form.pattern)


def _columns(
    kind: str, named: BaseModel, keys: Mapping[str, Column]
) -> dict[str, Column]:
    """Return the columns of a kind; a column with an empty name is left out.

    A name that the settings give has no synonyms.
    """
    found: dict[str, Column] = {}
    for meaning, written in named.model_dump().items():
        is_set = meaning in named.model_fields_set
        others = () if is_set else SYNONYMS[kind].get(meaning, ())
        if written:
            found[meaning] = column_of(written, others)
    return {**found, **keys}


def _values(given: BaseModel, meanings: Iterable[str]) -> dict[str, str]:
    """Return the fixed values, and an empty value for each of these meanings."""
    return {**dict.fromkeys(meanings, ""), **given.model_dump()}


def _fulfillment_form(
    settings: Settings, keys: Mapping[str, Column], conventions: Conventions
) -> FileKind:
    values = _values(settings.fulfillment_values, ("tracking_number", "sku"))
    company = {"tracking_company"} if values["tracking_company"] else set[str]()
    return FileKind(
        kind="fulfillment",
        pattern=settings.fulfillments,
        columns=_columns("fulfillment", settings.fulfillment_columns, keys),
        optional=frozenset({"sku", "quantity", "shipped_at", *company, *keys}),
        values=values,
        rows=settings.fulfillment_rows,
        understand=partial(fulfillment, conventions),
        follows_content=True,
        joins_rows=True,
    )


def _cancellation_form(
    settings: Settings, keys: Mapping[str, Column], conventions: Conventions
) -> FileKind:
    values = _values(settings.cancellation_values, ())
    restock = {"restock"} if values["restock"] else set[str]()
    return FileKind(
        kind="cancellation",
        pattern=settings.cancellations,
        columns=_columns("cancellation", settings.cancellation_columns, keys),
        optional=frozenset({"reason", *restock, *keys}),
        values=values,
        rows=settings.cancellation_rows,
        understand=partial(cancellation, conventions),
        follows_content=True,
    )


def _stock_delta_form(
    settings: Settings, keys: Mapping[str, Column], conventions: Conventions
) -> FileKind:
    return FileKind(
        kind="stock delta",
        pattern=settings.stock_deltas,
        columns=_columns("stock delta", settings.stock_delta_columns, keys),
        optional=frozenset({"reason"}),
        values=_values(settings.stock_delta_values, ()),
        rows=settings.stock_delta_rows,
        understand=partial(stock_delta, conventions),
        follows_content=bool(keys),
    )


def _level_form(
    settings: Settings, keys: Mapping[str, Column], conventions: Conventions
) -> FileKind:
    return FileKind(
        kind="stock level",
        pattern=settings.stock_levels,
        columns=_columns("stock level", settings.stock_level_columns, keys),
        optional=frozenset({"as_of", *keys}),
        values={},
        rows=settings.stock_level_rows,
        understand=partial(stock_level, conventions),
        follows_content=True,
        dated_by_file=True,
        article=partial(article_in, conventions),
        adds_up=settings.same_sku == "sum",
    )


def fulfillment(how: Conventions, cells: Cells) -> ShipmentRow:
    """Parse a row of a shipment."""
    return ShipmentRow(
        order=identifier(cells, "order"),
        tracking_company=identifier(cells, "tracking_company", required=False) or None,
        tracking_number=identifier(cells, "tracking_number", required=False) or None,
        line=_line(how, cells),
        shipped_at=_moment(how, cells, "shipped_at"),
        named=tuple(*_named(how, cells)),
    )


def _line(how: Conventions, cells: Cells) -> Line | None:
    sku = identifier(cells, "sku", required=False)
    quantity = cells.get("quantity", "")
    if not sku and (written := fields.without_text_mark(cells.get("sku", ""))):
        raise Unusable(NO_ARTICLE_NAMED.format(written[:60]))
    if not sku and quantity:
        raise Unusable(
            "there is a quantity but no sku; name the article, or leave both empty "
            "when everything was shipped"
        )
    if not sku:
        return None
    units = fields.shipped_units(number(quantity or "1"), decimal=how.decimal)
    return Line(sku=sku, quantity=units)


def cancellation(how: Conventions, cells: Cells) -> Make:
    """Parse a cancellation; its key is its content."""
    order = identifier(cells, "order")
    restock = fields.yes_or_no(cells["restock"], "restock")
    why = fields.reason(cells["reason"], CANCEL_REASONS, "OTHER", how.reason_map)
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
    """Parse a change of stock.

    Two equal changes are two events (two breakages in a day), so content cannot be the
    key: without key columns the key is the row's place in this file, and only the same
    file dropped again is the same event.
    """
    sku = identifier(cells, "sku")
    named = [same(identifier(cells, column)) for column in how.named]
    change = number(cells["adjustment"])
    delta = fields.stock_change(change, "adjustment", how.decimal)
    why = fields.reason(
        cells["reason"], STOCK_REASONS, "MANUAL_ADJUSTMENT", how.reason_map
    )
    return lambda origin: StockAdjustment(
        key=key_of("stock delta", named or [origin.file, origin.row]),
        sku=sku,
        delta=delta,
        reason=why,
        locator=origin.locator,
        raw=origin.raw,
    )


def stock_level(how: Conventions, cells: Cells) -> LevelRow:
    """Parse a stock count; the same number at another time is a new record."""
    sku = identifier(cells, "sku")
    level = fields.whole_number(number(cells["quantity"]), "quantity", how.decimal)
    fields.stock_of(level, negative_is_zero=how.negative_is_zero)
    return LevelRow(
        sku=sku,
        number=level,
        counted_at=_moment(how, cells, "as_of"),
        counted_on=fields.day_alone(cells.get("as_of"), how.date_format),
        zone=how.zone,
        negative_is_zero=how.negative_is_zero,
        named=tuple(_named(how, cells)),
        full_list=how.full_list,
    )


def article_in(how: Conventions, cells: Cells) -> int:
    """Return the article of a stock row, 0 if unknown."""
    try:
        return article_of(identifier(cells, "sku"), _moment(how, cells, "as_of"))
    except Unusable:
        return 0


def _moment(how: Conventions, cells: Cells, column: str) -> str | None:
    return fields.moment(
        cells.get(column),
        column.replace("_", " "),
        how.zone,
        date_format=how.date_format,
        day_begins=True,
    )


def _named(how: Conventions, cells: Cells) -> list[Any]:
    """Return the key columns' values; mostly none."""
    found = [
        same(identifier(cells, column, required=False))
        for column in how.named
        if column in cells
    ]
    return [found] if found else []
