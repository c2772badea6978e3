"""A placeholder such as `n/a` never reaches a customer, from any connector."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.scanner.actions import normalized
from backhaul_connectors.scanner.scan import scan_of
from backhaul_sdk import Bad, Fulfillment, StockLevel, Tracking
from connectors.dropping import FULFILLMENTS, Drop
from connectors.reading_paths import courier_event, tryton_shipment
from connectors.spreadsheets import workbook
from connectors.test_cleaned_values import document, row

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = ["nan", "NaN", "N/A", "n/a", "NULL", "None", "-", "<NA>"]


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path, {"max_bad_share": 1})


def parcels(drop: Drop) -> list[tuple[str, str | None, str | None]]:
    found = [each for each in drop.records() if isinstance(each, Fulfillment)]
    return [(x.order, x.tracking_company, x.tracking_number) for x in found]


@pytest.mark.parametrize("word", NOTHING)
async def test_a_parcel_of_a_file_leaves_without_the_placeholder(
    drop: Drop, word: str
) -> None:
    drop.put("fulfillments-1.csv", f"{FULFILLMENTS}1001,{word},{word}\n")
    names = ["order", "tracking_company", "tracking_number"]
    item = dict(zip(names, ("1002", word, word), strict=True))
    drop.put("fulfillments-2.jsonl", f"{json.dumps(item)}\n")
    drop.put("fulfillments-3.xlsx", workbook(names, ["1003", word, word]))
    drop.options["fulfillments"] = "fulfillments*"
    await drop.pull()
    assert drop.reasons() == []
    assert parcels(drop) == [(f"100{n}", None, None) for n in (1, 2, 3)]


async def test_a_fixed_value_replaces_a_placeholder_too(drop: Drop) -> None:
    drop.options["fulfillment_values"] = {"tracking_company": "DHL"}
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1001,n/a,JD1\n")
    await drop.pull()
    assert parcels(drop) == [("1001", "DHL", "JD1")]


@pytest.mark.parametrize("word", NOTHING)
async def test_no_article_by_a_placeholder_is_not_everything(
    drop: Drop, word: str
) -> None:
    header = "order,tracking_company,tracking_number,sku,quantity\n"
    drop.put("fulfillments.csv", f"{header}1001,DHL,1,{word},\n{word},DHL,2,,\n")
    drop.put("stock-levels.csv", f"sku,quantity\n{word},5\n")
    await drop.pull()
    assert drop.records() == []
    article, order, level = drop.reasons()
    assert f"the sku is {word!r}, which stands for no value" in article
    assert f"the order is empty: {word!r} stands for no value" in order
    assert f"the sku is empty: {word!r} stands for no value" in level


@pytest.mark.parametrize("error", ["#N/A", "#REF!", "#NV"])
async def test_an_error_cell_of_a_file_is_refused(drop: Drop, error: str) -> None:
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1,DHL,{error}\n2,{error},JD\n")
    await drop.pull()
    assert drop.records() == []
    number, carrier = drop.reasons()
    assert f"the tracking number is {error}, a formula without a result" in number
    assert f"the tracking company is {error}, a formula" in carrier


async def test_a_point_zero_may_be_part_of_an_article(drop: Drop) -> None:
    drop.put("stock-levels.csv", "sku,quantity\n10.0,5\n10,6\n")
    await drop.pull()
    members: dict[str, Any] = {"sku": "10.0", "quantity": 5}
    found = [
        *drop.records(),
        row("stock_levels", **members),
        document("stock_level", members),
    ]
    assert drop.reasons() == []
    assert [x.sku for x in found if isinstance(x, StockLevel)] == [
        *("10.0", "10", "10.0", "10.0")
    ]


async def test_an_article_may_be_called_so(drop: Drop) -> None:
    drop.put("stock-levels.csv", "sku,quantity\n'NA,5\n")
    await drop.pull()
    (level,) = drop.records()
    assert isinstance(level, StockLevel)
    assert level.sku == "NA"


async def test_a_number_of_json_that_lost_digits_is_called_one(drop: Drop) -> None:
    drop.options["fulfillments"] = "*.jsonl"
    drop.put("f.jsonl", '{"order": "1", "tracking_number": 3.4043416109404255e17}\n')
    await drop.pull()
    assert drop.records() == []
    (reason,) = drop.reasons()
    assert "the tracking number came as the number 3.404342E+17" in reason
    assert "spreadsheet" not in reason


@pytest.mark.parametrize("word", [*NOTHING, float("nan")])
def test_a_parcel_of_a_table_or_document_leaves_without_it(word: Any) -> None:
    members = {"order": "1", "tracking_company": word, "tracking_number": word}
    for each in (row("fulfillments", **members), document("fulfillment", members)):
        assert isinstance(each, Fulfillment)
        assert (each.tracking_company, each.tracking_number) == (None, None)


@pytest.mark.parametrize("word", NOTHING)
def test_no_article_of_a_table_or_document_is_refused(word: str) -> None:
    lines = [{"sku": word, "quantity": 1}]
    parcel = {"order": "1", "tracking_number": word}
    found = [
        row("stock_levels", sku=word, quantity=1),
        row("fulfillments", order="1", sku=word, quantity=1),
        row("fulfillments", order="1", lines=lines),
        row("fulfillments", order=word),
        document("stock_level", {"sku": word, "quantity": 1}),
        document(
            "fulfillment", parcel, lines="[{sku: tracking_number, quantity: `1`}]"
        ),
        document("fulfillment", {"order": word}),
    ]
    assert all(isinstance(each, Bad) for each in found), found


@pytest.mark.parametrize("word", NOTHING)
def test_a_scan_and_a_shipment_of_tryton_leave_without_it(word: str) -> None:
    told = {"code": "1", "trackingCompany": word, "trackingNumber": word}
    scan = normalized(scan_of(told, "dock", ""))
    assert (scan.tracking_company, scan.tracking_number) == (None, None)
    shipment = tryton_shipment(carrier=word, tracking=word)
    assert isinstance(shipment, Fulfillment)
    assert (shipment.tracking_company, shipment.tracking_number) == (None, None)


@pytest.mark.parametrize("word", NOTHING)
def test_messages_of_a_courier_name_no_placeholder(word: str) -> None:
    (tracking,) = courier_event(carrier=word, order=word)
    assert isinstance(tracking, Tracking)
    assert tracking.tracking_company is None
    (bad,) = courier_event(tracking_number=word, order="1")
    assert isinstance(bad, Bad)
    assert "the tracking number is empty" in bad.reason
