"""Parses the cells of a row into a record, and checks the rows of a stock list."""

from __future__ import annotations

from array import array
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.file_drop.columns import SYNONYMS, column_of
from backhaul_connectors.file_drop.csv_reader import identifier, key_of, number, same
from backhaul_connectors.file_drop.shipments import ShipmentRow
from backhaul_sdk import Cancellation, Line, StockAdjustment, StockLevel, fields
from backhaul_sdk.fields import Unusable, stock_of
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import date, tzinfo

    from pydantic import BaseModel

    from backhaul_connectors.file_drop.columns import Column, RowFilter
    from backhaul_connectors.file_drop.csv_reader import CellOrigin, Cells
    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk import Record
    from backhaul_sdk.fields import DecimalSign


NO_NUMBER = -(2**62)
"""The number of a row that cannot be used."""
MOST_NAMED = 5


class LevelRow(Struct, frozen=True, kw_only=True):
    """A usable row; `number` may be below 0 if that is taken as 0.

    `counted_at` (RFC 3339) and `counted_on` come from the row, None if it has none; a
    day without a time has both.
    """

    sku: str
    number: int
    counted_at: str | None
    counted_on: date | None
    zone: tzinfo
    negative_is_zero: bool
    named: tuple[Any, ...] = ()
    full_list: bool = False

    def __call__(self, origin: CellOrigin, *, note: str = "") -> StockLevel:
        """Return the record; `note` says what was changed before."""
        quantity, changed = stock_of(
            self.number, negative_is_zero=self.negative_is_zero
        )
        as_of = self.as_of(origin.dated)
        # Lists of one day differ by their write time.
        listed = [origin.dated] if self.counted_on else []
        content = [same(self.sku), quantity, as_of, *listed, *self.named]
        return StockLevel(
            key=key_of("stock level", content),
            sku=self.sku,
            quantity=quantity,
            as_of=as_of,
            listed_at=origin.dated,
            note="; ".join(filter(None, (note, changed))),
            full_list=self.full_list,
            locator=origin.locator,
            raw=origin.raw,
        )

    def as_of(self, dated: str) -> str:
        """Return when the article was counted; `dated` is when its list was written."""
        if self.counted_on is not None and dated:
            written = datetime.fromisoformat(dated).astimezone(self.zone)
            if written.date() == self.counted_on:
                return dated
        return self.counted_at or dated


def article_of(sku: str, counted_at: str | None) -> int:
    """Return a number for the rows of one article and one `as_of`; never 0."""
    return hash((same(sku), counted_at)) or 1


class _Row(NamedTuple):
    row: int
    line: int
    number: int


class ArticleIndex:
    """The rows of one list by their article and `as_of`, in about 20 bytes a row.

    First every row is added, then `finish` is called, and then `level_of` decides the
    result of a row. `begin` is the number of rows submitted before.
    """

    def __init__(self, *, adds_up: bool) -> None:
        self.begin = 0
        self.below_zero = 0
        self.counted_at = ""
        """The latest `as_of` of the rows, where a full list needs it."""
        self.hidden = 0
        self._hidden: set[int] = set()
        self._adds_up = adds_up
        self._articles = array("q")
        self._numbers = array("q")
        self._lines = array("q")
        self._seen: set[int] = set()
        self._repeated: dict[int, list[_Row]] = {}

    def add(self, article: int, number: int | None, line: int) -> None:
        """Add the next row; `article` is 0 if the row has none.

        `number` is None if the row cannot be used.
        """
        if article in self._seen:
            self._repeated.setdefault(article, [])
        elif article:
            self._seen.add(article)
        self.below_zero += number is not None and number < 0
        self._articles.append(article)
        self._numbers.append(NO_NUMBER if number is None else number)
        self._lines.append(line)

    def leave_out(self, article: int, line: int) -> None:
        """Add a row that a filter leaves out; `article` is 0 if it has none."""
        if article:
            self._hidden.add(article)
        # Its places are those of the rows.
        self.add(0, None, line)

    def finish(self) -> None:
        """Find the rows of each repeated article.

        `hidden` is then the number of articles that only filtered rows name.
        """
        self.hidden = len(self._hidden - self._seen)
        self._hidden.clear()
        self._seen.clear()
        if not self._repeated:
            return
        for place, article in enumerate(self._articles):
            if (rows := self._repeated.get(article)) is not None:
                number = self._numbers[place]
                rows.append(_Row(place + 1, self._lines[place], number))

    def notes(self) -> tuple[str, ...]:
        """Return the notes to log: the number of levels below 0."""
        if not self.below_zero:
            return ()
        return (f"{self.below_zero} stock levels below 0 are taken as 0",)

    def refused(self) -> list[RefusedRow]:
        """Return the rows that only another row of their article makes unusable."""
        return [
            RefusedRow(each.line, self._why_not(rows))
            for rows in self._repeated.values()
            if not self._can_add_up(rows)
            for each in rows
            if each.number != NO_NUMBER
        ]

    def level_of(self, level: LevelRow, origin: CellOrigin) -> StockLevel | None:
        """Return the record of a row; None if its article's first row has it.

        Raises Unusable if it contradicts another row.
        """
        rows = self._repeated.get(self._articles[origin.row - 1])
        if rows is None:
            return level(origin)
        if not self._can_add_up(rows):
            raise Unusable(self._why_not(rows))
        if origin.row != next(each.row for each in rows if each.row > self.begin):
            return None
        total = sum(each.number for each in rows)
        said = " + ".join(str(each.number) for each in rows[:MOST_NAMED])
        more = " + …" if len(rows) > MOST_NAMED else ""
        note = f"{said}{more} of {_lines(rows)} added up"
        return replace(level, number=total, named=())(origin, note=note)

    def _can_add_up(self, rows: list[_Row]) -> bool:
        return self._adds_up and all(each.number != NO_NUMBER for each in rows)

    def _why_not(self, rows: list[_Row]) -> str:
        where = f"{_lines(rows)} count the same SKU at the same time"
        if self._adds_up:
            return f"{where}, but one of these lines cannot be used. Correct this line"
        return (
            f"{where}, so Backhaul uses none of these lines. If each line is one part"
            ' of the stock (such as one warehouse), set same_sku = "sum". Otherwise'
            " keep only one of the lines"
        )


class RefusedRow(Struct, frozen=True):
    """A row of a repeated article, and why it is not used."""

    line: int
    reason: str


def _lines(rows: list[_Row]) -> str:
    named = [str(each.line) for each in rows[:MOST_NAMED]]
    if len(rows) > MOST_NAMED:
        return f"lines {', '.join(named)} and {len(rows) - MOST_NAMED} more"
    return f"lines {', '.join(named[:-1])} and {named[-1]}"


NO_ARTICLE_NAMED = (
    "the sku is {!r}, which stands for no value, so Backhaul does not know what was"
    " shipped; write the SKU, or leave the cell empty if the whole order was"
    " shipped"
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

    @property
    def setting(self) -> str:
        """The setting with the names of these files, such as `stock_levels`."""
        return f"{self.kind.replace(' ', '_')}s"

    @property
    def rows_setting(self) -> str:
        """The setting with the row filter of this kind."""
        return f"{self.kind.replace(' ', '_')}_rows"


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
            "the row has a quantity but no SKU; write the SKU, or leave both empty"
            " if the whole order was shipped"
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
