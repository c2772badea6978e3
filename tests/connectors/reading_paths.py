"""One field of a record through each connector that reads it."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from backhaul_connectors.courier.parsing import event_of, records_of
from backhaul_connectors.courier.settings import Settings as CourierSettings
from backhaul_connectors.file_drop.csv_reader import CellOrigin, number_text
from backhaul_connectors.file_drop.json_reader import JsonRowReader
from backhaul_connectors.file_drop.parsing import file_kinds
from backhaul_connectors.file_drop.settings import Settings as FileSettings
from backhaul_connectors.http_json.settings import List
from backhaul_connectors.scanner.actions import normalized
from backhaul_connectors.scanner.scan import ScanRefused, scan_of
from backhaul_connectors.sql.parsing import RowOrigin, record_of
from backhaul_connectors.tryton import reader as tryton
from backhaul_sdk import Bad, Fulfillment, Tracking
from backhaul_sdk.fields import Unusable
from backhaul_sdk.json_items import ItemParser, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul_sdk import Record

ZONE = "Europe/Berlin"
NOW = "2026-04-02T00:00:00.000Z"
NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
REQUIRED: dict[str, dict[str, Any]] = {
    "fulfillment": {"order": "1001"},
    "cancellation": {"order": "1001", "restock": "no"},
    "stock delta": {"sku": "A", "adjustment": 1},
    "stock level": {"sku": "A", "quantity": 1},
}
"""What each kind of record needs."""
KIND_OF = {
    **dict.fromkeys(("order", "tracking_number", "tracking_company"), "fulfillment"),
    "shipped_at": "fulfillment",
    "restock": "cancellation",
    **dict.fromkeys(("sku", "reason", "key"), "stock delta"),
    "as_of": "stock level",
}
"""The kind of record in which a field is read here."""
FILES = FileSettings.model_validate(
    {"path": "/nowhere", "timezone": ZONE, "key_columns": ["key"]}
)
FORMS = {form.kind: form for form in file_kinds(FILES)}
COURIER = CourierSettings.model_validate(
    {"vendor": "generic", "ship": "order", "secrets": ["s" * 16]}
)


@dataclass(frozen=True)
class Refused:
    """A value that was not read, and why."""

    reason: str


def members_of(field: str, cell: Any) -> dict[str, Any]:
    return {**REQUIRED[KIND_OF[field]], field: cell}


def of_file(field: str, cells: Mapping[str, str]) -> Any:
    form = FORMS[KIND_OF[field]]
    origin = CellOrigin(file="f", dated=NOW, row=1, locator="f:1", raw="")
    names = {meaning: column.names[0] for meaning, column in form.columns.items()}
    given = {meaning: cells.get(name, "") for meaning, name in names.items()}
    try:
        return answer_of(form.understand(given)(origin), field)
    except Unusable as error:
        return Refused(str(error))


def of_json_lines(field: str, cell: Any) -> Any:
    form = FORMS[KIND_OF[field]]
    line = json.dumps({"key": "1", **members_of(field, cell)}).encode()
    (row,) = JsonRowReader(io.BytesIO(line + b"\n"), form.columns)
    if row.problem:
        return Refused(row.problem)
    names = [column.names[0] for column in form.columns.values()]
    return of_file(field, dict(zip(names, row.cells, strict=True)))


def of_spreadsheet(field: str, cell: Any) -> Any:
    cells = {"key": "1", **members_of(field, cell)}
    return of_file(field, {name: _cell(value) for name, value in cells.items()})


def _cell(value: Any) -> str:
    """Return a cell as the readers of CSV and of spreadsheets do."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_text(repr(value))
    return "" if value is None else str(value).strip()


def of_table(field: str, cell: Any) -> Any:
    kind = f"{KIND_OF[field].replace(' ', '_')}s"
    id_ = cell if field == "key" else 1
    origin = RowOrigin("t", id_, NOON, ZoneInfo(ZONE), NOW)
    return answer_of(record_of(kind, members_of(field, cell), origin), field)


def of_page(field: str, cell: Any) -> Any:
    members = {"id": "i", **members_of(field, cell)}
    kind = KIND_OF[field].replace("delta", "adjustment").replace(" ", "_")
    told: dict[str, Any] = {"kind": kind, "path": "/x"}
    told["key"] = "key" if field == "key" else "id"
    names = {"delta" if name == "adjustment" else name: name for name in members}
    told["fields"] = {k: v for k, v in names.items() if k not in ("key", "id")}
    found = ItemParser("x", List.model_validate(told), NOW).read(
        members, text_of(members)
    )
    return answer_of(found, field)


def courier_event(**members: Any) -> Sequence[Record | Bad]:
    """Return the records of a courier's event."""
    event = {"tracking_number": "JD1", "status": "announced", **members}
    return records_of(COURIER, event_of(COURIER, event), "{}")


def of_courier(field: str, cell: Any) -> Any:
    name = {"tracking_company": "carrier", "as_of": "at", "shipped_at": "at"}
    if field == "sku":
        lines = [{"sku": cell, "quantity": 1}]
        found = courier_event(status="in_transit", order="1", lines=lines)[0]
        return answer_of(found, field)
    member = "id" if field == "key" else name.get(field, field)
    return answer_of(courier_event(**{member: cell})[-1], field)


def tryton_shipment(
    *,
    code: Any = "A",
    quantity: Any = 1.0,
    order: Any = "1001",
    carrier: Any = "DHL",
    tracking: Any = "JD1",
) -> Record | Bad:
    """Return what a shipment of Tryton becomes."""
    read = {"carrier.": {"party.": {"name": carrier}}}
    row = {"id": 1, "number": "1", "write_date": NOON}
    move = {"product.": {"code": code}, "quantity": quantity}
    shipped = {**row, "carrier": tryton._carrier(read)}
    return tryton._fulfillment(shipped, order, [move], tracking)


def of_tryton(field: str, cell: Any) -> Any:
    names = {
        "sku": "code",
        "tracking_company": "carrier",
        "tracking_number": "tracking",
    }
    return answer_of(tryton_shipment(**{names.get(field, field): cell}), field)


def of_scan(field: str, cell: Any) -> Any:
    names = {
        "tracking_company": "trackingCompany",
        "tracking_number": "trackingNumber",
        "key": "sequence",
    }
    try:
        scan = normalized(scan_of({"code": "1", names.get(field, "at"): cell}, "d", ""))
    except ScanRefused as error:
        return Refused(str(error))
    found = {
        "tracking_company": scan.tracking_company,
        "tracking_number": scan.tracking_number,
        "key": scan.sequence,
    }
    return found.get(field, scan.at)


def answer_of(found: Any, field: str) -> Any:
    """Return the field of a record, or why it was refused."""
    if isinstance(found, Bad):
        return Refused(found.reason)
    if field == "sku" and isinstance(found, Fulfillment):
        return found.lines[0].sku
    if isinstance(found, Tracking) and field in ("as_of", "shipped_at"):
        return found.at
    return getattr(found, field)
