"""A full stock list from a table: one point in time, each article once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import func, select

from backhaul_connectors.sql.values import shown
from backhaul_sdk import Bad, FullList, StockLevel
from backhaul_sdk.fields import Unusable, article, rfc3339, stock_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, FromClause, Select

    from backhaul_connectors.sql.parsing import ParsingRules
    from backhaul_sdk import Record

MOST_NAMED = 5


class ListProgress(Struct):
    """How far a full list was read, and whether from its beginning."""

    from_beginning: bool
    rows: int = 0
    bad: int = 0

    def add(self, page_rows: int, records: Sequence[Record | Bad]) -> None:
        """Count a page."""
        self.rows += page_rows
        self.bad += sum(isinstance(each, Bad) for each in records)

    def end_of(
        self, listed: StockListRows, rules: ParsingRules, name: str
    ) -> list[FullList]:
        """Return the end of a full list; None if the list may lack an article.

        Rows without an id, or that appeared or vanished during the reading, change the
        number.
        """
        is_whole = self.from_beginning and not self.bad and self.rows == listed.rows
        if rules.absent != "zero" or not is_whole:
            return []
        at = rfc3339(listed.at)
        end = FullList(
            key=f"full-list:{at}",
            listed_at=at,
            rows=self.rows,
            absent_limit=rules.absent_limit,
            locator=name,
        )
        return [end]


class _Row(NamedTuple):
    id: Any
    number: int | None


class StockListRows(Struct, frozen=True):
    """When a list was read, and its articles that have several rows.

    `rows` is the number of rows of the source at that time, including rows without an
    id.
    """

    at: datetime
    rows: int = 0
    repeated: Mapping[str, list[_Row]] = field(default_factory=dict)

    def each_once(
        self, ids: Sequence[Any], records: Sequence[Record | Bad], same_sku: str
    ) -> list[Record | Bad]:
        """Return the records of a page; for a repeated article one sum, or none."""
        found = [
            self._once(id_, record, same_sku)
            for id_, record in zip(ids, records, strict=True)
        ]
        return [each for each in found if each is not None]

    def _once(
        self, id_: Any, record: Record | Bad, same_sku: str
    ) -> Record | Bad | None:
        rows = self.repeated.get(record.sku) if isinstance(record, StockLevel) else None
        if rows is None or not isinstance(record, StockLevel):
            return record
        numbers = [each.number for each in rows if each.number is not None]
        if same_sku != "sum" or len(numbers) < len(rows):
            return _refused(record, rows, same_sku)
        if id_ != rows[0].id:
            return None
        quantity, changed = stock_of(sum(numbers), negative_is_zero=True)
        said = (
            f"{' + '.join(map(str, numbers[:MOST_NAMED]))} of {_named(rows)} added up"
        )
        note = "; ".join(filter(None, (said, changed)))
        key = f"{record.key}:{quantity}"
        return replace(record, key=key, quantity=quantity, note=note)


def _refused(record: StockLevel, rows: list[_Row], same_sku: str) -> Bad:
    why = (
        "but one of these rows cannot be used. Correct this row"
        if same_sku == "sum"
        else "so Backhaul uses none of these rows. If each row is one part of the stock"
        ' (such as one warehouse), set same_sku = "sum". Otherwise keep only one of the'
        " rows"
    )
    return Bad(
        key=f"same-sku:{record.sku}:{record.locator}",
        raw=record.raw,
        reason=f"{_named(rows)} count the same SKU {record.sku!r}, {why}",
        locator=record.locator,
    )


def _named(rows: list[_Row]) -> str:
    names = ", ".join(shown(each.id) for each in rows[:MOST_NAMED])
    more = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
    return f"rows {names}{more}"


def repeated_in(
    connection: Connection,
    source: FromClause,
    columns: Mapping[str, ColumnElement[Any]],
) -> dict[str, list[_Row]]:
    """Return the rows of every article that the source lists more than once.

    `columns` are `id`, `sku` and `quantity`. The database compares articles by its own
    rules; the host finds different spellings.
    """
    sku = columns["sku"]
    twice: Select[Any] = (
        select(sku)
        .select_from(source)
        .group_by(sku)
        .having(func.count() > 1)
        .correlate(None)
    )
    rows = (
        select(columns["id"], sku, columns["quantity"])
        .select_from(source)
        .where(sku.in_(twice))
        .order_by(columns["id"])
    )
    found: dict[str, list[_Row]] = {}
    for id_, name, quantity in connection.execute(rows):
        if text := _article(name):
            found.setdefault(text, []).append(_Row(id_, _number(quantity)))
    return {text: each for text, each in found.items() if len(each) > 1}


def _article(name: object) -> str:
    try:
        return article(name, is_text=True)
    except Unusable:
        return ""


def _number(quantity: object) -> int | None:
    try:
        return whole_number(quantity, "quantity", "system")
    except Unusable:
        return None
