"""CSV dialects: encodings, delimiters, quotes and line ends."""

from __future__ import annotations

import csv
import io
import string
from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backhaul_connectors.file_drop.csv_reader import (
    DELIMITERS,
    MAX_ROW_BYTES,
    CsvRow,
    Position,
    RowReader,
    sniff_delimiter,
    unreadable,
)

LINE_ENDS = ("\n", "\r\n")
CP1252 = [bytes([n]).decode("cp1252", "ignore") for n in range(0xA0, 0x100)]
LETTERS = string.ascii_letters + string.digits + " ,;|\t'\"=+-@"
# Every delimiter, quotes and line ends inside of cells are meant to come up often.
pieces = st.sampled_from([*LETTERS, "\n", "\r\n", *CP1252])
# Some pairs of these letters are another one that was stored as UTF-8 twice.
cells = st.lists(pieces, max_size=12).map("".join).filter(lambda c: not unreadable(c))
full_cells = cells.filter(lambda cell: bool(cell.strip()))
any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def written(rows: list[list[str]], delimiter: str, line_end: str, quoting: int) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(
        out,
        delimiter=delimiter,
        lineterminator=line_end,
        quoting=csv.QUOTE_ALL if quoting else csv.QUOTE_MINIMAL,
    )
    writer.writerows(rows)
    return out.getvalue()


def read(content: bytes, encoding: str = "utf-8", delimiter: str = ",") -> list[CsvRow]:
    return list(RowReader(io.BytesIO(content), encoding, delimiter))


@given(
    rows=st.lists(st.tuples(full_cells, cells, cells).map(list), max_size=8),
    delimiter=st.sampled_from(DELIMITERS),
    line_end=st.sampled_from(LINE_ENDS),
    quoting=st.integers(0, 1),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "cp1252"]),
    ends=st.booleans(),
)
def test_the_output_of_a_csv_writer_is_read_back(
    rows: list[list[str]],
    delimiter: str,
    line_end: str,
    quoting: int,
    encoding: str,
    ends: bool,
) -> None:
    text = written(rows, delimiter, line_end, quoting)
    content = (text if ends else text.removesuffix(line_end)).encode(encoding)
    found = read(content, encoding.removesuffix("-sig"), delimiter)
    assert [row.problem for row in found] == [""] * len(rows)
    assert [list(row.cells) for row in found] == rows


@given(rows=st.lists(st.tuples(full_cells, cells).map(list), min_size=1, max_size=8))
def test_each_row_knows_its_line_and_its_text(rows: list[list[str]]) -> None:
    text = written(rows, ",", "\n", 1)
    lines = io.StringIO(text, newline="\n").readlines()
    for row in read(text.encode()):
        after = "".join(lines[row.line - 1 :])
        assert row.text
        assert after.startswith(row.text)


@given(
    rows=st.lists(st.tuples(full_cells, cells).map(list), max_size=8),
    limit=st.integers(1, 4),
)
def test_reading_in_chunks_equals_reading_at_once(
    rows: list[list[str]], limit: int
) -> None:
    content = written(rows, ",", "\n", 0).encode("utf-8-sig")
    position, found = Position(), list[CsvRow]()
    for _ in range(len(rows) + 1):
        reader = RowReader(io.BytesIO(content), "utf-8", ",", position)
        found += islice(reader, limit)
        position = reader.position
    assert [row.cells for row in found] == [tuple(row) for row in rows]
    assert [row.line for row in found] == [row.line for row in read(content)]
    assert position.row == len(rows)


@given(noise=st.binary(max_size=200), encoding=st.sampled_from(["utf-8", "cp1252"]))
@example(noise=b'"', encoding="utf-8")
@example(noise=b'""\r"\n', encoding="utf-8")
@example(noise=b"\xef\xbb\xbf", encoding="utf-8")
def test_no_bytes_break_the_reader(noise: bytes, encoding: str) -> None:
    for row in read(noise, encoding):
        assert row.line >= 1
        assert row.problem or row.cells


@given(text=any_text)
def test_a_broken_row_leaves_the_others_alone(text: str) -> None:
    broken = text.replace('"', "").replace("\n", "").replace("\r", "")
    content = f'1001,a\n1002,"{broken}\n1003,c\n1004,"d"\n1005,"e""f"\n'
    found = {row.line: row for row in read(content.encode())}
    assert found[2].problem
    assert [found[line].cells[0] for line in (1, 3, 4, 5)] == [
        "1001",
        "1003",
        "1004",
        "1005",
    ]


@given(
    delimiter=st.sampled_from(DELIMITERS),
    more=st.lists(st.text(string.ascii_letters + ",;|", max_size=5), max_size=3),
)
def test_the_delimiter_is_found(delimiter: str, more: list[str]) -> None:
    header = written([["Order", "re-stock", *more, "reason"]], delimiter, "\n", 0)
    known = {"order", "re_stock", "reason"}
    assert sniff_delimiter(io.BytesIO(header.encode()), "utf-8", known) == delimiter


def test_a_quoted_cell_keeps_its_line_ends() -> None:
    (row,) = read(b'1001,"a\rb\r\nc\nd"\r\n')
    assert row.cells == ("1001", "a\rb\r\nc\nd")


def test_undecodable_bytes_spoil_their_row_only() -> None:
    first, second, third = read(b"1001,Caf\xc3\xa9\n1002,Caf\xe9\n1003,x\n")
    assert first.cells == ("1001", "Café")
    assert "not valid text" in second.problem
    assert third.cells == ("1003", "x")


def test_bytes_that_windows_does_not_know_spoil_their_row_only() -> None:
    first, second = read(b"1001,Caf\xe9\n1002,\x81\n", "cp1252")
    assert first.cells == ("1001", "Café")
    assert "not valid text" in second.problem


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_monstrous_line_spoils_itself_only(line_end: str) -> None:
    long = "1002," + "x" * 3 * MAX_ROW_BYTES
    content = line_end.join(["1001,a", long, "1003,c", ""]).encode()
    first, second, third = read(content)
    assert (first.cells, third.cells) == (("1001", "a"), ("1003", "c"))
    assert "longer than" in second.problem
    assert len(second.text) < 1_000
    assert third.line == 3


def test_a_quoted_monstrous_line_spoils_itself_only() -> None:
    long = b'"b\n' + b"x" * MAX_ROW_BYTES + b'"\n'
    found = read(b"1001,a\n1002," + long + b"1003,c\n")
    assert [row.cells for row in found if not row.problem] == [
        ("1001", "a"),
        ("1003", "c"),
    ]
    assert [row.line for row in found] == [1, 2, 3, 4]


def test_a_quote_that_stays_open_too_long_spoils_its_row_only() -> None:
    content = '1001,"a\n' + "".join(f"{n},b\n" for n in range(200))
    first, *others = read(content.encode())
    assert first.problem
    assert len(others) == 200
