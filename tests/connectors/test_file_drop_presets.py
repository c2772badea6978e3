"""Presets read the files of known programs with few settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pydantic import ValidationError

from backhaul_connectors.file_drop.presets import KINDS, presets
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import Fulfillment, Record, StockAdjustment, StockLevel
from connectors.dropping import Drop
from connectors.layouts import text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


FEW_SETTINGS = 4
"""Lines of a connection with a preset: its type, its path, the preset, one more."""


class PresetFile(NamedTuple):
    """A made-up file of the preset's layout, what it says, and one more setting."""

    content: bytes
    expected: list[object]
    more: tuple[tuple[str, str], ...] = ()


def said(record: Record) -> object:
    """Return what a record says, without its key and place."""
    match record:
        case Fulfillment():
            lines = [(line.sku, line.quantity) for line in record.lines]
            return (
                record.order,
                record.tracking_company,
                record.tracking_number,
                lines or "everything",
            )
        case StockAdjustment():
            return record.sku, record.delta
        case StockLevel():
            return record.sku, record.quantity
    return record


FILES = {
    "ups-worldship": PresetFile(
        text(
            "Reference1,Tracking Number,Service Type,Void Indicator",
            "1001,1Z999AA10000000001,Ground,N",
            "1002,1Z999AA10000000002,Ground,Y",
        ),
        [("1001", "UPS", "1Z999AA10000000001", "everything")],
    ),
    "shopify-orders": PresetFile(
        text(
            "Name,Email,Financial Status,Paid at,Fulfillment Status,Fulfilled at,"
            "Lineitem quantity,Lineitem name,Lineitem sku,Lineitem fulfillment status",
            "#1001,a@example.com,paid,2026-03-30 10:00:00 +0100,partial,,2,Shirt,LS-S,"
            "fulfilled",
            "#1001,a@example.com,,,,,1,Lamp,LAMP-1,pending",
        ),
        [("#1001", None, None, [("LS-S", 2)])],
    ),
    "odoo-stock": PresetFile(
        text(
            '"Product/Internal Reference","Product","Location","Quantity"',
            '"LS-S","[LS-S] Shirt","WH/Stock/Shelf 1","1030.0"',
            '"LS-S","[LS-S] Shirt","WH/Stock/Shelf 2","12.0"',
            '"LS-M","[LS-M] Shirt","WH/Stock/Shelf 1","3.0"',
        ),
        [("LS-S", 1042), ("LS-M", 3)],
    ),
    "pickware-stock": PresetFile(
        text(
            "articleNumber;articleName;warehouse;binLocation;isDefaultBinLocation;"
            "physicalStock;availableStock;purchasePrice",
            "LS-S;Hemd;HL;A-1;yes;30;42;9.5",
            "LS-S;Hemd;HL;A-2;no;12;42;9.5",
        ),
        [("LS-S", 42)],
    ),
    "pickware-stock-changes": PresetFile(
        text(
            "articleNumber;articleName;warehouse;binLocation;physicalStock",
            "LS-S;Hemd;HL;A-1;5",
            "LS-M;Hemd;HL;A-1;-10",
        ),
        [("LS-S", 5), ("LS-M", -10)],
    ),
    "sap-business-one-stock": PresetFile(
        text(
            "#\tItem No.\tWarehouse Code\tIn Stock\tCommitted\tOrdered",
            "1\tLS-S\t01\t30.000000\t4.000000\t0.000000",
            "2\tLS-S\t02\t12.000000\t0.000000\t0.000000",
            encoding="utf-16",
        ),
        [("LS-S", 42)],
        (("decimal", "."),),
    ),
    "woocommerce-products": PresetFile(
        text(
            'ID,Type,SKU,Name,Published,"In stock?",Stock,"Backorders allowed?",Parent',
            "44,variable,LS,Shirt,1,1,,0,",
            "76,variation,LS-S,Shirt S,1,1,12,0,LS",
            "77,variation,LS-M,Shirt M,1,0,0,0,LS",
            "48,simple,GIFT,Voucher,1,1,,0,",
        ),
        [("LS-S", 12), ("LS-M", 0)],
    ),
}


def test_each_preset_has_a_file() -> None:
    assert FILES.keys() == presets().keys()


@pytest.mark.parametrize("name", FILES)
async def test_a_preset_reads_its_file(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"preset": name, **dict(FILES[name].more)}
    assert len({"type", "path", *options}) <= FEW_SETTINGS
    drop = Drop(tmp_path, options)
    drop.put("export 2026-03-31.csv", FILES[name].content)
    await drop.pull()
    assert drop.reasons() == []
    assert [said(record) for record in drop.records()] == FILES[name].expected


@pytest.mark.parametrize("name", FILES)
def test_a_preset_names_a_public_document(name: str) -> None:
    assert presets()[name].sources
    assert all(each.startswith("https://") for each in presets()[name].sources)


@pytest.mark.parametrize("name", FILES)
def test_a_preset_is_for_one_kind_of_file(name: str) -> None:
    settings = Settings.model_validate({"path": "/srv/drop", "preset": name})
    assert len([kind for kind in KINDS if getattr(settings, kind)]) == 1


async def test_own_settings_override_those_of_the_preset(drop: Drop) -> None:
    drop.options |= {
        "preset": "ups-worldship",
        "fulfillments": "ups-*.csv",
        "fulfillment_columns": {"order": "Reference2"},
        "fulfillment_values": {"tracking_company": "UPS Germany"},
    }
    drop.put(
        "ups-1.csv",
        text(
            "Reference1,Reference2,Tracking Number,Void Indicator",
            "invoice 7,1001,1Z999AA10000000001,N",
        ),
    )
    await drop.pull()
    assert [said(record) for record in drop.records()] == [
        ("1001", "UPS Germany", "1Z999AA10000000001", "everything")
    ]


def test_a_pattern_and_a_filter_of_its_own_replace_those_of_the_preset() -> None:
    own = {"stock_levels": "s*.csv", "fulfillments": "f*.csv", "decimal": ","}
    settings = Settings.model_validate({"path": "/x", "preset": "odoo-stock", **own})
    assert settings.model_dump(include=set(own)) == own
    only = {"only": {"Void Indicator": "N"}}
    changed = {"path": "/x", "preset": "ups-worldship", "fulfillment_rows": only}
    assert Settings.model_validate(changed).fulfillment_rows.only == {
        "Void Indicator": ("N",)
    }


def test_an_unknown_preset_is_an_error_with_a_near_match() -> None:
    with pytest.raises(ValidationError) as raised:
        Settings.model_validate({"path": "/srv/drop", "preset": "ups-worldshp"})
    (error,) = raised.value.errors()
    assert error["loc"] == ("preset",)
    assert "did you mean 'ups-worldship'?" in error["msg"]
    assert "backhaul connectors presets" in error["msg"]
