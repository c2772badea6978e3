"""Rows that cannot be used keep their values, so that an operator edits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_connectors.http_json.parsing import ItemParser, text_of
from backhaul_connectors.http_json.settings import List
from backhaul_connectors.sql.parsing import RowOrigin, record_of
from backhaul_sdk import Bad, ReadValue, fields
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
