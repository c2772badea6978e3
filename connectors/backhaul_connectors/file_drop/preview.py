"""Shows a file row by row, as the connector would import it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from backhaul_connectors.file_drop.bad_rows import column_names
from backhaul_connectors.file_drop.files import (
    FileCopy,
    FileNames,
    Fingerprint,
    TemporaryCopies,
)
from backhaul_connectors.file_drop.inspection import (
    InspectedFile,
    UnusableFile,
    count,
    read_whole,
)
from backhaul_connectors.file_drop.parsing import file_kinds
from backhaul_connectors.file_drop.proposal import propose
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import (
    Bad,
    Cancellation,
    CheckFailed,
    FilePreview,
    Fulfillment,
    PreviewedRow,
    StockAdjustment,
    StockLevel,
)
from backhaul_sdk.files import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from backhaul_connectors.file_drop.csv_reader import CsvRow, Position
    from backhaul_connectors.file_drop.layout import Layout
    from backhaul_connectors.file_drop.parsing import FileKind
    from backhaul_connectors.file_drop.table import Table
    from backhaul_sdk import PreviewRequest, Record


MOST_ROWS = 20_000
"""Rows of a file that are checked one by one."""
MOST_REFUSED = 20
"""Refused rows that are shown beyond the first rows."""
TIMES = " \N{MULTIPLICATION SIGN} "
JOINED = "the row is part of the record of another row"


async def preview(request: PreviewRequest) -> FilePreview:
    """Return what the connector would do with a file.

    Without options the settings are proposed. Raises CheckFailed if the file cannot be
    opened, or if its name does not match the settings.
    """
    try:
        with request.path.open("rb") as stream:
            return await _preview(request, stream)
    except OSError as error:
        raise CheckFailed(
            f"{request.path} cannot be opened: {error.strerror}"
        ) from error


async def _preview(request: PreviewRequest, stream: BinaryIO) -> FilePreview:
    status = os.fstat(stream.fileno())
    fingerprint = Fingerprint(status.st_size, status.st_mtime_ns)
    name = request.path.name
    if request.options is None:
        proposed = await in_thread(propose, name, stream)
        if not proposed.settings:
            return FilePreview(kind="", layout={}, held=proposed.problem)
        chosen: Mapping[str, Any] = proposed.settings
        notes = proposed.notes
    else:
        chosen, notes = request.options, ()
    settings = Settings.model_validate({"path": request.path.parent, **chosen})
    form = _form(settings, name)
    shown = await _read(FileCopy(name, form, fingerprint, stream), settings, request)
    section = chosen if request.options is None else {}
    return replace(shown, settings=section, notes=(*shown.notes, *notes))


def _form(settings: Settings, name: str) -> FileKind:
    kinds = file_kinds(settings)
    form = FileNames(kinds, settings.unfinished, settings.done_file).form_of(name)
    if form is None:
        patterns = ", ".join(f"{each.setting} = {each.pattern!r}" for each in kinds)
        raise CheckFailed(
            f"no pattern of the settings matches the name {name!r}: {patterns}. Rename"
            " the file, or change the pattern of its kind"
        )
    return form


async def _read(
    file: FileCopy, settings: Settings, request: PreviewRequest
) -> FilePreview:
    copies = TemporaryCopies(settings.copies)
    try:
        read = await read_whole(file, settings, copies, is_sure=True)
        if isinstance(read, UnusableFile):
            return FilePreview(kind=file.form.setting, layout={}, held=read.reason)
        return await _rows(read, settings, request)
    finally:
        await in_thread(copies.close)


async def _rows(
    read: InspectedFile, settings: Settings, request: PreviewRequest
) -> FilePreview:
    checked = await count(read, 0, settings, is_sure=True)
    held, noted = "", tuple[str, ...]()
    if isinstance(checked, UnusableFile):
        held = checked.reason
    else:
        noted = (*checked.notes, *(each.reason for each in checked.bad))
    tally = await in_thread(_tally, read.table, request.rows)
    return FilePreview(
        kind=read.table.file.form.setting,
        layout=_facts(read.table.layout, read.table.file.name),
        held=held,
        counts=tally.counts,
        rows=tally.rows,
        notes=(*noted, *tally.notes),
    )


class _Tally(NamedTuple):
    counts: Mapping[str, int]
    rows: list[PreviewedRow]
    notes: tuple[str, ...]


def _tally(table: Table, most: int) -> _Tally:
    """Return the first rows and the first refused ones, and how many rows there are."""
    counts: dict[str, int] = {}
    shown: list[PreviewedRow] = []
    refused = number = 0
    for number, row in enumerate(_each(table), 1):
        counts[row.state] = counts.get(row.state, 0) + 1
        is_refused = row.state == "refused"
        if number <= most or (is_refused and refused < MOST_REFUSED):
            shown.append(row)
            refused += is_refused and number > most
        if number == MOST_ROWS:
            note = f"only the first {MOST_ROWS:,} rows are checked here"
            return _Tally(counts, shown, (note,))
    return _Tally(counts, shown, ())


def _each(table: Table) -> Iterator[PreviewedRow]:
    position: Position = table.layout.start
    while True:
        with table.file.open() as stream:
            reader = table.layout.reader(stream, position)
            row = next(iter(reader), None)
        if row is None:
            return
        results, after = table.read(position, 1)
        found = _shown(table, row, results[0] if results else None)
        yield _with_place(found, row) if table.layout.edi else found
        position = after


def _with_place(found: PreviewedRow, row: CsvRow) -> PreviewedRow:
    """Return a row of an interchange with its place there."""
    return replace(found, values={"place": row.cells[0], **found.values})


def _shown(table: Table, row: CsvRow, result: Record | Bad | None) -> PreviewedRow:
    if result is None:
        if why := table.why_left_out(row):
            return PreviewedRow(line=row.line, state="left out", reason=why)
        return PreviewedRow(line=row.line, state="joined", reason=JOINED)
    if isinstance(result, Bad):
        values = _as_units({name: each.text for name, each in result.read.items()})
        return PreviewedRow(
            line=row.line, state="refused", values=values, reason=result.reason
        )
    question = result.question if isinstance(result, Fulfillment) else ""
    note = result.note if isinstance(result, StockLevel) else ""
    return PreviewedRow(
        line=row.line, state="used", values=_values(result), reason=question or note
    )


def _as_units(values: dict[str, str]) -> dict[str, str]:
    """Return the values with the SKU and quantity of a shipment as its units."""
    if "order" not in values or "sku" not in values:
        return values
    sku, quantity = values.pop("sku"), values.pop("quantity", "")
    return {**values, "units": f"{quantity}{TIMES}{sku}" if quantity or sku else ""}


def _values(record: Record) -> dict[str, str]:
    match record:
        case Fulfillment():
            lines = ", ".join(
                f"{line.quantity}{TIMES}{line.sku}" for line in record.lines
            )
            return {
                "order": record.order,
                "tracking_company": record.tracking_company or "",
                "tracking_number": record.tracking_number or "",
                "units": lines or "all open units",
                **({"shipped_at": record.shipped_at} if record.shipped_at else {}),
            }
        case Cancellation():
            restock = "yes" if record.restock else "no"
            return {"order": record.order, "restock": restock, "reason": record.reason}
        case StockAdjustment():
            change = f"{record.delta:+}"
            return {"sku": record.sku, "adjustment": change, "reason": record.reason}
        case StockLevel():
            quantity = str(record.quantity)
            return {"sku": record.sku, "quantity": quantity, "as_of": record.as_of}
    return {}


def _facts(layout: Layout, name: str) -> dict[str, str]:
    """Return what is known of the file, as it is printed."""
    if layout.edi is not None:
        return {
            "format": layout.edi.messages,
            "sender": layout.edi.partner[0],
            "recipient": layout.edi.own[0],
        }
    names = column_names(layout)
    columns = {
        meaning: names[place]
        for meaning, place in layout.places.items()
        if place < len(names)
    }
    facts: dict[str, Any] = {"format": _format(layout, name)}
    if facts["format"] == "CSV":
        facts |= {"delimiter": layout.delimiter, "encoding": layout.encoding}
    if layout.members is None:
        facts["header line"] = str(layout.start.line or "none")
        facts["columns"] = ", ".join(f"{m} = {c}" for m, c in columns.items())
    return facts


def _format(layout: Layout, name: str) -> str:
    if layout.members is not None:
        return "JSON"
    return name.rpartition(".")[2].upper() if layout.pads_rows else "CSV"
