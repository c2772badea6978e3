"""Checks the rows of a stock list; repeated articles are refused or added up."""

from __future__ import annotations

from array import array
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.file_drop.cells import key_of, same
from backhaul_sdk import StockLevel
from backhaul_sdk.fields import Unusable, stock_of

if TYPE_CHECKING:
    from datetime import date, tzinfo

    from backhaul_connectors.file_drop.cells import CellOrigin

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
        where = f"{_lines(rows)} count the same article at the same time"
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
