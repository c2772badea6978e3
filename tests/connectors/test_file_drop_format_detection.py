"""Files whose content does not match their name, and how CSV and JSON files begin."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul_connectors.file_drop.json_reader import spread_array
from backhaul_sdk import Fulfillment, StockLevel
from connectors.dropping import FULFILLMENTS, Drop
from connectors.spreadsheets import workbook

CASES = Path(__file__).parent / "cases"
ROW = "1001,DHL,X1\n"
BOM = "\ufeff"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def shipped(drop: Drop) -> list[tuple[str, str | None, str | None]]:
    records = [r for r in drop.records() if isinstance(r, Fulfillment)]
    return [(r.order, r.tracking_company, r.tracking_number) for r in records]


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, FULFILLMENTS + ROW)
    return out.getvalue()


SHEET = workbook(["order"], ["1001"])
OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600
CSV = (FULFILLMENTS + ROW).encode()
KINDS = [
    ("x.xls", (CASES / "18-html.xls").read_bytes(), "is an HTML page", "save it as"),
    ("x.xls", b"\xef\xbb\xbf\n <TABLE><tr>", "is an HTML table", "save it as .xlsx"),
    ("x.csv", b"<!DOCTYPE html><title>Login", "a login or error page", "save it as"),
    ("x.csv", "<html>".encode("utf-16"), "is an HTML page", "save it as .xlsx"),
    ("x.xls", b'<?xml version="1.0"?><?mso-application?><Workbook xmlns="urn:schemas-'
     b'microsoft-com:office:spreadsheet">', "spreadsheet of 2003 in XML", "save it"),
    ("x.csv", b'<?xml version="1.0"?><orders/>', "is an XML document", "save it as"),
    ("x.xls", OLD, "the spreadsheet cannot be read", "save it as .xlsx"),
    ("x.xlsx", OLD, "the spreadsheet cannot be read", "without a password"),
    ("x.xls", b"\x09\x08\x10\x00\x00\x06", "cannot be read", "save it as"),
    ("x.zip", zipped("orders.csv"), "that contains orders.csv", "unpack the"),
    ("x.csv", zipped("a", "b", "c", "d"), "that contains a, b, c", "unpack the"),
    ("x.csv", SHEET, "is a spreadsheet, not CSV", "a name that ends in .xlsx"),
    ("x.xlsx", zipped("orders.csv"), "archive that contains orders.csv", "unpack the"),
    ("x.ods", zipped("mimetype", "content.xml"), "cannot be read", "save it as"),
    ("x.xlsb", zipped("xl/workbook.bin"), "cannot be read", "save it as"),
    ("x.xlsx", CSV, "is text, not a spreadsheet", "ends in .csv"),
    ("x.ods", CSV, "is text, not a spreadsheet", "ends in .csv"),
    ("x.xlsx", b"\x01\x02\x03", "is not a spreadsheet", "save it as .xlsx"),
    ("x.csv", gzip.compress(CSV, mtime=0), "is compressed with gzip", "unpack it"),
    ("x.csv", bz2.compress(CSV), "is compressed with bzip2", "unpack it"),
    ("x.csv", lzma.compress(CSV), "is compressed with xz", "unpack it"),
    ("x.csv", b"%PDF-1.7\n", "is a PDF document", "export the data as CSV"),
    ("x.csv", b"SQLite format 3\0", "is a database", "export the data as CSV"),
    ("x.csv", b"\x89PNG\r\n", "is a picture", "export the data as CSV"),
    ("x.csv", b"PK\x05\x06" + b"\0" * 18, "damaged or empty archive", "save it as"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "what", "to_do"), KINDS, ids=range(len(KINDS))
)
async def test_a_file_of_another_kind_says_what_it_is_and_what_to_do(
    drop: Drop, name: str, content: bytes, what: str, to_do: str
) -> None:
    drop.put(f"fulfillments-{name}", content)
    await drop.pull()
    (reason,) = drop.reasons()
    assert what in reason
    assert to_do in reason
    assert drop.records() == []
    assert f"held/fulfillments-{name}" in drop.files()


async def test_a_separator_line_is_honoured(drop: Drop) -> None:
    drop.options["fulfillments"] = "18-*.csv"
    drop.put("18-sep.csv", (CASES / "18-sep.csv").read_bytes())
    await drop.pull()
    assert shipped(drop) == [("1001", "DHL", "X1")]
    ((record),) = drop.records()
    assert record.locator == "18-sep.csv:3"


@pytest.mark.parametrize(
    "content",
    [
        "sep=;\r\norder;tracking_company;tracking_number\r\n1001;DHL, Bonn;X1\r\n",
        '"sep=;"\norder;tracking_company;tracking_number\n1001;DHL, Bonn;X1\n',
        f"{BOM}SEP=;\norder;tracking_company;tracking_number\n1001;DHL, Bonn;X1\n",
        "sep=^\norder^tracking_company^tracking_number\n1001^DHL, Bonn^X1\n",
        "sep=\t\norder\ttracking_company\ttracking_number\n1001\tDHL, Bonn\tX1\n",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_separator_lines_as_programs_write_them(
    drop: Drop, content: str, encoding: str
) -> None:
    drop.put("fulfillments.csv", content.encode(encoding))
    await drop.pull()
    assert shipped(drop) == [("1001", "DHL, Bonn", "X1")]


@pytest.mark.parametrize("marks", range(4))
async def test_any_number_of_byte_order_marks_is_skipped(
    drop: Drop, marks: int
) -> None:
    drop.put("fulfillments-1.csv", BOM * marks + FULFILLMENTS + ROW)
    drop.put("fulfillments-2.json", BOM * marks + '[{"order": "2"}]')
    drop.put("fulfillments-3.jsonl", BOM * marks + '{"order": "3"}\n')
    await drop.pull()
    assert sorted(order for order, *_ in shipped(drop)) == ["1001", "2", "3"]


TITLES = 'Versandliste vom 31.03.2026\n\n"Mandant: Laden, ""Nord"""\nSeite 1;von 1\n'


async def test_titles_above_the_columns_are_passed_over(drop: Drop) -> None:
    table = "order;tracking_company;tracking_number\n1001;DHL;X1\n,,\n"
    drop.put("fulfillments-1.csv", TITLES + table)
    sheet = workbook(
        ["Shipping list"],
        [],
        ["Order", "Tracking company", "Tracking number"],
        ["1002", "DHL", "X2"],
    )
    drop.put("fulfillments-2.xlsx", sheet)
    await drop.pull()
    assert [order for order, *_ in shipped(drop)] == ["1001", "1002"]
    assert next(r.locator for r in drop.records()) == "fulfillments-1.csv:6"


async def test_the_row_of_the_header_can_be_set(drop: Drop) -> None:
    decoy = "order;tracking_company;tracking_number\n"
    header = "Bestellung;Dienst;order;tracking_company;tracking_number\n"
    drop.put("fulfillments-1.csv", f"{decoy}\n{header}a;b;1001;DHL;X1\n")
    drop.options["header_row"] = 3
    await drop.pull()
    assert shipped(drop) == [("1001", "DHL", "X1")]
    drop.put("fulfillments-2.csv", decoy + "1;2;3\n4;5;6\n")
    await drop.pull()
    assert "is missing" in drop.reasons()[0]


async def test_a_header_row_behind_the_end_is_reported(drop: Drop) -> None:
    drop.options["header_row"] = 9
    drop.put("fulfillments.csv", FULFILLMENTS + ROW)
    await drop.pull()
    assert "line 9, which header_row names, holds no row" in drop.reasons()[0]


async def test_a_file_without_a_header_says_what_to_set(drop: Drop) -> None:
    drop.put("fulfillments.csv", ROW * 3)
    await drop.pull()
    (reason,) = drop.reasons()
    assert "None of the first 20 rows names these columns" in reason
    assert "If the file has no names, set header" in reason
    assert "found: 1001, DHL, X1" in reason


async def test_the_names_of_columns_can_be_set_for_files_without_them(
    drop: Drop,
) -> None:
    drop.options["header"] = ["order", "", "tracking_company", "tracking_number"]
    drop.put("fulfillments-1.csv", "1001;x;DHL;X1\n1002;x;DHL;X2\n")
    drop.put("fulfillments-2.csv", "order;;tracking_company;tracking_number\n3;x;D;Y\n")
    await drop.pull()
    assert [order for order, *_ in shipped(drop)] == ["1001", "1002", "3"]


async def test_rejected_rows_of_a_file_without_names_can_be_dropped_again(
    drop: Drop,
) -> None:
    drop.options["header"] = ["order", "tracking_company", "tracking_number"]
    drop.put("fulfillments.csv", ";DHL;X1\n1002;DHL;X2\n")
    await drop.pull()
    await drop.report()
    rejected = (drop.path / "rejected/fulfillments.rejected.csv").read_text("utf-8-sig")
    drop.put("fulfillments-corrected.csv", rejected.replace(";DHL;X1", "1001;DHL;X1"))
    await drop.pull()
    assert [order for order, *_ in shipped(drop)] == ["1002", "1001"]


@pytest.mark.parametrize("indent", [None, 2])
async def test_an_object_around_the_list_says_what_to_do(
    drop: Drop, indent: int | None
) -> None:
    content = json.dumps({"page": 1, "orders": [{"order": "1"}]}, indent=indent)
    drop.put("fulfillments.json", content)
    await drop.pull()
    (reason,) = drop.reasons()
    assert "the file is one JSON object with a list in 'orders'" in reason


async def test_a_header_setting_that_lacks_a_column_is_reported(drop: Drop) -> None:
    drop.options["header"] = ["order", "tracking_company"]
    drop.put("fulfillments-1.csv", "1001;DHL\n")
    await drop.pull()
    assert "header has no column tracking_number" in drop.reasons()[0]


async def test_a_json_array_is_read(drop: Drop) -> None:
    drop.options["fulfillments"] = "18-*.json"
    drop.put("18-array.json", (CASES / "18-array.json").read_bytes())
    await drop.pull()
    assert shipped(drop) == [("1001", "DHL", "X7")]


@pytest.mark.parametrize(
    ("content", "orders"),
    [
        ('[{"order": "1"},{"order": "2"}]', ["1", "2"]),
        ('  [\r\n{"order":\r\n"1"}\r\n,\r\n{"order": "2"}\r\n]\r\n\r\n', ["1", "2"]),
        ("[]", []),
        ('{\n "order": "1"\n}\n{\n "order": "2"\n}\n', ["1", "2"]),
        ('{"order": "1"}\n{"order": "2"}\n', ["1", "2"]),
        ('{"order": "1"}', ["1"]),
        (json.dumps([{"order": str(n), "x": "y" * 900} for n in range(300)]), None),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_arrays_and_objects_are_read_as_they_come(
    drop: Drop, content: str, orders: list[str] | None, encoding: str
) -> None:
    drop.put("fulfillments.json", content.encode(encoding))
    await drop.pull()
    assert drop.reasons() == []
    expected = [str(n) for n in range(300)] if orders is None else orders
    assert [order for order, *_ in shipped(drop)] == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[{"order": "1"},', "the end of the object is missing"),
        ('[{"order": "1"}, {"order', "after its first 1 objects"),
        ('[{"order": "1"} {"order": "2"}]', "a comma is missing"),
        ('[{"order": "1"}] x', "there is text after the end of the array"),
        ('[{"order": "1"}, oops]', "after its first 1 objects"),
        ('[{"order": "' + "x" * 200_000, "letters"),
        ("[" * 3_000, "write an array of objects"),
    ],
)
async def test_an_array_that_is_broken_is_held(
    drop: Drop, content: str, said: str
) -> None:
    drop.put("fulfillments.json", content)
    await drop.pull()
    assert (said in drop.reasons()[0], drop.records()) == (True, [])


async def test_a_value_that_is_no_object_in_an_array_is_a_bad_row(drop: Drop) -> None:
    drop.put("fulfillments.json", '[{"order": "1"}, 7, null, [1], {"order": "2"}]')
    drop.options["max_bad_share"] = 1
    await drop.pull()
    assert [order for order, *_ in shipped(drop)] == ["1", "2"]
    assert len(drop.reasons()) == 3
    places = [bad.locator for bad in drop.host.bad.values()]
    assert places == [f"fulfillments.json:{n}" for n in (2, 3, 4)]


async def test_a_number_in_an_array_keeps_its_digits(drop: Drop) -> None:
    drop.put("stock-levels.json", '[{"sku": 12345678901234, "quantity": 5.0}]')
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, StockLevel)
    assert (record.sku, record.quantity) == ("12345678901234", 5)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(st.text(), VALUES)),
    st.sampled_from([None, 0, 3]),
    st.booleans(),
)
def test_every_array_becomes_a_line_for_each_object(
    objects: list[dict[str, object]], indent: int | None, ensure_ascii: bool
) -> None:
    text = json.dumps(objects, indent=indent, ensure_ascii=ensure_ascii)
    lines = io.BytesIO()
    content = io.BytesIO(text.encode("utf-8", "surrogatepass"))
    for _ in spread_array(content, lines):
        pass
    read = [json.loads(line) for line in lines.getvalue().decode().split("\n")[:-1]]
    assert read == json.loads(text)


async def test_check_reports_a_file_that_no_pattern_matches(drop: Drop) -> None:
    name = "18-versand-0331.csv"
    drop.put("versand-0331.csv", (CASES / name).read_bytes())
    connector = drop.connector()
    await connector.open()
    await connector.check()
    assert ["'versand-0331.csv' is not read" in n for n in connector.notices()] == [
        True
    ]
