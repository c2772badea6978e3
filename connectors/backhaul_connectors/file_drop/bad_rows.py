"""Makes the bad record of a row that cannot be used, with its values as they were read.

An operator then edits the values in place.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.csv_reader import (
    FRACTION_MARK,
    ROUNDED_MARK,
    key_of,
)
from backhaul_sdk import Bad, ReadValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_connectors.file_drop.csv_reader import CellOrigin, CsvRow
    from backhaul_connectors.file_drop.layout import Layout
    from backhaul_connectors.file_drop.parsing import FileKind
    from backhaul_sdk import RecordKind
    from backhaul_sdk.fields import Unusable

_KINDS: Mapping[str, RecordKind] = {
    "fulfillment": "fulfill",
    "cancellation": "cancel",
    "stock delta": "adjust",
    "stock level": "level",
}
_FIELDS: Mapping[str, str] = {"adjustment": "delta"}
"""The fields of records that have another name than their column."""
_MARKS = FRACTION_MARK + ROUNDED_MARK


def bad_row(
    form: FileKind, layout: Layout, row: CsvRow, origin: CellOrigin, error: Unusable
) -> Bad:
    """Return the bad record of a row."""
    return Bad(
        # By place: a row that is still wrong in the next file is reported again.
        key=key_of("bad", [origin.file.partition(" ")[0], origin.row]),
        raw=origin.raw,
        reason=str(error),
        locator=origin.locator,
        kind=_KINDS[form.kind],
        read=_values(form, layout, row),
    )


def _values(form: FileKind, layout: Layout, row: CsvRow) -> Mapping[str, ReadValue]:
    """Return the cells by field; none if it is not certain where each cell belongs."""
    if row.problem or (len(row.cells) != layout.width and not layout.pads_rows):
        return {}
    names = column_names(layout)
    read: dict[str, ReadValue] = {}
    for meaning, place in layout.places.items():
        if meaning.startswith("key "):
            continue
        cell = row.cells[place] if place < len(row.cells) else ""
        text = cell.strip(_MARKS).strip() or form.values.get(meaning, "")
        name = names[place] if place < len(names) else ""
        read[_FIELDS.get(meaning, meaning)] = ReadValue(text, name)
    return read


def column_names(layout: Layout) -> list[str]:
    """Return the names of the columns as the file writes them."""
    # The header of lines of JSON is written with commas.
    sign = "," if layout.members is not None else layout.delimiter
    quote = layout.quote or None
    try:
        rows = csv.reader([layout.header], delimiter=sign or ",", quotechar=quote)
        return [name.strip() for name in next(rows, [])]
    except (csv.Error, TypeError):
        return []
