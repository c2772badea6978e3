"""Files that the connector writes: exports of changes, and rejected rows."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import re
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from backhaul_connectors.file_drop.columns import folded
from backhaul_connectors.file_drop.csv_reader import (
    CsvRow,
    Position,
    RowReader,
    first_row,
    sniff_delimiter,
)
from backhaul_connectors.file_drop.files import EXPORTED, REJECTED
from backhaul_sdk import (
    Absent,
    Applied,
    CheckFailed,
    Found,
    NotSent,
    Rejected,
    Uncertain,
    Unknown,
)
from backhaul_sdk.fields import Unusable
from backhaul_sdk.files import formula_safe, in_thread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from backhaul_connectors.file_drop.folder import DropFolder, ExportFolder
    from backhaul_sdk import Change, Rejection
    from backhaul_sdk.contract import LookedUp, Pushed


_ORDER = {
    "order": "name",
    "order_id": "id",
    "placed_at": "placedAt",
    "status": "status",
    "payment": "financialStatus",
    "fulfillment": "fulfillmentStatus",
    "currency": "currency",
    "total": "totals.total",
    "customer": "customer.name",
    "email": "customer.email",
    "ship_to": "shippingAddress.name",
    "phone": "shippingAddress.phone",
    "address1": "shippingAddress.address1",
    "address2": "shippingAddress.address2",
    "zip": "shippingAddress.zip",
    "city": "shippingAddress.city",
    "country": "shippingAddress.country",
    "sku": "items.sku",
    "title": "items.title",
    "quantity": "items.quantity",
    "unit_price": "items.unitPrice",
}
_PRODUCT = {
    "product_id": "id",
    "title": "title",
    "status": "status",
    "variant_id": "variants.id",
    "sku": "variants.sku",
    "price": "variants.price",
    "stock": "variants.stock",
}
_STOCK = {
    "sku": "sku",
    "stock": "stock",
    "product_id": "productId",
    "variant_id": "variantId",
}
_CUSTOMER = {"customer_id": "id", "name": "name", "email": "email", "phone": "phone"}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "order.placed": _ORDER,
    "order.updated": _ORDER,
    "order.cancelled": _ORDER,
    "product.updated": _PRODUCT,
    "product.deleted": _PRODUCT,
    "stock.changed": _STOCK,
    "customer.updated": _CUSTOMER,
}
LISTS = ("items", "variants")
"""Lists whose elements become one row each."""

_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_UNUSUAL = re.compile(r"[^A-Za-z0-9]+")


def file_name(change: Change, ending: str) -> str:
    """Return the file name of a change: always the same, and sorted by time."""
    moment = _UNUSUAL.sub("", change.occurred_at)[:32]
    object_id = _UNUSUAL.sub("_", change.object_id)[:64]
    mark = hashlib.sha256(change.id.encode(errors="replace")).hexdigest()[:16]
    return f"{moment}-{change.topic}-{object_id}-{mark}.{ending}"


def content_of(change: Change, ending: str) -> bytes:
    """Return the file: JSON has the whole document, CSV the columns of its topic."""
    return _as_json(change) if ending == "jsonl" else _as_csv(change)


def _as_json(change: Change) -> bytes:
    said = {
        "id": change.id,
        "topic": change.topic,
        "occurredAt": change.occurred_at,
        "store": change.store,
        "document": change.document,
    }
    return f"{json.dumps(said, ensure_ascii=True)}\n".encode()


def _as_csv(change: Change) -> bytes:
    """Return CSV with the byte-order mark that spreadsheets need for UTF-8."""
    columns = COLUMNS[change.topic]
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["topic", "occurred_at", *columns])
    for row in _rows(change.document):
        cells = (_at(row, path) for path in columns.values())
        writer.writerow([change.topic, change.occurred_at, *map(cell_text, cells)])
    return out.getvalue().encode("utf-8-sig", "replace")


def _rows(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the document once for each element of its list, or once without a list."""
    name = next((each for each in LISTS if document.get(each)), None)
    elements = document[name] if name else ()
    if not isinstance(elements, list | tuple) or name is None or not elements:
        yield {key: value for key, value in document.items() if key not in LISTS}
        return
    for element in elements:
        yield {**document, name: element}


def _at(document: Mapping[str, Any], path: str) -> object:
    found: Any = document
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def cell_text(value: object) -> str:
    """Return a cell that no spreadsheet runs as a formula; numbers stay numbers."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return (
            json.dumps(value) if isinstance(value, bool | list | dict) else str(value)
        )
    is_formula = value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula and not _NUMBER.fullmatch(value) else value


class ExportWriter(Protocol):
    """Writes changes as files: `topics` are those that it can write.

    A file that `is_numbered` differs each time that it is written.
    """

    @property
    def is_numbered(self) -> bool: ...

    @property
    def topics(self) -> frozenset[str]: ...

    @property
    def ending(self) -> str: ...

    async def content(self, change: Change) -> bytes:
        """Return the file of a change.

        Raises Unusable if it can never be written, and OSError if not now.
        """
        ...


class TableExports:
    """Writes changes as CSV, or as JSON lines."""

    topics = frozenset(COLUMNS)
    is_numbered = False

    def __init__(self, ending: str) -> None:
        self.ending = ending

    async def content(self, change: Change) -> bytes:
        return content_of(change, self.ending)


class Outbox:
    """The folder `folder` from which the back office takes export files.

    A change is delivered when its unfinished file gets its final name. Before that a
    copy goes to `exported/`, so that a file that was taken away differs from a file
    that was never written.
    """

    def __init__(self, place: ExportFolder, folder: str, writer: ExportWriter) -> None:
        self._place = place
        self._folder = folder
        self._writer = writer

    async def push(self, change: Change) -> Pushed:
        name = file_name(change, self._writer.ending)
        try:
            content = await self._content(change, name)
        except Unusable as error:
            return Rejected(f"the file of {change.object_id} was not written: {error}")
        except OSError as error:
            return NotSent(f"{name} could not be written: {error}")
        except self._place.failures as error:
            return NotSent(f"{name} could not be written: {error}")
        try:
            await self._place.put(self._folder, name, content)
            await self._place.write(EXPORTED, name, content)
        except self._place.failures as error:
            return NotSent(f"{name} could not be written: {error}")
        try:
            await self._place.publish(self._folder, name)
        except self._place.failures as error:
            return Uncertain(f"it is unknown whether {name} was renamed: {error}")
        return Applied(name)

    async def _content(self, change: Change, name: str) -> bytes:
        """Return the content of a file.

        A numbered file that was begun before keeps its number.
        """
        if self._writer.is_numbered:
            before = await self._place.read(EXPORTED, name)
            if before is not None:
                return before
        return await self._writer.content(change)

    async def lookup(self, change: Change) -> LookedUp:
        name = file_name(change, self._writer.ending)
        try:
            published = await self._place.was_published(self._folder, name)
            is_out = await self._place.exists(EXPORTED, name)
        except self._place.failures as error:
            raise CheckFailed(
                f"the folder of the output files cannot be read: {error}"
            ) from None
        if published is None:
            return Unknown(
                f"{name} is not in {self._folder}: it was never written, or the back"
                " office took it at once; ask the back office"
            )
        return Found(name) if published and is_out else Absent()


MARK = "rejected_row"
REASONS = ("reason", "rejection_reason")
"""Names of the added column: the second if the file has its own `reason`."""

_LOCATOR = re.compile(r"(?P<name>.+):(?P<line>\d+)", re.DOTALL)


class Sheet(Struct, frozen=True):
    """What a rejected file holds: rows by column, each named by its mark."""

    delimiter: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, str]]


class RejectedRows:
    """Writes files of rejected rows; one writer at a time, as each adds rows."""

    def __init__(self, place: DropFolder, known_columns: Iterable[str]) -> None:
        self._place = place
        self._known = frozenset(known_columns)
        self._lock = asyncio.Lock()

    async def write(self, rejections: Sequence[Rejection]) -> None:
        """Add the rows to the files of rejected rows, each row once.

        A file that was held as a whole has its reason beside it instead.
        """
        by_file: dict[str, list[Rejection]] = defaultdict(list)
        for rejection in rejections:
            if found := _LOCATOR.fullmatch(rejection.locator):
                # The name comes from the database: it must not lead to another folder.
                by_file[PurePath(found["name"]).stem].append(rejection)
        async with self._lock:
            for stem, group in by_file.items():
                await self._add(f"{stem}.rejected.csv", group)

    async def _add(self, name: str, rejections: Sequence[Rejection]) -> None:
        present = await self._place.read(REJECTED, name)
        content = await in_thread(added, present, rejections, self._known)
        if content is not None:
            await self._place.write(REJECTED, name, content)


def added(
    present: bytes | None, rejections: Sequence[Rejection], known: Collection[str]
) -> bytes | None:
    """Return the file of rejected rows with these rows; None if it has them all."""
    incoming = [sheet_of(rejection, known) for rejection in rejections]
    before = [] if present is None else [read_sheet(present, known)]
    merged = merge([*before, *incoming])
    if before and not merged.rows.keys() > before[0].rows.keys():
        return None
    return to_csv(merged)


def sheet_of(rejection: Rejection, known: Collection[str]) -> Sheet:
    """Return the rejected row, or the rows of one parcel, under their columns.

    `raw` is the header and the original rows. A row that cannot be split goes into the
    first column.
    """
    delimiter, header, rows = _split(rejection.raw, known)
    columns = _distinct(header.cells)
    cells = [row.cells for row in rows]
    if any(_is_odd(row, len(columns)) for row in rows):
        cells = [(rejection.raw[len(header.text) + 1 :],)]
    reason = next(name for name in REASONS if name not in columns)
    marks = [_mark(rejection, number) for number in range(len(cells))]
    rejected = {
        mark: dict(zip(columns, row, strict=False))
        | {reason: rejection.reason, MARK: mark}
        for mark, row in zip(marks, cells, strict=True)
    }
    return Sheet(delimiter, (*columns, reason, MARK), rejected)


def _is_odd(row: CsvRow, width: int) -> bool:
    return bool(row.problem) or any(map(str.strip, row.cells[width:]))


def _split(raw: str, known: Collection[str]) -> tuple[str, CsvRow, list[CsvRow]]:
    stream = io.BytesIO(raw.encode("utf-8"))
    delimiter = sniff_delimiter(stream, "utf-8", known)
    nothing = CsvRow(1, "")
    header, start = first_row(stream, "utf-8", delimiter) or (nothing, Position())
    rows = list(RowReader(stream, "utf-8", delimiter, start))
    return delimiter, header, rows or [nothing]


def _distinct(cells: Sequence[str]) -> tuple[str, ...]:
    """Return column names of which none is empty, twice there, or our mark."""
    names: list[str] = []
    for number, cell in enumerate(cells or ("row",), 1):
        name = cell.strip()
        unusual = not name or name in names or name in (MARK, REASONS[-1])
        names.append(f"{name or 'column'} ({number})" if unusual else name)
    return tuple(names)


def _mark(rejection: Rejection, number: int) -> str:
    """Return what names the row for good: its line, and its key in short.

    `number` rows of the same parcel stand before it.
    """
    line = rejection.locator.rpartition(":")[2]
    key = f"{rejection.key} {number}" if number else rejection.key
    return f"{line}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def read_sheet(content: bytes, known: Collection[str]) -> Sheet:
    """Read a file of rejected rows, even if a person saved it in another form."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
    stream = io.BytesIO(text.encode("utf-8"))
    delimiter = sniff_delimiter(stream, "utf-8", {*known, folded(MARK)})
    header, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    sheet = Sheet(delimiter, tuple(header), {})
    for number, cells in enumerate(rows):
        values = dict(zip(header, cells, strict=False))
        sheet.rows[values.get(MARK) or f"row {number}"] = values
    return sheet


def merge(sheets: Sequence[Sheet]) -> Sheet:
    """Return all rows of all sheets; our own columns stay at the end."""
    columns = dict.fromkeys(name for sheet in sheets for name in sheet.columns)
    reason = REASONS[-1] if REASONS[-1] in columns else REASONS[0]
    own = (reason, MARK)
    rows: dict[str, dict[str, str]] = {}
    for sheet in sheets:
        for mark, values in sheet.rows.items():
            rows.setdefault(mark, values)
    original = (name for name in columns if name not in own)
    return Sheet(sheets[0].delimiter, (*original, *own), rows)


def to_csv(sheet: Sheet) -> bytes:
    """Return CSV with the byte-order mark that spreadsheets need for UTF-8."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=sheet.delimiter)
    writer.writerow(map(formula_safe, sheet.columns))
    for row in sheet.rows.values():
        writer.writerow(formula_safe(row.get(name, "")) for name in sheet.columns)
    return out.getvalue().encode("utf-8-sig")
