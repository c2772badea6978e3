"""Rows that cannot be used keep their values, so that an operator can edit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backhaul.connect.quarantine_edit import edited_record
from backhaul.connect.quarantine_fields import encode_read, fields_of
from backhaul.store.read_records import QuarantineDetail
from backhaul.store.records import QuarantinedRow, ReasonClass
from backhaul_connectors.http_json.settings import List
from backhaul_connectors.sql.parsing import RowOrigin, record_of
from backhaul_sdk import Bad, ReadValue, fields
from backhaul_sdk.erp import Goods, Parcel, fulfillment
from backhaul_sdk.json_items import ItemParser, text_of
from connectors.dropping import Drop

if TYPE_CHECKING:
    from pathlib import Path

NOW = "2026-03-01T12:00:00Z"


async def dropped(tmp_path: Path, name: str, content: str) -> Bad:
    """Drop a file with one bad row; return the row."""
    drop = Drop(tmp_path)
    drop.put(name, content)
    await drop.pull()
    (bad,) = drop.host.bad.values()
    return bad


async def test_a_row_of_a_file_names_its_columns(tmp_path: Path) -> None:
    content = "SKU;Differenz;Grund\nLAMP-2;3;BOGUS\n"
    bad = await dropped(tmp_path, "stock-deltas.csv", content)
    assert bad.kind == "adjust"
    assert bad.read == {
        "sku": ReadValue("LAMP-2", "SKU"),
        "delta": ReadValue("3", "Differenz"),
        "reason": ReadValue("BOGUS", "Grund"),
    }


async def test_a_row_with_too_few_cells_says_only_its_kind(tmp_path: Path) -> None:
    content = "order,restock,reason\n1001\n"
    bad = await dropped(tmp_path, "cancellations.csv", content)
    assert (bad.kind, bad.read) == ("cancel", {})


async def test_a_line_of_json_names_its_members(tmp_path: Path) -> None:
    content = '{"sku": "LAMP-2", "quantity": "many"}\n'
    bad = await dropped(tmp_path, "stock-levels.jsonl", content)
    assert bad.kind == "level"
    assert bad.read["quantity"] == ReadValue("many", "quantity")


def test_a_row_of_a_table_names_its_columns() -> None:
    values = {"sku": "LAMP-2", "adjustment": 0, "reason": None}
    columns = {"sku": "artikel", "adjustment": "delta_qty", "reason": "grund"}
    zone = fields.zone_named("UTC")
    origin = RowOrigin("moves", 7, NOW, zone, columns=columns)
    bad = record_of("stock_deltas", values, origin)
    assert isinstance(bad, Bad)
    assert bad.kind == "adjust"
    assert bad.read["delta"] == ReadValue("0", "delta_qty")
    assert bad.read["reason"] == ReadValue("", "grund")


def test_an_item_of_json_names_its_paths() -> None:
    paths = {"order": "order.no", "restock": "back"}
    told = {"path": "/x", "kind": "cancellation", "key": "id"}
    settings = List.model_validate({**told, "fields": paths})
    item = {"id": 1, "order": {"no": 1001}, "back": "maybe"}
    bad = ItemParser("x", settings, NOW).read(item, text_of(item))
    assert isinstance(bad, Bad)
    assert bad.kind == "cancel"
    assert bad.read == {
        "order": ReadValue("1001", "order.no"),
        "restock": ReadValue("maybe", "back"),
    }


def test_a_shipment_of_an_erp_names_all_that_an_operator_edits() -> None:
    bad = shipment(Goods("LAMP-2", 2.0), Goods("MUG", 0.5))
    assert bad.kind == "fulfill"
    assert bad.read == {
        "order": ReadValue("1001"),
        "tracking_company": ReadValue("DHL"),
        "tracking_number": ReadValue("JD1"),
        "shipped_at": ReadValue(NOW),
        "lines.1.sku": ReadValue("LAMP-2"),
        "lines.1.quantity": ReadValue("2"),
        "lines.2.sku": ReadValue("MUG"),
        "lines.2.quantity": ReadValue("0.5"),
    }


def test_a_shipment_of_an_erp_is_edited_in_place() -> None:
    """Only the invalid line is edited; everything else is as it was read."""
    bad = shipment(Goods("LAMP-2", 2.0), Goods("MUG", 0.5))
    row = QuarantinedRow(
        1,
        "record",
        "erp",
        bad.key,
        bad.locator,
        "open",
        bad.reason,
        (encode_read(bad) or b"").decode(),
        None,
        "shop",
        "",
    )
    edited = msgspec.json.decode(edited_record(row, None, {"lines.2.quantity": "1"}))
    assert edited["record"]["tracking_number"] == "JD1"
    assert edited["record"]["shipped_at"] == NOW
    assert edited["record"]["lines"] == [
        {"sku": "LAMP-2", "quantity": 2},
        {"sku": "MUG", "quantity": 1},
    ]


def test_the_invalid_line_of_a_shipment_is_the_one_that_the_reason_names() -> None:
    bad = shipment(Goods("MUG", 2.0), Goods("MUG-RED", 0.5))
    row = QuarantineDetail(
        1,
        "record",
        "erp",
        bad.key,
        bad.raw,
        bad.reason,
        bad.locator,
        "open",
        NOW,
        1,
        (encode_read(bad) or b"").decode(),
        "shop",
        ReasonClass.VALUE,
        "",
    )
    invalid = fields_of(row).invalid
    assert invalid is not None
    assert invalid.name == "lines.2.quantity"


def test_a_shipment_with_more_lines_than_the_host_keeps_names_none() -> None:
    """With some of them, a retry would ship only these."""
    bad = shipment(*(Goods(f"SKU-{number}", 0.5) for number in range(60)))
    assert [*bad.read] == [
        "order",
        "tracking_company",
        "tracking_number",
        "shipped_at",
    ]


def shipment(*goods: Goods) -> Bad:
    """Return the bad row of an ERP's shipment."""
    found = fulfillment(
        Parcel(
            key="picking:1",
            order="1001",
            carrier="DHL",
            tracking="JD1",
            goods=goods,
            shipped_at=NOW,
            locator="delivery WH/OUT/1",
            system="Odoo",
        )
    )
    assert isinstance(found, Bad)
    return found
