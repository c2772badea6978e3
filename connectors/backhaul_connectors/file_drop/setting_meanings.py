"""Sentences that say what the settings of a file drop mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.edi_settings import edi_meanings
from backhaul_connectors.file_drop.location_settings import location_meanings
from backhaul_connectors.file_drop.presets import presets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul_connectors.file_drop.columns import RowFilter
    from backhaul_connectors.file_drop.settings import Settings

NONE_NEEDED = {
    "tracking_company": "no carrier is read from fulfillment files",
    "tracking_number": "no tracking number is read from fulfillment files, so parcels "
    "have none",
    "sku": "no SKU is read from fulfillment files, so each row is the whole order",
    "quantity": "no quantity is read from fulfillment files, so each row is one unit",
    "shipped_at": "no time of shipment is read from fulfillment files",
}
"""The meaning of an empty column name of fulfillments."""


def meanings(settings: Settings) -> list[str]:
    """Return a sentence for each setting whose name does not explain its effect."""
    return [
        *_preset(settings),
        *_absent_columns(settings),
        *_values(settings),
        *_filters("fulfillments", settings.fulfillment_rows),
        *_filters("cancellations", settings.cancellation_rows),
        *_filters("stock changes", settings.stock_delta_rows),
        *_filters("stock levels", settings.stock_level_rows),
        *_same_content(settings),
        *location_meanings(settings),
        *_shape(settings),
        *edi_meanings(settings.export_format if settings.exports else "", settings.edi),
    ]


def _preset(settings: Settings) -> Iterator[str]:
    if settings.preset:
        title = presets()[settings.preset].title
        yield f"the preset {settings.preset} is for files of {title}"


def _absent_columns(settings: Settings) -> Iterator[str]:
    for meaning, name in settings.fulfillment_columns.model_dump().items():
        if not name:
            yield NONE_NEEDED[meaning]


def _values(settings: Settings) -> Iterator[str]:
    kinds = {
        "fulfillments": settings.fulfillment_values,
        "cancellations": settings.cancellation_values,
        "stock changes": settings.stock_delta_values,
    }
    for kind, given in kinds.items():
        for meaning, value in given.model_dump().items():
            if value:
                name = meaning.replace("_", " ")
                yield f"the {name} of {kind} that name none is {value!r}"


def _filters(kind: str, rows: RowFilter) -> Iterator[str]:
    if rows.only:
        yield f"only rows of {kind} where {_where(rows.only, ' and ')} are taken"
    if rows.skip:
        yield f"rows of {kind} where {_where(rows.skip, ' or ')} are left out"


def _where(columns: Mapping[str, Sequence[str]], joined: str) -> str:
    said = (
        f"{name} is {' or '.join(map(repr, values))}"
        for name, values in columns.items()
    )
    return joined.join(said)


def _same_content(settings: Settings) -> Iterator[str]:
    if settings.key_columns or settings.same_content == "hold":
        return
    does = {"apply": "is applied as a second event", "ignore": "is passed over"}
    yield (
        "a file of stock changes whose content came under another name "
        f"{does[settings.same_content]}"
    )


def _shape(settings: Settings) -> Iterator[str]:
    if not settings.quote:
        yield "quotation marks in CSV files are plain text"
    if settings.header:
        yield f"CSV files do not name their columns: {', '.join(settings.header)}"
    if settings.header_line:
        yield f"the columns are named in line {settings.header_line} of a file"
    if settings.require_done_file:
        yield f"a file is read only when {settings.done_file} lies beside it"
