"""`backhaul query` and `export` read the mirror and never write to it."""

from __future__ import annotations

import asyncio
import csv
import errno
import io
import json
import os
import shutil
import stat
import subprocess
import sys
from itertools import count as count_from
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backhaul.cli import query
from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError
from backhaul.store import database_at
from scenes import payloads
from scenes.daemon import backhaul, in_process
from scenes.damaged_rows import overwrite_text
from scenes.databases import locked
from scenes.mirror_files import fill, lone_office, orders
from scenes.stored import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office

DATABASE = "the database"
HOSTILE = '=HYPERLINK("http://x")'


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    """Return an office with 1,300 mirrored orders, one with a formula in a line."""
    line = payloads.item("li_x", sku="-5", title=HOSTILE, quantity=7, unitPrice="-5.00")
    odd = payloads.order("ord_x", number=7, items=[line])
    with lone_office() as found:
        bodies = [payloads.envelope("orders/create", odd), *orders(1_300)]
        asyncio.run(fill(found, *bodies))
        yield found


def ask(office: Office, *arguments: object) -> str:
    said = in_process(*arguments, config=office.config)
    assert said.code == 0, said.err
    return said.out


def test_a_query_is_printed_as_a_table_or_for_programs(office: Office) -> None:
    sql = "SELECT number, name FROM orders WHERE number < 1003 ORDER BY number"
    expected = [(7, "#7"), (1001, "#1001"), (1002, "#1002")]
    shown = ask(office, "query", sql)
    assert [word in shown for word in ("number", "name", "1001", "#1002")] == [True] * 4
    as_json = json.loads(ask(office, "query", sql, "--json"))
    assert [(row["number"], row["name"]) for row in as_json] == expected
    lines = ask(office, "query", sql, "--jsonl").splitlines()
    assert [json.loads(line) for line in lines] == as_json
    table = list(csv.reader(io.StringIO(ask(office, "query", sql, "--csv"))))
    assert table == [["number", "name"], *([str(n), name] for n, name in expected)]


TWINS = "SELECT 1 AS id, 'first' AS word, 2 AS id, 'second' AS word"


def test_columns_of_one_name_keep_their_own_values(office: Office) -> None:
    shown = ask(office, "query", TWINS).split()
    assert [shown.count(word) for word in ("first", "second")] == [1, 1]
    table = list(csv.reader(io.StringIO(ask(office, "query", TWINS, "--csv"))))
    assert table == [["id", "word"] * 2, ["1", "first", "2", "second"]]


@pytest.mark.parametrize("form", ["--json", "--jsonl"])
def test_an_object_is_not_written_with_a_value_too_few(
    form: str, office: Office
) -> None:
    said = in_process("query", TWINS, form, config=office.config)
    assert (said.code, said.out) == (1, "")
    assert "several columns of the result have the same name (id, word)" in said.err
    assert "AS" in said.err


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DELETE FROM orders", "`backhaul query` only reads"),
        ("DROP TABLE orders", "`backhaul query` only reads"),
        ("CREATE TABLE mine(a)", "`backhaul query` only reads"),
        ("INSERT INTO kv VALUES ('fold_cursor', '0')", "query` only reads"),
        ("PRAGMA user_version = 7", "`backhaul query` only reads"),
        ("VACUUM", "query"),
        ("SELECT 1; DELETE FROM orders", "only one SQL statement"),
        ("", "there is no SQL; the statement must begin with SELECT"),
        (" \n", "there is no SQL; the statement must begin with SELECT"),
        ("SELEC 1", "'SELEC 1' does not begin an SQL statement; the statement must"),
        ("(SELECT 1)", "'(SELECT 1)' does not begin an SQL statement"),
        ("EXPLAIN table orders", "'EXPLAIN table orders' does not begin"),
        ("EXPLAIN VACUUM", "refuses VACUUM"),
        ("SELECT * FROM order", "SQLite says"),
        ("SELECT * FROM ordres", "the tables are: open_orders"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
         " SELECT i FROM n", "more than 20,000 rows"),
    ],
)  # fmt: skip
def test_an_invalid_query_is_refused_in_words(
    sql: str, why: str, office: Office
) -> None:
    before = count(office.database, "orders")
    said = in_process("query", sql, config=office.config)
    assert (said.code, said.out) == (1, "")
    assert why in said.err
    assert "a bug" not in said.err
    assert count(office.database, "orders") == before


class FastClock(SystemClock):
    """A clock that advances by a second with every call."""

    def __init__(self) -> None:
        self.looks = count_from(0)

    def monotonic(self) -> float:
        return float(next(self.looks))


def test_a_query_that_takes_too_long_is_stopped(office: Office) -> None:
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT count(*) FROM n"
    )
    clock = FastClock()
    with database_at(office.database).console(clock) as asker:
        with pytest.raises(BackhaulError, match="stopped after 5 s"):
            asker.query(endless)
        assert next(clock.looks) == 7
        assert asker.query("SELECT 1").rows == [(1,)]


def _parsed(form: str, text: str) -> list[dict[str, Any]]:
    if form == "--csv":
        return list(csv.DictReader(io.StringIO(text)))
    if form == "--json":
        found: list[dict[str, Any]] = json.loads(text)
        return found
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("form", ["--csv", "--json", "--jsonl"])
def test_an_export_holds_the_whole_table(
    form: str, office: Office, tmp_path: Path
) -> None:
    out = tmp_path / "lines"
    ask(office, "export", "order_lines", form, "--out", out)
    text = out.read_text("utf-8")
    assert text == ask(office, "export", "order_lines", form).replace("\r\n", "\n")
    found = _parsed(form, text)
    asked = ask(office, "query", "SELECT id FROM order_lines", "--json")
    expected = [row["id"] for row in json.loads(asked)]
    assert sorted(row["id"] for row in found) == sorted(expected)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize("form", ["--csv", "--json", "--jsonl"])
@pytest.mark.parametrize(
    "command",
    [("query", "SELECT name FROM customers ORDER BY id"), ("export", "customers")],
    ids=["query", "export"],
)
def test_a_damaged_text_has_replacement_characters(
    command: tuple[str, str], form: str
) -> None:
    with lone_office() as damaged:
        customers = [
            payloads.envelope("customers/create", payloads.customer(id=f"cus_{number}"))
            for number in range(2)
        ]
        asyncio.run(fill(damaged, *customers))
        overwrite_text(damaged.database, "customers", "name", b"Ash\xff", id="cus_0")
        found = _parsed(form, ask(damaged, *command, form))
    names = [row["name"] for row in found]
    assert (names[0], len(names)) == ("Ash\N{REPLACEMENT CHARACTER}", 2)


def test_internal_columns_stay_inside(office: Office) -> None:
    (first, *_) = ask(office, "export", "orders", "--csv").splitlines()
    assert "document" in first
    assert "digest" not in first


def test_text_that_looks_like_a_formula_is_disarmed(office: Office) -> None:
    text = ask(office, "export", "order_items", "--csv")
    table = {row["id"]: row for row in csv.DictReader(io.StringIO(text))}
    assert table["li_x"]["title"] == f"'{HOSTILE}"
    assert table["li_x"]["sku"] == "'-5"
    assert table["li_x"]["unit_price_minor"] == "-500"
    asked = ask(
        office, "query", "SELECT title FROM order_lines WHERE sku='-5'", "--csv"
    )
    assert f"'{HOSTILE}" in asked.replace('""', '"')


@example("\r=1")
@example("\t=1")
@example(b"@SUM(A1)")
@given(st.text() | st.integers() | st.floats(allow_nan=False) | st.binary())
def test_no_cell_of_text_begins_like_a_formula(value: object) -> None:
    cell = query.cell(value)
    if isinstance(value, str | bytes):
        assert str(cell)[:1] not in {"=", "+", "-", "@", "\t", "\r"}
        assert cell in {_decoded(value), f"'{_decoded(value)}"}
    else:
        assert cell is value


def _decoded(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def test_a_file_is_replaced_whole_or_stays(office: Office, tmp_path: Path) -> None:
    out = tmp_path / "orders.csv"
    out.write_text("yesterday's")
    said = in_process("export", "nothing", "--out", out, config=office.config)
    assert "there is no table or view 'nothing' to export" in said.err
    with pytest.raises(ZeroDivisionError):
        _break_off(out)
    assert out.read_text() == "yesterday's"
    assert [path.name for path in tmp_path.iterdir()] == ["orders.csv"]


def test_a_full_disk_is_reported_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with (
        pytest.raises(BackhaulError, match=r"orders.csv: cannot be written: No space"),
        query.open_output(tmp_path / "orders.csv"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    """The same holds for a device: root could have replaced /dev/null by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with query.open_output(pipe) as stream:
            stream.write("a row\n")
        assert pipe.is_fifo()
        assert os.read(reader, 100) == b"a row\n"
    finally:
        os.close(reader)


def test_a_folder_in_place_of_the_file_is_reported(
    office: Office, tmp_path: Path
) -> None:
    said = in_process("export", "orders", "--out", tmp_path, config=office.config)
    assert said.code == 1
    assert f"{tmp_path}: cannot be written: Is a directory" in said.err


def _break_off(out: Path) -> None:
    with query.open_output(out) as opened:
        opened.write("half")
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("export", "orders; DROP TABLE orders"), "there is no table"),
        (("export", "kv"), "there is no table"),
        (("export", "orders", "--csv", "--json"), "choose one"),
        (("export", "orders", "--out", "/nowhere/at/all.csv"), "create the folder"),
    ],
)
def test_an_export_that_cannot_be_is_refused(
    arguments: tuple[str, ...], why: str, office: Office
) -> None:
    said = in_process(*arguments, config=office.config)
    assert said.code == 1
    assert why in said.err


@pytest.mark.programs
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_pipe_gets_utf_8_whatever_the_locale(encoding: str, office: Office) -> None:
    """Otherwise a letter outside of the locale would cause a crash."""
    command = [sys.executable, "-m", "backhaul", "query", "SELECT 'Łódź ₹'", "--csv"]
    done = subprocess.run(
        [*command, "--config", str(office.config)],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines()[1] == "Łódź ₹"


@pytest.mark.programs
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
@pytest.mark.parametrize(
    ("sql", "code", "shown"),
    [("SELECT 'Łódź'".encode(), 0, "Łódź"), (b"SELECT '\xff'", 1, "is not UTF-8")],
    ids=["text", "no-text"],
)
def test_a_statement_on_stdin_is_utf_8(
    sql: bytes, code: int, shown: str, encoding: str, office: Office
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "backhaul", "query", "-", "--config", office.config],
        input=sql,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert done.returncode == code
    assert shown in (done.stdout + done.stderr).decode()
    assert b"a bug" not in done.stderr


@pytest.mark.programs
def test_a_reader_that_goes_away_is_no_bug(office: Office) -> None:
    command = f"{sys.executable} -m backhaul export orders --config {office.config}"
    done = subprocess.run(
        ["sh", "-c", f"{command} | head -1"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("store,id,number")
    assert done.stderr == ""


def _readers() -> dict[str, list[str]]:
    """Return the installed programs that can open a database."""
    scripts = Path(sys.executable).parent
    shell = shutil.which("sqlite3")
    question = "SELECT * FROM open_orders"
    found = {
        "sqlite-utils": [str(scripts / "sqlite-utils"), "query", DATABASE, question],
        "sqlite3": [shell or "", "-readonly", "-json", DATABASE, question],
    }
    return {name: command for name, command in found.items() if command[0]}


@pytest.mark.parametrize("reader", _readers())
async def test_other_programs_read_beside_a_writer(reader: str, office: Office) -> None:
    database = str(office.database)
    command = [database if w == DATABASE else w for w in _readers()[reader]]
    with locked(office.database):
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
    assert process.returncode == 0
    assert {row["units_to_ship"] for row in json.loads(out)} == {2, 7}


@pytest.mark.programs
def test_the_installed_program_runs_a_query(office: Office) -> None:
    said = backhaul("query", "SELECT count(*) AS n FROM orders", config=office.config)
    assert (said.code, said.err) == (0, "")
    assert "1301" in said.out
