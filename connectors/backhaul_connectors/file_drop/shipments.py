"""Groups the rows of a shipment file by order and parcel into shipments.

A file may have a million rows, in any order, and memory must not grow with it. The pass
that checks the rows writes a few bytes of each to a temporary file and sorts them by
order. The pass that makes shipments finds the other rows of an order there.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter, defaultdict
from hashlib import blake2b
from heapq import merge
from itertools import groupby, islice, pairwise
from struct import Struct as Packing
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias

from msgspec import Struct

from backhaul_connectors.file_drop.csv_reader import Position, key_of, same
from backhaul_sdk import Bad, Fulfillment, Line, Part

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Generator,
        Iterator,
        Mapping,
        Sequence,
    )

    from backhaul_connectors.file_drop.csv_reader import CellOrigin
    from backhaul_sdk import Record

    ReadRow: TypeAlias = "Callable[[Position], PlacedRow | Bad | None]"


MOST_RAW = 20_000
"""Characters of one parcel's rows that are stored for an operator."""
MOST_ROWS = 5_000
"""Most rows of one order that are compared with each other."""
RUN_ROWS = 20_000
"""Rows that are sorted in memory; the sorted runs are merged from their file."""
BLOCK_ROWS = 64
"""Rows that are read at once; the first order of each block is in memory."""
STEP_ROWS = 1_000
"""Rows that are merged in one step."""
MOST_BESIDE = 500
"""Most keys of other rows in a shipment."""
KEYED, BY_CONTENT = "shipment", "fulfillment"
"""The kinds of keys: of key columns, and of a row's whole content."""
DIGEST_BYTES = 12
_PACKING = Packing(f">{DIGEST_BYTES}sIQI{DIGEST_BYTES}s??20s20s")
"""The fields of IndexedRow. Its bytes sort by order, then by row number."""
NO_ARTICLE = (
    "the row has no SKU, but other rows of this file have SKUs of order {order}. So"
    " Backhaul does not know whether this row means all other lines of the order."
    " If yes, retry the row: this ships everything that is left of the order. If"
    " not, drop the row: this ships nothing"
)
SEVERAL_PARCELS = (
    "{count} parcels of this file each contain the whole order {order}, so Backhaul"
    " does not know which SKUs are in which parcel. Write sku and quantity into"
    " each row, and send the file again. Or retry one row to ship everything in its"
    " parcel, and discard the other rows"
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
            return key_of(KEYED, self.named)
        return numbered(key_of(BY_CONTENT, self.content()), ordinal)

    def earlier_key(self, ordinal: int = 0) -> str:
        """Return the key that earlier versions gave the row; else an empty text.

        They counted equal rows once, and included key columns in the content.
        """
        return "" if ordinal else key_of(BY_CONTENT, self.content())

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
    """A row: digests of its order and parcel, its number, and its position.

    `key_digest` and `content_digest` are the digests of its two keys. Number 0 is not a
    row: it says that the order has an unusable row that names an article.
    """

    in_order: bytes
    number: int
    offset: int = 0
    line: int = 0
    parcel: bytes = b""
    names_article: bool = True
    has_key: bool = False
    key_digest: bytes = b""
    content_digest: bytes = b""

    @property
    def position(self) -> Position:
        """The position of a reader that reads this row next."""
        return Position(self.offset, self.line, self.number - 1)

    @property
    def key(self) -> str:
        """The row's key, as of a row that no equal row precedes."""
        kind = KEYED if self.has_key else BY_CONTENT
        return f"{kind}:{self.key_digest.hex()}"

    @property
    def earlier_key(self) -> str:
        """The key that earlier versions gave the row; empty if it is the same."""
        return f"{BY_CONTENT}:{self.content_digest.hex()}" if self.has_key else ""


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
    """The rows of one file by their orders, in two empty files that it is given.

    First every row is added, then `sort` runs, and then `siblings` answers. Used by one
    thread at a time.
    """

    def __init__(self, runs: BinaryIO, merged: BinaryIO) -> None:
        self.begin = 0
        """The number of rows submitted before this reading of the file."""
        self._run: list[bytes] = []
        self._runs, self._run_ends = runs, [0]
        self._merged, self._merged_rows = merged, 0
        self._block_orders: list[bytes] = []

    def add(self, position: Position, row: ShipmentRow) -> None:
        """Add a row that a reader at this position reads next."""
        self._add(_indexed(position, row))

    def add_refused(self, order: str) -> None:
        """Add an order with a row that names an article and is unusable."""
        self._add(IndexedRow(_digest(same(order).lstrip("#")), 0))

    def _add(self, row: IndexedRow) -> None:
        self._run.append(_PACKING.pack(*row))
        if len(self._run) >= RUN_ROWS:
            self._write_run()

    def _write_run(self) -> None:
        self._run.sort()
        self._runs.writelines(self._run)
        self._runs.flush()
        self._run_ends.append(self._run_ends[-1] + len(self._run))
        self._run.clear()

    def sort(self) -> Generator[None]:
        """Sort the rows by their orders, in short steps."""
        self._write_run()
        runs = [_read(self._runs, *places) for places in pairwise(self._run_ends)]
        # An order is marked as refused once, however many rows of it are unusable.
        for packed, _ in groupby(merge(*runs)):
            if self._merged_rows % BLOCK_ROWS == 0:
                self._block_orders.append(packed[:DIGEST_BYTES])
            self._merged.write(packed)
            self._merged_rows += 1
            if self._merged_rows % STEP_ROWS == 0:
                yield
        self._merged.flush()

    def siblings(self, rows: Sequence[tuple[int, PlacedRow]]) -> dict[int, Siblings]:
        """Return the siblings of numbered rows, by their numbers.

        A row of an order with more than MOST_ROWS rows is missing.
        """
        by_order = defaultdict[bytes, set[int]](set)
        for number, placed in rows:
            by_order[_digest(placed.row.same_order)].add(number)
        result: dict[int, Siblings] = {}
        for in_order, numbers in by_order.items():
            found = list(islice(self._rows_of(in_order), MOST_ROWS + 2))
            order = _Order(found, self.begin)
            if not order.is_crowded:
                result |= order.siblings(numbers)
        return result

    def _rows_of(self, in_order: bytes) -> Iterator[IndexedRow]:
        """Yield the rows of an order by their numbers."""
        block = max(bisect_left(self._block_orders, in_order) - 1, 0)
        for packed in _read(self._merged, block * BLOCK_ROWS, self._merged_rows):
            if packed.startswith(in_order):
                yield IndexedRow._make(_PACKING.unpack(packed))
            elif packed > in_order:
                return


def _read(stream: BinaryIO, first: int, end: int) -> Iterator[bytes]:
    """Yield the packed rows from number `first` to before number `end`."""
    size = _PACKING.size
    for row in range(first, end, BLOCK_ROWS):
        length = min(BLOCK_ROWS, end - row) * size
        block = os.pread(stream.fileno(), length, row * size)
        for at in range(0, length, size):
            yield block[at : at + size]


def _indexed(position: Position, row: ShipmentRow) -> IndexedRow:
    parcel, earlier = row.parcel(), row.earlier_key() if row.has_key else ""
    return IndexedRow(
        in_order=_digest(row.same_order),
        number=position.row + 1,
        offset=position.offset,
        line=position.line,
        parcel=_digest(position.row if parcel is None else parcel),
        names_article=row.line is not None,
        has_key=row.has_key,
        key_digest=_digest_in(row.key()),
        content_digest=_digest_in(earlier),
    )


def _digest_in(key: str) -> bytes:
    return bytes.fromhex(key.partition(":")[2])


def _digest(content: object) -> bytes:
    text = repr(content).encode(errors="replace")
    return blake2b(text, digest_size=DIGEST_BYTES).digest()


class _Order:
    """All rows of one order; the first `begin` rows of the file were submitted."""

    def __init__(self, found: Sequence[IndexedRow], begin: int) -> None:
        self._names_articles = any(row.names_article for row in found)
        rows = [row for row in found if row.number != 0]
        self.is_crowded = len(rows) > MOST_ROWS
        seen = Counter[str]()
        self._rows: list[tuple[IndexedRow, int]] = []
        self._keys: list[tuple[str, ...]] = []
        for entry in rows:
            key, earlier = entry.key, entry.earlier_key
            is_counted = entry.names_article and not entry.has_key
            ordinal = seen[key] if is_counted else 0
            self._rows.append((entry, ordinal))
            self._keys.append(tuple(filter(None, (numbered(key, ordinal), earlier))))
            seen[key] += 1
        self._begin = begin
        whole = {entry.parcel for entry in rows if not entry.names_article}
        self._whole_parcels = len(whole)

    def siblings(self, numbers: Collection[int]) -> dict[int, Siblings]:
        """Return the siblings of the order's rows with these numbers."""
        entries = (entry for entry, _ in self._rows if entry.number in numbers)
        return {entry.number: self._siblings_of(entry) for entry in entries}

    def _siblings_of(self, own: IndexedRow) -> Siblings:
        parcel, beside = list[tuple[IndexedRow, int]](), dict[str, None]()
        for row, keys in zip(self._rows, self._keys, strict=True):
            entry, _ = row
            if entry.parcel == own.parcel and entry.number > self._begin:
                parcel.append(row)
            elif len(beside) < MOST_BESIDE:
                beside |= dict.fromkeys(keys)
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
    placed = [(number, row) for number, row in rows if isinstance(row, PlacedRow)]
    related = orders.siblings(placed)
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
