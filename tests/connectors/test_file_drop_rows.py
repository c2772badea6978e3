"""Which record a row becomes, and what is reported about an unusable row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Cancellation, Fulfillment, Line, StockAdjustment
from connectors.dropping import CANCELLATIONS, FULFILLMENTS, STOCK_DELTAS, Drop

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul_sdk import Record

PARTS = "order,tracking_company,tracking_number,sku,quantity,shipped_at\n"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


async def only_record(drop: Drop, name: str, content: str | bytes) -> Record:
    drop.put(name, content)
    await drop.pull()
    assert drop.reasons() == []
    (record,) = drop.records()
    return record


async def only_reason(drop: Drop, name: str, content: str | bytes) -> str:
    drop.put(name, content)
    await drop.pull()
    assert drop.records() == []
    (reason,) = drop.reasons()
    return reason


async def test_a_fulfillment_row(drop: Drop) -> None:
    content = f"{FULFILLMENTS}#1001, BlueDart ,BD1\n"
    record = await only_record(drop, "fulfillments.csv", content)
    assert record == Fulfillment(
        key=record.key,
        order="#1001",
        tracking_company="BlueDart",
        tracking_number="BD1",
        everything=True,
        beside=(),
        by_content=True,
        locator="fulfillments.csv:2",
        raw=f"{FULFILLMENTS}#1001, BlueDart ,BD1",
    )


async def test_a_fulfillment_of_a_part(drop: Drop) -> None:
    drop.options["timezone"] = "Asia/Kolkata"
    content = f"{PARTS}1001,,,LS-S,2,2026-03-31T14:05\n"
    record = await only_record(drop, "fulfillments.csv", content)
    assert isinstance(record, Fulfillment)
    assert record.lines == (Line(sku="LS-S", quantity=2),)
    assert record.shipped_at == "2026-03-31T08:35:00Z"
    assert (record.tracking_company, record.tracking_number) == (None, None)


async def test_an_article_without_quantity_is_one_unit(drop: Drop) -> None:
    record = await only_record(drop, "fulfillments.csv", f"{PARTS}1001,,,LS-S,,\n")
    assert isinstance(record, Fulfillment)
    assert record.lines == (Line(sku="LS-S", quantity=1),)


@pytest.mark.parametrize(
    ("row", "restock", "reason"),
    [
        ("1001,yes,customer", True, "CUSTOMER"),
        ("1001,FALSE,", False, "OTHER"),
        ("1001,1,Fraud", True, "FRAUD"),
    ],
)
async def test_a_cancellation_row(
    drop: Drop, row: str, restock: bool, reason: str
) -> None:
    record = await only_record(drop, "cancellations.csv", f"{CANCELLATIONS}{row}\n")
    assert isinstance(record, Cancellation)
    assert (record.order, record.restock, record.reason) == ("1001", restock, reason)


@pytest.mark.parametrize(
    ("row", "delta", "reason"),
    [
        ("LS-S,-5,stock count", -5, "STOCK_COUNT"),
        ("LS-S,+5,", 5, "MANUAL_ADJUSTMENT"),
        ("LS-S,\N{MINUS SIGN}5,Damaged", -5, "DAMAGED"),
        ("LS-S,1000000,received", 1_000_000, "RECEIVED"),
    ],
)
async def test_a_stock_delta_row(drop: Drop, row: str, delta: int, reason: str) -> None:
    record = await only_record(drop, "stock-deltas.csv", f"{STOCK_DELTAS}{row}\n")
    assert isinstance(record, StockAdjustment)
    assert (record.sku, record.delta, record.reason) == ("LS-S", delta, reason)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (",,,,,", "empty"),
        (",BlueDart,BD1,,,", "the order is empty"),
        ("1001,BlueDart", "the row has 2 cells, but the header has 6"),
        ("1001,Blue,Dart,BD1,,,x", "7 cells, but the header has 6"),
        ("4.01E+12,,,,,", "the spreadsheet turned the order into 4.01E+12"),
        ('1001,,"4,01E+12",,,', "turned the tracking number into 4,01E+12"),
        ("1001,,,8.9e+12,1,", "turned the sku into 8.9e+12"),
        ("1001,,,LS-S,0,", "quantity must be from 1 to 1000000, not 0"),
        ("1001,,,LS-S,-1,", "quantity must be from 1 to 1000000, not -1"),
        ("1001,,,LS-S,1.5,", "quantity must be a whole number, not '1.5'"),
        ("1001,,,LS-S,two,", "not 'two'"),
        ("1001,,,LS-S,\u0662,", "quantity must be a whole number"),
        ("1001,,,,2,", "the row has a quantity but no SKU"),
        ("1001,,,,,31.03.2026", "shipped at is not a time: '31.03.2026'"),
        ("1001,,,,,0001-01-01T00:00+10:00", "shipped at is not a time"),
        ("1001,,\0,,,", "NUL"),
        ('1001,"BlueDart,BD1,,,', "quotation mark"),
        ('1001,"Blue"Dart,BD1,,,', "quotation mark"),
        ("1001,Blue\rDart,BD1,,,", "the row has a line end in the middle"),
    ],
)
async def test_a_bad_fulfillment_row(drop: Drop, row: str, said: str) -> None:
    if said == "empty":
        drop.put("fulfillments.csv", f"{PARTS}{row}\n")
        assert (await drop.pull()).bad == {}, "rows of empty cells are no rows"
        return
    assert said in await only_reason(drop, "fulfillments.csv", f"{PARTS}{row}\n")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1001,maybe,OTHER", "restock must be yes or no, not 'maybe'"),
        ("1001,,OTHER", "restock must be yes or no"),
        ("1001,yes,bored", "reason 'bored' is unknown; use CUSTOMER, DECLINED"),
        (",yes,OTHER", "the order is empty"),
    ],
)
async def test_a_bad_cancellation_row(drop: Drop, row: str, said: str) -> None:
    content = f"{CANCELLATIONS}{row}\n"
    assert said in await only_reason(drop, "cancellations.csv", content)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("LS-S,0,OTHER", "adjustment is 0"),
        ("LS-S,1000001,OTHER", "adjustment must be from -1000000 to 1000000"),
        ("LS-S,-1000001,OTHER", "adjustment must be from -1000000 to 1000000"),
        ('LS-S,"1,5",OTHER', "adjustment must be a whole number"),
        ("LS-S,,OTHER", "must be a whole number"),
        ("LS-S," + "9" * 5000 + ",OTHER", "must be a whole number"),
        ("LS-S,5,SOLD", "reason 'SOLD' is unknown"),
        (",5,OTHER", "the sku is empty"),
    ],
)
async def test_a_bad_stock_delta_row(drop: Drop, row: str, said: str) -> None:
    content = f"{STOCK_DELTAS}{row}\n"
    assert said in await only_reason(drop, "stock-deltas.csv", content)


async def test_a_bad_row_says_where_it_is_and_how_it_came(drop: Drop) -> None:
    rows = '1001,yes,OTHER\n\n"1002\n",no,"a\nb"\n1003,maybe,OTHER\n'
    drop.put("cancellations-may.csv", CANCELLATIONS + rows)
    host = await drop.pull()
    first, second = host.bad.values()
    assert first.locator == "cancellations-may.csv:4"
    assert first.raw == f'{CANCELLATIONS}"1002\n",no,"a\nb"'
    assert second.locator == "cancellations-may.csv:7"
    assert len(host.records) == 1


@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        (
            "fulfillments.csv",
            f"{FULFILLMENTS}#1001, BlueDart ,BD 1\n",
            "fulfillment:70978796a548b4ea8bb1e046f9d2caa57df73be8",
        ),
        (
            "fulfillments.csv",
            f"{PARTS}1001,Österreich,,LS-S,2,2026-03-31T14:05\n",
            "fulfillment:a4729ee94aa14cec6a2e7f65af9fa3da1834125f",
        ),
        (
            "cancellations.csv",
            f"{CANCELLATIONS}1001,yes,customer\n",
            "cancellation:b82887c993526ac5378863b1df4aaa8d7b31d22b",
        ),
        (
            "stock-deltas.csv",
            f"{STOCK_DELTAS}LS-S,-5,damaged\n",
            "stock-delta:71fab7c432c6b5c00b0d8905c5f3de027f405d20",
        ),
        (
            "stock-levels.csv",
            "sku,quantity,as_of\nLS-S,7,2026-03-31T00:00\n",
            "stock-level:3a2823c7e2f3aeebebcb20dd7efc8d0334da8415",
        ),
    ],
)
async def test_an_older_version_knew_the_row_by_the_same_key(
    drop: Drop, name: str, content: str, key: str
) -> None:
    record = await only_record(drop, name, content)
    assert record.key == key


async def test_an_older_version_knew_the_movement_by_the_same_key(drop: Drop) -> None:
    drop.options["key_columns"] = ("document",)
    content = "sku,adjustment,reason,document\nLS-S,-5,damaged,D 1\n"
    record = await only_record(drop, "stock-deltas.csv", content)
    assert record.key == "stock-delta:a77433599119e05f759d54c46aba09423a025861"


async def test_an_older_version_knew_the_bad_row_by_the_same_key(drop: Drop) -> None:
    await only_reason(drop, "fulfillments.csv", f"{FULFILLMENTS},DHL,1\n")
    assert list(drop.host.bad) == ["bad:55e204d588c6754254ae6d2b5c5937085fcaba02"]


async def test_columns_are_found_by_their_configured_names(drop: Drop) -> None:
    columns = {"order": "Auftrag-Nr", "tracking_number": "Sendung"}
    drop.options["fulfillment_columns"] = columns
    content = "SENDUNG;tracking_company;auftrag nr;Gewicht\nBD1;DHL;1001;2,5\n"
    record = await only_record(drop, "fulfillments.csv", content)
    assert isinstance(record, Fulfillment)
    assert (record.order, record.tracking_number) == ("1001", "BD1")


async def test_cells_that_spreadsheets_add_are_no_harm(drop: Drop) -> None:
    content = "sku,adjustment,reason,,\nLS-S,5,OTHER,,,\n,,,,\n"
    record = await only_record(drop, "stock-deltas.csv", content)
    assert isinstance(record, StockAdjustment)
    assert (record.sku, record.delta) == ("LS-S", 5)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("order,reason\n1,OTHER\n", "column restock is missing; found: order, reason"),
        (
            "order,restock,reason,Order\n1,1,,1\n",
            "more than one column could be the order: order, Order",
        ),
        ("\n\n", "no rows"),
        (b"\xff\xfeo\0r\0", "column order, restock is missing; found: or"),
        (b"\xd0\xcf\x11\xe0 and so on", "is a spreadsheet, not CSV"),
        (b"PK\x03\x04 and so on", "is a spreadsheet, not CSV"),
        (b"ord\0er,restock,reason\n1,1,\n", "names cannot be read"),
        ('order,"restock,reason\n1,1,\n', "column order, restock is missing"),
        ("order,restock,reason\r1,yes,OTHER\r", "a line end"),
    ],
)
async def test_a_file_that_is_no_use_is_one_bad_value(
    drop: Drop, content: str | bytes, said: str
) -> None:
    reason = await only_reason(drop, "cancellations.csv", content)
    assert said in reason
    (bad,) = drop.host.bad.values()
    assert bad.locator == "cancellations.csv"
    reason_file = "held/cancellations.csv.reason.txt"
    assert drop.files() == {"held/cancellations.csv", reason_file}
    assert said in (drop.path / reason_file).read_text("utf-8")


def values(settings: Any) -> list[str]:
    """Return the settings, of all tables, that have no sentence."""
    silent = []
    for name, field in type(settings).model_fields.items():
        silent += [] if field.description else [name]
        inner = getattr(settings, name)
        silent += values(inner) if hasattr(inner, "model_fields_set") else []
    return silent


def test_every_setting_of_every_table_has_its_sentence(drop: Drop) -> None:
    assert values(drop.connector().settings) == []


@pytest.mark.parametrize(
    "options",
    [
        {"timezone": "Europe/Atlantis"},
        {"timezone": "../../etc/passwd"},
        {"timezone": ""},
        {"max_bad_share": 1.1},
        {"unchanged_seconds": -1},
        {"batch_rows": 0},
        {"delimiter": "x"},
        {"pattern": "*.csv"},
        {"cancellation_columns": {"oder": "x"}},
    ],
)
def test_settings_that_make_no_sense_are_refused(
    drop: Drop, options: dict[str, Any]
) -> None:
    drop.options |= options
    with pytest.raises(ValueError, match=next(iter(options))):
        drop.connector()
