"""Reads one source page by page: new rows in order, or a full stock list."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import bindparam, func, not_, or_, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import NullType

from backhaul_connectors.sql.cursor import RowPosition
from backhaul_connectors.sql.database import (
    CLOCKS,
    bound,
    is_shown_in_summer_time,
    lack,
    later,
    quoted_column,
    table_of,
    words,
)
from backhaul_connectors.sql.parsing import (
    DEFAULT_RULES,
    ParsingRules,
    RowOrigin,
    key_of,
    record_of,
)
from backhaul_connectors.sql.settings import columns_of, seeks_reason
from backhaul_connectors.sql.stock_list import StockListRows, repeated_in
from backhaul_connectors.sql.values import (
    Bytes,
    earlier,
    is_long_before,
    latest,
    shown,
    to_json,
)
from backhaul_sdk import Bad
from backhaul_sdk.fields import Unusable, rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from sqlalchemy import Connection, Engine, FromClause, Select

    from backhaul_connectors.sql.settings import Source
    from backhaul_sdk import Record

MOST_TOLD = 100
FAR_AHEAD = timedelta(days=1)
"""A row further in the future than any time zone or clock error explains is
reported."""
_COLON = re.compile(r"(?<!:):(?!:)(?=\w)")


class RowPage(Struct, frozen=True):
    """Rows as records, the position after them, and whether there may be more.

    `unread` are rows that are only reported; the next page starts `behind` them.
    """

    records: Sequence[Record | Bad]
    ids: Sequence[Any]
    place: RowPosition | None
    more: bool
    unread: Sequence[Bad] = ()
    behind: RowPosition | None = None
    is_past: bool = False
    times: Sequence[Any] = ()

    @property
    def rows(self) -> list[tuple[Any, Record | Bad]]:
        """Each record with the time of its row."""
        return list(zip(self.times, self.records, strict=True))


class SourceReader:
    """Runs the statements of one source. Every method blocks."""

    def __init__(
        self,
        kind: str,
        source: Source,
        family: str,
        zone: tzinfo,
        limit: int,
        rules: ParsingRules = DEFAULT_RULES,
    ) -> None:
        self.kind = kind
        self.source = source
        self._family = family
        self._zone = zone
        self._limit = limit
        self._rules = rules
        self._meanings = columns_of(source)
        self._seeks_reason = seeks_reason(source)
        self._from = self._place()
        self._id = self._column(source.id)
        self._at = self._column(source.changed_at or source.id)
        self.name = source.table or f"the query of {kind}"

    def find_reason(self, engine: Engine) -> None:
        """Read the column `reason` too, if it exists and the settings name none."""
        if not self._seeks_reason:
            return
        anything = select(text("*")).select_from(self._from).limit(0)
        with engine.connect() as connection:
            names = set(connection.execute(anything).keys())
        self._seeks_reason = False
        if "reason" in names:
            self._meanings["reason"] = "reason"
            self._from = self._place()
            self._id = self._column(self.source.id)
            self._at = self._column(self.source.changed_at or self.source.id)

    def changed(
        self,
        engine: Engine,
        place: RowPosition | None,
        behind: RowPosition | None,
        lag: timedelta,
    ) -> RowPage:
        """Return the next rows by `changed_at` that have existed for `lag` seconds.

        They follow `behind`, the last row of the previous page, else the stored
        position. A page without rows has no position: the stored one stays.
        """
        with engine.connect() as connection:
            now = self._now(connection)
            rows = self._rows(connection, behind or self._trusted(place, now))
        settled, unread, waits = self._judged(rows, now, lag)
        last = RowPosition(rows[-1][1], rows[-1][0]) if rows else None
        more = len(rows) == self._limit and not waits and last != behind
        page = self._page(settled, more, settled[-1][1] if settled else None)
        return replace(page, unread=unread, behind=last)

    def window(
        self,
        engine: Engine,
        place: RowPosition,
        behind: RowPosition | None,
        seconds: float,
        lag: timedelta,
    ) -> RowPage:
        """Return the next rows up to `seconds` before the position, and its own.

        The pages begin at the earliest row, then continue after `behind`. The last page
        has `is_past` if no later commit can add a row: by the database's clock the
        position is older than `seconds`.
        """
        start = earlier(place.at, seconds)
        with engine.connect() as connection:
            now = self._now(connection)
            if start is None or self._trusted(place, now) is None:
                return RowPage((), (), None, False, is_past=True)
            statement = self._select(behind)
            if behind is None:
                statement = statement.where(self._at >= bound(self._family, start))
            end = later(self._family, self._at, self._id, place)
            rows = list(connection.execute(statement.where(not_(end))).all())
        settled, _, waits = self._judged(rows, now, lag)
        last = RowPosition(rows[-1][1], rows[-1][0]) if rows else None
        more = len(rows) == self._limit and not waits and last != behind
        is_past = now - self._latest(place.at) > timedelta(seconds=seconds) + lag
        page = self._page(settled, more, None)
        return replace(page, behind=last, is_past=is_past and not waits)

    def unprocessed(self, engine: Engine, place: RowPosition | None) -> RowPage:
        """Return the next rows that are not marked as processed."""
        with engine.connect() as connection:
            rows = self._rows(connection, place)
        return self._page(rows, len(rows) == self._limit, None)

    def begin_list(self, engine: Engine) -> StockListRows:
        """Return the start time of a full list, and its repeated articles."""
        with engine.connect() as connection:
            now = self._now(connection)
            every = select(func.count()).select_from(self._from)
            rows = int(connection.execute(every).scalar_one())
            if "as_of" in self._meanings:
                return StockListRows(now, rows)
            names = {"id": self.source.id} | {
                name: self._meanings[name] for name in ("sku", "quantity")
            }
            columns = {name: self._column(each) for name, each in names.items()}
            return StockListRows(
                now, rows, repeated_in(connection, self._from, columns)
            )

    def whole(
        self, engine: Engine, place: RowPosition | None, listed: StockListRows
    ) -> RowPage:
        """Return the next rows of the full list, as of its start time."""
        with engine.connect() as connection:
            rows = self._rows(connection, place)
        dated = [(row[0], listed.at, *row[2:]) for row in rows]
        more = len(rows) == self._limit
        page = self._page(dated, more, None, rfc3339(listed.at))
        same_sku = self._rules.same_sku
        records = listed.each_once(page.ids, page.records, same_sku)
        return replace(page, records=records)

    def mark(self, engine: Engine, ids: Sequence[Any]) -> None:
        """Mark rows in the table as processed."""
        source = self.source
        into = table_of(source.table, {source.processed_at: 0, source.id: 0})
        processed, id_ = into.c[source.processed_at], into.c[source.id]
        marking = update(into).values({processed: func.current_timestamp()})
        marking = marking.where(processed.is_(None))
        plain = [{"row": each} for each in ids if not isinstance(each, Bytes)]
        with engine.begin() as connection:
            if plain:
                own = bindparam("row", type_=NullType())
                connection.execute(marking.where(id_ == own), plain)
            for each in ids:
                if isinstance(each, Bytes):
                    is_row = id_ == bound(self._family, each)
                    connection.execute(marking.where(is_row))

    def without_order(self, engine: Engine) -> list[Bad]:
        """Return rows that are never read because their position is unknown.

        An invalid time may also sort before all others, and so before our position.
        """
        missing = or_(self._at.is_(None), self._id.is_(None))
        statement = self._base().where(missing).limit(MOST_TOLD)
        with engine.connect() as connection:
            rows = connection.execute(statement).all()
            found = [self._unplaced(row) for row in rows]
            if self.source.changed_at:
                now = self._now(connection)
                first = connection.execute(self._select(None).limit(MOST_TOLD)).all()
                found += self._judged(first, now, timedelta())[1]
        return found

    def problem(self, engine: Engine) -> str:
        """Read one row; return what prevents reading, empty if nothing does."""
        with engine.connect() as connection:
            try:
                with connection.execute(self._base().limit(1)) as rows:
                    kind = rows.cursor.description[1][1]
                    rows.all()
                return self._ambiguity(connection, kind)
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise
                connection.rollback()
                return self._lack(connection) or words(error)

    def _ambiguity(self, connection: Connection, kind: Any) -> str:
        if not is_shown_in_summer_time(self._family, connection, kind):
            return ""
        return (
            f"{self.source.changed_at or self.source.id} is a TIMESTAMP, which is"
            " shown in the zone of the session, and there one hour in autumn occurs"
            " twice: add ?init_command=SET time_zone='%2B00:00' to url, and leave"
            " timezone out"
        )

    def _lack(self, connection: Connection) -> str:
        own = (self.source.id, self.source.changed_at, self.source.processed_at)
        names = [name for name in (*own, *self._meanings.values()) if name]
        return lack(connection, self.source.table, names) if self.source.table else ""

    def _base(self) -> Select[Any]:
        return select(*self._columns()).select_from(self._from)

    def _unplaced(self, row: Any) -> Bad:
        raw = to_json(self._values(row))
        empty = self.source.id if row[0] is None else self.source.changed_at
        return Bad(
            key=key_of("unplaced", self.kind, row[0], raw),
            raw=raw,
            reason=f"{empty} is empty, so the row is never read; fill it in",
            locator=f"{self.name} {shown(row[0])}",
        )

    def _place(self) -> FromClause:
        """Return the table with the columns that are read.

        Each column is qualified with its table: SQLite would read the name of an absent
        column as a text.
        """
        named = [self.source.id, self.source.changed_at, self.source.processed_at]
        names = sorted({*filter(None, named), *self._meanings.values()})
        if self.source.table:
            return table_of(self.source.table, names)
        # A colon in the query, as in '12:30', is not a parameter.
        query = text(_COLON.sub(r"\\:", self.source.query))
        return query.columns(*map(quoted_column, names)).subquery("source")

    def _column(self, name: str) -> Any:
        return self._from.c[name]

    def _columns(self) -> list[Any]:
        columns = [self._id, self._at, *map(self._column, self._meanings.values())]
        return [each.label(f"c{number}") for number, each in enumerate(columns)]

    def _select(self, place: RowPosition | None) -> Select[Any]:
        statement = self._base().where(self._id.is_not(None))
        if self.source.processed_at:
            processed = self._column(self.source.processed_at)
            statement = statement.where(processed.is_(None))
        if self.source.changed_at:
            statement = statement.where(self._at.is_not(None)).order_by(self._at)
        if place is not None and self.source.changed_at:
            statement = statement.where(later(self._family, self._at, self._id, place))
        elif place is not None:
            statement = statement.where(self._id > bound(self._family, place.id))
        return statement.order_by(self._id).limit(self._limit)

    def _rows(self, connection: Connection, place: RowPosition | None) -> list[Any]:
        return list(connection.execute(self._select(place)).all())

    def _now(self, connection: Connection) -> datetime:
        seconds = connection.execute(text(CLOCKS[self._family])).scalar_one()
        return datetime.fromtimestamp(float(seconds), UTC)

    def _trusted(self, place: RowPosition | None, now: datetime) -> RowPosition | None:
        """Return the stored position; the beginning if it lies in the future.

        Then the clock was set back, or the time is invalid, and later rows would sort
        before the position.
        """
        try:
            ahead = place is not None and self._latest(place.at) > now
        except Unusable:
            return None
        return None if ahead else place

    def _judged(
        self, rows: Sequence[Any], now: datetime, lag: timedelta
    ) -> tuple[list[Any], list[Bad], bool]:
        """Return the rows to read, those to report, and whether one must wait.

        Rows come in order, so none is read after one that waits. In the hour that comes
        twice in autumn, rows of the second hour mix with those of the first: they wait
        until both hours are over.
        """
        settled: list[Any] = []
        unread: list[Bad] = []
        waits = False
        for row in rows:
            if not waits and is_long_before(row[1], now - lag):
                settled.append(row)
                continue
            try:
                at = self._latest(row[1])
            except Unusable as error:
                unread.append(self._unread(row, f"{error}, so the row is not read"))
                continue
            if at > now + FAR_AHEAD:
                said = f"{self.source.changed_at} lies ahead: {shown(row[1])!r}"
                unread.append(self._unread(row, f"{said}, so the row waits until then"))
                continue
            waits = waits or at > now - lag
            if not waits:
                settled.append(row)
        return settled, unread, waits

    def _latest(self, at: Any) -> datetime:
        return latest(at, self._zone, self.source.changed_at)

    def _unread(self, row: Any, reason: str) -> Bad:
        raw = to_json(self._values(row))
        return Bad(
            key=key_of("unread", self.kind, row[0], row[1], raw),
            raw=raw,
            reason=f"{reason}; set it to the present time",
            locator=f"{self.name} {shown(row[0])}",
        )

    def _page(
        self, rows: Sequence[Any], more: bool, at: Any, read_at: str = ""
    ) -> RowPage:
        in_order, rules = bool(self.source.processed_at), self._rules
        how = (self._zone, read_at, rules, in_order, self._meanings)
        records = [
            record_of(
                self.kind,
                self._values(row),
                RowOrigin(self.name, row[0], row[1], *how),
            )
            for row in rows
        ]
        place = RowPosition(at, rows[-1][0]) if rows else None
        times = [row[1] for row in rows]
        return RowPage(records, [row[0] for row in rows], place, more, times=times)

    def _values(self, row: Any) -> Mapping[str, Any]:
        return dict(zip(self._meanings, row[2:], strict=True))
