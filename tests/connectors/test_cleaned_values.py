"""Values from files, tables and documents are cleaned, refused or noted."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.http_json.settings import List
from backhaul_connectors.sql.parsing import ParsingRules, RowOrigin, record_of
from backhaul_connectors.tryton.reader import _level
from backhaul_sdk import Bad, Fulfillment, StockAdjustment, StockLevel
from backhaul_sdk.fields import zone_named
from backhaul_sdk.json_items import ItemParser, text_of
from connectors.dropping import STOCK_DELTAS, Drop
from connectors.spreadsheets import workbook

if TYPE_CHECKING:
    from backhaul_sdk import Record

CASES = Path(__file__).parent / "cases"
GERMAN = {"sku": "Artikelnummer", "quantity": "Bestand"}
LEVELS = "sku,quantity,as_of\n"
NOW = "2026-04-02T00:00:00.000Z"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def case(name: str) -> bytes:
    return (CASES / name).read_bytes()


def written_at(path: Path, moment: str) -> None:
    """Date a file, as a program would that wrote it then."""
    seconds = datetime.fromisoformat(moment).timestamp()
    os.utime(path, (seconds, seconds))


def levels(drop: Drop) -> list[tuple[str, int, str]]:
    """Return article, quantity and note of every stock level."""
    found = [each for each in drop.records() if isinstance(each, StockLevel)]
    return [(each.sku, each.quantity, each.note) for each in found]


async def test_tracking_numbers_out_of_spreadsheets(drop: Drop) -> None:
    drop.options["max_bad_share"] = 1
    drop.put("fulfillments.csv", case("06-tracking-numbers.csv"))
    await drop.pull()
    found = [each for each in drop.records() if isinstance(each, Fulfillment)]
    assert {each.order: each.tracking_number for each in found} == {
        "1001": "00340434161094042557",
        "1002": "794658123456",
        "1003": "794658123456",
        "1005": "JD0100",
        "1006": "JD004",
    }
    assert len(drop.reasons()) == 2
    assert all("digits are lost" in reason for reason in drop.reasons())


async def test_orders_and_articles_are_cleaned_alike(drop: Drop) -> None:
    header = "order,tracking_company,tracking_number,sku,quantity\n"
    drop.put("fulfillments.csv", f'{header}"=""1001""",D\u200bHL,,\'0042,\'1\n')
    drop.put("stock-levels.csv", "sku,quantity\n='0042,7\n")
    await drop.pull()
    (shipped,) = [each for each in drop.records() if isinstance(each, Fulfillment)]
    assert (shipped.order, shipped.tracking_company) == ("1001", "DHL")
    assert [(line.sku, line.quantity) for line in shipped.lines] == [("0042", 1)]
    (reason,) = drop.reasons()
    assert "the sku is a formula" in reason


@pytest.mark.parametrize("number", ["2.125", "1.234", "1234.567", "12.5", "-2.125"])
async def test_a_number_of_json_or_a_spreadsheet_has_no_locale(
    drop: Drop, number: str
) -> None:
    options = {"decimal": ",", "stock_levels": "07-*.{jsonl,xlsx}"}
    drop.options |= options | {"stock_level_columns": GERMAN}
    content = case("07-fraction.jsonl").replace(b"2.125", number.encode())
    drop.put("07-fraction.jsonl", content)
    rows: list[list[Any]] = [["Artikelnummer", "Bestand"], ["SM-CHA", float(number)]]
    drop.put("07-fraction.xlsx", workbook(*rows))
    await drop.pull()
    assert drop.records() == []
    said = f"quantity must be a whole number, not {number}"
    assert drop.reasons() == [said, said]


async def test_a_text_has_the_locale_of_the_settings(drop: Drop) -> None:
    drop.options["decimal"] = ","
    drop.put("stock-levels.jsonl", '{"sku": "A", "quantity": "2.125"}\n')
    rows: list[list[Any]] = [
        ["sku", "quantity"],
        ["B", "1.006"],
        ["C", 7.0],
        ["2.5", 1],
    ]
    drop.put("stock-levels.xlsx", workbook(*rows))
    await drop.pull()
    assert drop.reasons() == []
    assert sorted(levels(drop)) == [
        ("2.5", 1, ""),
        ("A", 2125, ""),
        ("B", 1006, ""),
        ("C", 7, ""),
    ]


async def test_a_fraction_names_an_article_as_written(drop: Drop) -> None:
    drop.put("stock-levels.xlsx", workbook(["sku", "quantity"], [10.125, 1]))
    await drop.pull()
    assert levels(drop) == [("10.125", 1, "")]


async def test_stock_below_zero_is_zero_and_noted(drop: Drop) -> None:
    drop.put("stock-levels.csv", case("12-negative.csv"))
    await drop.pull()
    assert levels(drop) == [("A5", 0, "-2 is taken as 0")]


async def test_stock_below_zero_may_be_refused(drop: Drop) -> None:
    drop.options["negative_is_zero"] = False
    drop.put("stock-levels.csv", case("12-negative.csv"))
    await drop.pull()
    (reason,) = drop.reasons()
    assert "quantity is below 0: -2" in reason
    assert "thousands" not in reason


async def test_lists_of_one_day_are_ordered_by_the_files_times(drop: Drop) -> None:
    for number in (1, 2, 3):
        path = drop.put(f"stock-levels-{number}.csv", case(f"21-day-{number}.csv"))
        written_at(path, f"2026-04-01T0{number}:00:00Z")
    await drop.pull()
    found = [each for each in drop.records() if isinstance(each, StockLevel)]
    found.sort(key=lambda each: each.listed_at)
    assert [each.quantity for each in found] == [30, 20, 30]
    assert {each.as_of for each in found} == {"2026-03-31T00:00:00Z"}
    assert len({each.listed_at for each in found}) == 3


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("", "2026-03-31"), ("%d.%m.%Y", "31.03.2026"), ("%d.%m.%Y %H:%M", "2026-03-31")],
)
async def test_a_list_is_of_its_files_time_where_that_is_on_the_day(
    drop: Drop, pattern: str, text: str
) -> None:
    drop.options |= {"timezone": "Europe/Berlin", "date_format": pattern}
    path = drop.put("stock-levels.csv", f"{LEVELS}A,1,{text}\n")
    written_at(path, "2026-03-31T18:00:00+02:00")
    await drop.pull()
    path = drop.put("stock-levels.csv", f"{LEVELS}A,2,{text}\n")
    written_at(path, "2026-03-31T23:00:00Z")
    await drop.pull()
    found = [each for each in drop.records() if isinstance(each, StockLevel)]
    assert [each.as_of for each in found] == [
        "2026-03-31T16:00:00Z",
        "2026-03-30T22:00:00Z",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-10-25T02:30", "exists twice in Europe/Berlin"),
        ("2026-03-29T02:30", "does not exist in Europe/Berlin"),
    ],
)
async def test_a_local_time_that_could_be_two_is_refused(
    drop: Drop, text: str, said: str
) -> None:
    drop.options["timezone"] = "Europe/Berlin"
    drop.put("stock-levels.csv", f"{LEVELS}A,1,{text}\nB,1,{text}+01:00\n")
    await drop.pull()
    (reason,) = drop.reasons()
    assert said in reason
    assert [each[0] for each in levels(drop)] == ["B"]


async def test_a_reason_is_mapped_for_its_kind(drop: Drop) -> None:
    drop.options["reason_map"] = {"Bruch": "DAMAGED", "Kunde": "CUSTOMER"}
    drop.put("stock-deltas.csv", f"{STOCK_DELTAS}A,-1,bruch\nA,-1,Kunde\n")
    await drop.pull()
    (taken,) = drop.records()
    assert isinstance(taken, StockAdjustment)
    assert taken.reason == "DAMAGED"
    (reason,) = drop.reasons()
    assert "reason 'Kunde' is unknown; use CORRECTION, DAMAGED" in reason


def test_a_reason_map_names_reasons_of_the_platform(drop: Drop) -> None:
    drop.options["reason_map"] = {"Bruch": "BROKEN"}
    with pytest.raises(
        ValueError, match=r"unknown reasons: BROKEN. The reasons are CORRECTION"
    ):
        drop.connector()


def row(kind: str, rules: ParsingRules | None = None, **values: Any) -> Record | Bad:
    """Return what a row of a table becomes."""
    berlin = zone_named("Europe/Berlin")
    changed = datetime(2026, 4, 1, tzinfo=UTC)
    return record_of(
        kind, values, RowOrigin("t", 1, changed, berlin, NOW, rules or ParsingRules())
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (2.125, "whole number, not 2.125"),
        ("2.125", "whole number, not '2.125'"),
        (True, "whole number, not true"),
        ("1,000", "whole number, not '1,000'"),
        ("1e3", "whole number, not '1e3'"),
        (float("nan"), "whole number"),
        (10**30, "whole number"),
        (10**10, "from 0 to 1000000000"),
        (b"5", "bytes"),
    ],
)
def test_a_value_that_is_no_quantity_of_a_table_or_document_is_refused(
    value: Any, said: str
) -> None:
    found = row("stock_levels", sku="A", quantity=value)
    assert isinstance(found, Bad)
    if isinstance(value, bytes):
        return
    assert said in found.reason
    found = document("stock_level", {"sku": "A", "quantity": value})
    assert isinstance(found, Bad)
    assert said in found.reason


def document(kind: str, members: dict[str, Any], **settings: Any) -> Record | Bad:
    """Return what an item of a list becomes."""
    fields = {name: name for name in members}
    told = {"kind": kind, "path": "/x", "key": "id", "fields": fields, **settings}
    item = {"id": "i", **members}
    return ItemParser("x", List.model_validate(told), NOW).read(item, text_of(item))


@pytest.mark.parametrize("value", [-4, -4.0, "-4", "-4.00"])
def test_stock_below_zero_of_a_table_or_document(value: Any) -> None:
    found = [
        row("stock_levels", sku="A", quantity=value),
        document("stock_level", {"sku": "A", "quantity": value}),
    ]
    for each in found:
        assert isinstance(each, StockLevel)
        assert (each.quantity, each.note) == (0, "-4 is taken as 0")
    refused = [
        row(
            "stock_levels",
            ParsingRules(negative_is_zero=False),
            sku="A",
            quantity=value,
        ),
        document(
            "stock_level", {"sku": "A", "quantity": value}, negative_is_zero=False
        ),
    ]
    for each in refused:
        assert isinstance(each, Bad)
        assert "quantity is below 0: -4" in each.reason


def test_stock_below_zero_of_tryton_is_noted() -> None:
    found = _level(
        {"id": 1, "code": "A", "quantity": -2.0}, datetime(2026, 4, 1, tzinfo=UTC)
    )
    assert isinstance(found, StockLevel)
    assert (found.quantity, found.note) == (0, "-2 is taken as 0")


@pytest.mark.parametrize(
    ("cell", "number"),
    [('="0034"', "0034"), ("'JD1", "JD1"), ("\u200bJD1\u200b", "JD1"), (7.0, "7")],
)
def test_tracking_numbers_of_a_table_or_document(cell: Any, number: str) -> None:
    members = {"order": "1001", "tracking_number": cell}
    found = [row("fulfillments", **members), document("fulfillment", members)]
    for each in found:
        assert isinstance(each, Fulfillment)
        assert each.tracking_number == number


@pytest.mark.parametrize("cell", ["7.94658E11", "9400111899223810000000", 2.5, True])
def test_lost_digits_of_a_table_or_document(cell: Any) -> None:
    members = {"order": "1001", "tracking_number": cell}
    for each in (row("fulfillments", **members), document("fulfillment", members)):
        assert isinstance(each, Bad)
        assert "tracking number" in each.reason


@pytest.mark.parametrize(
    ("as_of", "said"),
    [
        (datetime(2026, 3, 31, tzinfo=UTC).date(), "a day without a time of day"),
        ("2026-03-31", "a day without a time of day"),
        ("2026-10-25T02:30", "exists twice"),
        (datetime.fromisoformat("2026-03-29T02:30"), "does not exist"),
        ("soon", "as of is not a time"),
    ],
)
def test_a_count_of_a_table_needs_an_exact_time(as_of: Any, said: str) -> None:
    found = row("stock_levels", sku="A", quantity=1, as_of=as_of)
    assert isinstance(found, Bad)
    assert said in found.reason


def test_a_shipment_of_a_table_does_not_wait_for_an_exact_time() -> None:
    for at, kept in [
        ("2026-10-25T02:30", None),
        ("2026-10-25", "2026-10-24T22:00:00Z"),
        ("2026-10-25T04:30", "2026-10-25T03:30:00Z"),
    ]:
        found = row("fulfillments", order="1", shipped_at=at)
        assert isinstance(found, Fulfillment)
        assert found.shipped_at == kept


def test_a_count_of_a_document_needs_a_time_of_day() -> None:
    members = {"sku": "A", "quantity": 1, "as_of": "2026-03-31"}
    found = document("stock_level", members)
    assert isinstance(found, Bad)
    assert "a day without a time of day" in found.reason


def test_reasons_of_a_table_or_document_are_mapped() -> None:
    words = {"Bruch": "DAMAGED"}
    members: dict[str, Any] = {"sku": "A", "reason": "BRUCH"}
    found = [
        row("stock_deltas", ParsingRules(reason_map=words), adjustment=-1, **members),
        document("stock_adjustment", {"delta": -1, **members}, reason_map=words),
    ]
    for each in found:
        assert isinstance(each, StockAdjustment)
        assert each.reason == "DAMAGED"
    unknown = row("stock_deltas", adjustment=-1, **members)
    assert isinstance(unknown, Bad)
    assert "use CORRECTION" in unknown.reason


def test_a_journal_of_counts_has_no_other_time_than_its_own() -> None:
    told = {"sku": "A", "quantity": 1, "as_of": None}
    id_ = 1_767_225_600
    origin = RowOrigin("t", id_, id_, zone_named("UTC"), NOW, in_order=True)
    found = record_of("stock_levels", told, origin)
    assert isinstance(found, Bad)
    assert found.reason.startswith("'as of' is empty")
