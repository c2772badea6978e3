"""Groups the rows of a shipment file by order and parcel into shipments.

A file may have a million rows, in any order. The pass that checks them writes a few
bytes of each row into a temporary database, and the pass that makes shipments asks the
database for the other rows of an order.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

from backhaul_connectors.file_drop.cells import key_of, same
from backhaul_connectors.file_drop.csv_reader import Position
from backhaul_sdk import Bad, Fulfillment, Line, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_connectors.file_drop.cells import CellOrigin
    from backhaul_sdk import Record

    ReadRow: TypeAlias = "Callable[[Position], PlacedRow | Bad | None]"


MOST_RAW = 20_000
"""Characters of one parcel's rows that are stored for an operator."""
MOST_ROWS = 5_000
"""Most rows of one order that are compared with each other."""
STEP_ROWS = 1_000
"""Rows that are written in one step."""
MOST_BESIDE = 500
"""Most keys of other rows in a shipment."""
_CACHE_KIB = 8_000
_ROWS = """
    SELECT n, offset, line, in_order, parcel, key, earlier_key, names_article FROM rows
    WHERE in_order IN (SELECT in_order FROM rows WHERE n BETWEEN ? AND ?)
      AND in_order NOT IN (SELECT in_order FROM crowded)
    ORDER BY in_order, n
"""
_REFUSED = """
    SELECT in_order FROM refused
    WHERE in_order IN (SELECT in_order FROM rows WHERE n BETWEEN ? AND ?)
"""
NO_ARTICLE = (
    "the row names no article, but other rows of this file name articles of order"
    " {order}. So it is unknown whether this row means all other articles. If yes,"
    " retry ships everything that is left of the order. If not, drop ships nothing"
)
SEVERAL_PARCELS = (
    "{count} parcels of this file each hold the whole order {order}, so it is"
    " unknown which articles are in which parcel. Name sku and quantity in each row"
    " and send the file again. Or retry one row to ship everything in that parcel,"
    " and discard the other rows"
)
CROWDED = (
    f"the file has more than {MOST_ROWS:,} rows of order {{order}}, which are too"
    " many for Backhaul to separate its parcels; split the order's rows into"
    " several files"
)


class ShipmentRow(Struct, frozen=True):
    """The content of a row: `line` is None if it names no article.

    `named` are the values of the key columns; they identify the row if one of them is
    not empty. All other rows are identified by their content.
    """

    order: str
    tracking_company: str | None
    tracking_number: str | None
    line: Line | None
    shipped_at: str | None
    named: tuple[str, ...] = ()

    def __call__(self, origin: CellOrigin) -> Fulfillment:
        """Return the shipment of this row alone."""
        return shipment_of([PlacedRow(self, origin)])

    @property
    def has_key(self) -> bool:
        return any(self.named)

    @property
    def same_order(self) -> str:
        return same(self.order).lstrip("#")

    @property
    def same_number(self) -> str:
        return same(self.tracking_number or "").replace(" ", "")

    def content(self) -> list[object]:
        """Return what identifies a row without key columns."""
        line = self.line
        return [
            self.same_order,
            same(self.tracking_company or ""),
            self.same_number,
            [] if line is None else [[same(line.sku), line.quantity]],
            self.shipped_at,
            *([list(self.named)] if self.named else []),
        ]

    def key(self, ordinal: int = 0) -> str:
        """Return the row's key; `ordinal` equal rows precede it in the file."""
        if self.has_key:
            return key_of("shipment", self.named)
        return numbered(key_of("fulfillment", self.content()), ordinal)

    def earlier_key(self, ordinal: int = 0) -> str:
        """Return the key that earlier versions gave the row; else an empty text.

        They counted equal rows once, and included key columns in the content.
        """
        return "" if ordinal else key_of("fulfillment", self.content())

    def parcel(self) -> list[object] | None:
        """Return the common identity of a parcel's rows; None for a single row."""
        names_article = self.line is not None
        if self.same_number:
            company = same(self.tracking_company or "")
            return [self.same_order, self.same_number, company, names_article]
        if self.has_key:
            return [self.same_order, list(self.named), names_article]
        return None


def numbered(key: str, ordinal: int) -> str:
    """Return the key of a row that `ordinal` equal rows precede."""
    return f"{key}#{ordinal}" if ordinal else key


class PlacedRow(Struct, frozen=True):
    """A row with its place; `ordinal` equal rows precede it in the file."""

    row: ShipmentRow
    origin: CellOrigin
    ordinal: int = 0


def shipment_of(
    rows: Sequence[PlacedRow], beside: Sequence[str] = (), question: str = ""
) -> Fulfillment:
    """Return the shipment of a parcel's rows.

    `beside` are the keys of the order's other rows in the file. A `question` is put to
    an operator before the shipment is sent.
    """
    first = rows[0].row
    parts = _parts(rows)
    lines = tuple(line for part in parts for line in part.lines)
    times = [placed.row.shipped_at for placed in rows if placed.row.shipped_at]
    return Fulfillment(
        key=_key([part.key for part in parts]),
        order=first.order,
        tracking_company=first.tracking_company,
        tracking_number=first.tracking_number,
        lines=lines,
        everything=not lines,
        shipped_at=min(times, default=None),
        parts=parts if len(parts) > 1 or parts[0].earlier_keys else (),
        beside=tuple(beside),
        by_content=not all(placed.row.has_key for placed in rows),
        question=question,
        locator=rows[0].origin.locator,
        raw=_raw(rows),
    )


def _parts(rows: Sequence[PlacedRow]) -> tuple[Part, ...]:
    """Return the parts, one for each key; rows without an article count once."""
    by_key: dict[str, list[PlacedRow]] = {}
    for placed in rows:
        ordinal = placed.ordinal if placed.row.line else 0
        by_key.setdefault(placed.row.key(ordinal), []).append(placed)
    return tuple(_part(key, group) for key, group in by_key.items())


def _part(key: str, rows: Sequence[PlacedRow]) -> Part:
    lines = tuple(placed.row.line for placed in rows if placed.row.line is not None)
    earlier = tuple(placed.row.earlier_key(placed.ordinal) for placed in rows)
    is_new = any(each != key for each in earlier if each)
    return Part(key=key, lines=lines, earlier_keys=earlier if is_new else ())


def _key(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else key_of("parcel", sorted(keys))


def _raw(rows: Sequence[PlacedRow]) -> str:
    """Return the rows after their header, which each origin repeats."""
    raws = [placed.origin.raw for placed in rows]
    if len(raws) == 1:
        return raws[0]
    header = len(rows[0].origin.header) + 1
    return "\n".join([raws[0], *(raw[header:] for raw in raws[1:])])[:MOST_RAW]


class IndexedRow(NamedTuple):
    """A row: its number, its position, and digests of its order and parcel.

    `earlier_key` is empty unless earlier versions gave the row another key.
    """

    number: int
    offset: int
    line: int
    in_order: bytes
    parcel: bytes
    key: str
    earlier_key: str
    names_article: bool

    @property
    def position(self) -> Position:
        """The position of a reader that reads this row next."""
        return Position(self.offset, self.line, self.number - 1)


class Siblings(NamedTuple):
    """A row and its relation to the other rows of its order in the file.

    `parcel` are the rows of its shipment, including itself, each with the number of
    equal rows before it. `beside` are the keys of the others. The file may name
    articles of the order, and several parcels that contain all of it.
    """

    parcel: tuple[tuple[IndexedRow, int], ...]
    beside: tuple[str, ...]
    names_articles: bool
    whole_parcels: int


class OrderIndex:
    """The rows of one file. Used by one thread at a time; `close` it."""

    def __init__(self) -> None:
        self.begin = 0
        """The number of rows submitted before this reading of the file."""
        self._is_settled = False
        self._refused: list[tuple[bytes]] = []
        self._added: list[tuple[object, ...]] = []
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute(
            "CREATE TABLE rows (n INTEGER PRIMARY KEY, offset INTEGER, line INTEGER,"
            " in_order BLOB, parcel BLOB, key TEXT, earlier_key TEXT,"
            " names_article INTEGER)"
        )
        self._db.execute("CREATE TABLE refused (in_order BLOB PRIMARY KEY)")

    def add(self, position: Position, row: ShipmentRow) -> None:
        """Add a row that a reader at this position reads next."""
        self._added.append(_entry(position, row))
        if len(self._added) >= STEP_ROWS:
            self._write()

    def add_refused(self, order: str) -> None:
        """Add an order with a row that names an article and is unusable."""
        self._refused.append((_digest(same(order).lstrip("#")),))
        if len(self._refused) >= STEP_ROWS:
            self._write()

    def close(self) -> None:
        self._db.close()

    def _write(self) -> None:
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._added
        )
        self._db.executemany("INSERT OR IGNORE INTO refused VALUES (?)", self._refused)
        self._db.execute("COMMIT")
        self._added.clear()
        self._refused.clear()

    def siblings(self, first: int, last: int) -> dict[int, Siblings]:
        """Return the siblings of the rows with these numbers.

        A row of an order with more than MOST_ROWS rows is missing.
        """
        self._build_index()
        found = [IndexedRow(*row) for row in self._db.execute(_ROWS, (first, last))]
        refused = {order for (order,) in self._db.execute(_REFUSED, (first, last))}
        result: dict[int, Siblings] = {}
        for in_order, rows in groupby(found, key=lambda entry: entry.in_order):
            order = list(rows)
            related = _Order(order, self.begin, is_refused=in_order in refused)
            result |= {
                entry.number: related.siblings(entry)
                for entry in order
                if first <= entry.number <= last
            }
        return result

    def _build_index(self) -> None:
        """Index the rows by their orders, once all are there."""
        self._write()
        if self._is_settled:
            return
        self._db.execute("CREATE INDEX by_order ON rows(in_order)")
        self._db.execute(
            "CREATE TABLE crowded AS SELECT in_order FROM rows GROUP BY in_order"
            " HAVING count(*) > ?",
            (MOST_ROWS,),
        )
        self._is_settled = True


def _entry(position: Position, row: ShipmentRow) -> tuple[object, ...]:
    parcel = row.parcel()
    return (
        position.row + 1,
        position.offset,
        position.line,
        _digest(row.same_order),
        _digest(position.row if parcel is None else parcel),
        row.key(),
        row.earlier_key() if row.has_key else "",
        row.line is not None,
    )


def _digest(content: object) -> bytes:
    return blake2b(repr(content).encode(errors="replace"), digest_size=12).digest()


class _Order:
    """All rows of one order; the first `begin` rows of the file were submitted."""

    def __init__(
        self, rows: Sequence[IndexedRow], begin: int, *, is_refused: bool
    ) -> None:
        seen = Counter[str]()
        self._rows: list[tuple[IndexedRow, int]] = []
        for entry in rows:
            is_counted = entry.names_article and not entry.earlier_key
            self._rows.append((entry, seen[entry.key] if is_counted else 0))
            seen[entry.key] += 1
        self._begin = begin
        names_article = any(entry.names_article for entry in rows)
        self._names_articles = is_refused or names_article
        whole = {entry.parcel for entry in rows if not entry.names_article}
        self._whole_parcels = len(whole)

    def siblings(self, own: IndexedRow) -> Siblings:
        """Return a row's relation to the others."""
        parcel, beside = list[tuple[IndexedRow, int]](), dict[str, None]()
        for entry, ordinal in self._rows:
            if entry.parcel == own.parcel and entry.number > self._begin:
                parcel.append((entry, ordinal))
            elif len(beside) < MOST_BESIDE:
                beside[numbered(entry.key, ordinal)] = None
                beside |= {entry.earlier_key: None} if entry.earlier_key else {}
        return Siblings(
            tuple(parcel), tuple(beside), self._names_articles, self._whole_parcels
        )


def shipments(
    rows: Sequence[tuple[int, PlacedRow | Bad | None]],
    orders: OrderIndex,
    read_row: ReadRow,
) -> list[Record | Bad]:
    """Return the shipments that begin in these rows, each with its number.

    A None in `rows` is a filtered row. `read_row` reads the row at a position, for
    parcels whose rows are apart.
    """
    if not rows:
        return []
    related = orders.siblings(rows[0][0], rows[-1][0])
    known = dict(rows)
    made: list[Record | Bad] = []
    for number, row in rows:
        if row is None:
            continue
        if isinstance(row, Bad):
            made.append(row)
        elif number not in related:
            made.append(_crowded(row))
        elif related[number].parcel[0][0].number == number:
            made.append(_shipment(related[number], known, read_row))
    return made


def _shipment(
    siblings: Siblings, known: Mapping[int, PlacedRow | Bad | None], read_row: ReadRow
) -> Record | Bad:
    rows: list[PlacedRow] = []
    for entry, ordinal in siblings.parcel:
        row = known.get(entry.number) or read_row(entry.position)
        if isinstance(row, Bad):
            return row
        if row is not None:
            rows.append(PlacedRow(row.row, row.origin, ordinal))
    return shipment_of(rows, siblings.beside, _question(rows[0], siblings))


def _question(placed: PlacedRow, siblings: Siblings) -> str:
    """Return the question to an operator before a whole order is shipped."""
    order = placed.row.order
    if placed.row.line is not None:
        return ""
    if siblings.names_articles:
        return NO_ARTICLE.format(order=order)
    if siblings.whole_parcels > 1:
        return SEVERAL_PARCELS.format(count=siblings.whole_parcels, order=order)
    return ""


def _crowded(placed: PlacedRow) -> Bad:
    origin = placed.origin
    return Bad(
        key=key_of("crowded", [origin.file, origin.row]),
        raw=origin.raw,
        reason=CROWDED.format(order=placed.row.order),
        locator=origin.locator,
    )
